import{c as a}from"./shared3.js";import"./shared4.js";import"./shared10.js";import"./shared2.js";export{a as Insight};
