import{a,b}from"./shared6.js";import"./shared8.js";import"./shared2.js";export{a as LiveTiles,b as Wall};
