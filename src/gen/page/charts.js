import{a}from"./shared1.js";import"./shared7.js";import"./shared2.js";export{a as Charts};
