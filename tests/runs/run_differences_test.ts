import { strict as assert } from "node:assert";
import { rowsWithoutSecrets } from "../../src/runs/run_differences.ts";

Deno.test("compare: that secrets differ is shown, and not how", () => {
  const rows = [
    { name: "environment.API_KEY", values: ["abc", ""] },
    { name: "arguments", values: ['["--token","abc"]', "[not a list"] },
    { name: "metadata.credentials.user", values: ["abc", "abcd"] },
    { name: "metadata.stages", values: ['[{"password":"abc"}]', "[]"] },
  ];
  const shown = rowsWithoutSecrets(rows).map((r) => r.values);
  assert.ok(!JSON.stringify(shown).includes("abc"));
  assert.equal(shown[0]![1], "");
  assert.equal(shown[1]![1], "[not a list");
});
