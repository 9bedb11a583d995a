import assert from "node:assert/strict";
import { formatOfContent, looksLogged } from "../../../src/readers/content.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("content: the format of a file whose name says nothing, and whether it is a training's", () => {
  const cases: [text: string, format: string | undefined, isLogged: boolean][] = [
    ['{"step": 1, "loss": 0.5}\n{"st', "jsonl", true],
    ['{"iteration": 1, "x": 0.5}\n', "jsonl", true],
    ['{"name": "a", "n": 5}\n', "jsonl", false],
    ['{\n "step": 1\n}\n', undefined, false],
    ['{"step": 1', undefined, false],
    ["epoch,loss\n1,0.5\n", "csv", true],
    ["epoch;val_loss\n1;0,5\n", "csv", true],
    ["x\ty\n1\t2\n", "csv", false],
    ["name,city\nA,B\n", undefined, false],
    ["0.5,10\n0.6,20\n", undefined, false],
    ["starting\nstep 1 loss 0.5\n", "text", false],
    ["Dear all,\nsee you at 10:30, room 5.\n", undefined, false],
    ["PK\0\0\n", undefined, false],
    ["", undefined, false],
  ];
  for (const [text, format, isLogged] of cases) {
    assert.equal(formatOfContent(bytes(text)), format, text);
    assert.equal(looksLogged(bytes(text)), isLogged, text);
  }
});
