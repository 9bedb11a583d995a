import assert from "node:assert/strict";
import { csv } from "../../../src/base/text/csv_text.ts";
import { fieldNames } from "../../../src/cli/text/records.ts";
import { FileSource, isExportedFile } from "../../../src/readers/files/file_source.ts";

Deno.test("file source: an export in the place of a program's file is reported once and not read; what follows it is", () => {
  const directory = Deno.makeTempDirSync();
  const path = `${directory}/metrics.csv`;
  const exported = csv(fieldNames("metrics"), [[1, "01", "loss", 5, 1, ""]]);
  try {
    Deno.writeTextFileSync(path, "step,loss\n1,5\n");
    assert.equal(isExportedFile(path, directory, undefined), false);
    const source = FileSource.at(path, directory, "metrics.csv", 0);
    /** Until nothing is left. */
    const read = () => {
      const values: unknown[] = [];
      const problems: string[] = [];
      for (let chunk; (chunk = source.read(1 << 16, false)) !== undefined;) {
        values.push(...chunk.records.map((record) => record.kind === "scalar" && record.value));
        problems.push(...chunk.problems.map(({ what, detail }) => `${what}: ${detail}`));
        source.advance();
      }
      return { values, problems };
    };
    assert.deepEqual(read(), { values: [5], problems: [] });
    Deno.writeTextFileSync(path, exported);
    assert.ok(isExportedFile(path, directory, undefined));
    const problems = [
      "replaced: mosaic export has overwritten it; what it contains now is not read",
    ];
    assert.deepEqual(read(), { values: [], problems });
    Deno.writeTextFileSync(path, exported.repeat(2));
    assert.deepEqual(read(), { values: [], problems: [] });
    Deno.writeTextFileSync(path, "step,loss\n1,5\n2,4\n");
    // A table that is written anew gives further rows at the next read.
    assert.deepEqual([...read().values, ...read().values], [4]);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("file source: a file that is no log is reported once, with the number of its lines, and again only if that doubles", () => {
  const directory = Deno.makeTempDirSync();
  const path = `${directory}/result.json`;
  try {
    const lines = (n: number) =>
      Deno.writeTextFileSync(path, JSON.stringify(Array(n).fill(0), null, 1));
    lines(30_000);
    const source = FileSource.at(path, directory, "result.json", 0);
    const read = (end: boolean) => {
      const found: [string, number][] = [];
      for (let chunk; (chunk = source.read(1 << 16, end)) !== undefined;) {
        found.push(...chunk.problems.map(({ what, count }): [string, number] => [what, count]));
      }
      return found;
    };
    assert.deepEqual(read(false), [["corrupt", 30_001]]);
    assert.deepEqual(read(true), []);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
