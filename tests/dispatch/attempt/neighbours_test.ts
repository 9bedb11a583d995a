import assert from "node:assert/strict";
import { companyOf } from "../../../src/dispatch/attempt/state/neighbours.ts";

Deno.test("neighbours: who works in the same directory, and who in one below", () => {
  const cases: [
    what: string,
    cwd: string,
    others: string[],
    shared: boolean,
    same: boolean,
    below: string[],
  ][] = [
    ["nobody else", "/p", [], false, false, []],
    ["elsewhere, with a name that begins alike", "/p", ["/q", "/p2", "/"], false, false, []],
    ["in the same", "/p", ["/p"], true, true, []],
    ["in the same, written otherwise", "/p/", ["/p"], true, true, []],
    ["above", "/p/sub", ["/p"], true, false, []],
    ["below, several in one", "/p", ["/p/sub/a", "/p/sub/a", "/p/b/"], true, false, ["sub/a", "b"]],
    ["all of these", "/p/sub", ["/p", "/p/sub", "/p/sub/x"], true, true, ["x"]],
    ["in the daemon's directory, which is not known here", "", ["/p", ""], true, true, []],
  ];
  for (const [what, cwd, others, shared, same, below] of cases) {
    const company = { shared, others: others.length > 0, neighbours: { same, below } };
    assert.deepEqual(companyOf(cwd, others), company, what);
  }
});
