import{c as a}from"./shared3.js";import"./shared4.js";import"./shared11.js";import"./shared2.js";export{a as Insight};
