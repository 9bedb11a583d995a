/** The tutorial's pages, run from their own text, in the order in which a reader follows them. */
import assert from "node:assert/strict";
import { folderOf, manualPages } from "../../src/manual/pages.ts";
import { PROGRAM } from "../harness/daemon.ts";
import { pythonTest } from "../python/python.ts";
import { comparable, missingLine, partsOf } from "./console_page.ts";

Deno.test("console page: files by the paragraph before them, commands with what they print, differences that do not count", () => {
  const parts = partsOf(
    "Make `a/b.py`, then run it:\n\n```python\nx = 1\n```\n\n```console\n$ one \\\n> two\nout 3\n$ three\n```\n",
  );
  assert.deepEqual(parts, [
    { file: { name: "a/b.py", text: "x = 1\n" } },
    { command: { command: "one \\\ntwo", printed: ["out 3"] } },
    { command: { command: "three", printed: [] } },
  ]);
  assert.throws(() => partsOf("No file:\n\n```python\nx = 1\n```\n"), /names no file/);
  assert.equal(comparable("01M8D9D5A51822CBSDJ44Q7ZXF  FAULTED: 1.5s"), "ID FAULTED: N");
  assert.equal(missingLine(["a 1", "b"], "a 22\nc\nb\n"), undefined);
  assert.equal(missingLine(["b", "a 1"], "a 22\nb\n"), "a 1");
});

/** `mosaic` on the PATH, for which `up` takes free ports: those of the text may be in use. */
function program(directory: string): string {
  const words = PROGRAM.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
  const path = `${directory}/bin`;
  Deno.mkdirSync(path);
  const text = `#!/bin/sh
if [ "$1" = up ]; then shift; set -- up --http 127.0.0.1:0 --listen none "$@"; fi
exec ${words} "$@"
`;
  Deno.writeTextFileSync(`${path}/mosaic`, text, { mode: 0o755 });
  return path;
}

pythonTest(
  "tutorial: each page does what it says, from its own text",
  ["numpy", "gymnasium", "tensorboardX"],
  async (python) => {
    const directory = Deno.makeTempDirSync({ prefix: "mosaic-tutorial-" });
    const path = program(directory);
    // A link to the interpreter would leave its environment, and the packages there.
    Deno.writeTextFileSync(`${path}/python3`, `#!/bin/sh\nexec '${python}' "$@"\n`, {
      mode: 0o755,
    });
    const work = `${directory}/work`;
    Deno.mkdirSync(work);
    const env = {
      PATH: `${path}:${Deno.env.get("PATH")}`,
      HOME: directory,
      MOSAIC_STATE_DIR: `${directory}/state`,
      NO_COLOR: "1",
      PYTHONDONTWRITEBYTECODE: "1",
    };
    const run = async (command: string) => {
      const { stdout, stderr } = await new Deno.Command("/bin/sh", {
        args: ["-c", command],
        cwd: work,
        env,
        stdin: "null",
        signal: AbortSignal.timeout(120_000),
      }).output();
      const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      return { out: out!, err: err! };
    };
    try {
      const pages = (await manualPages()).filter(({ name }) => folderOf(name) === "tutorial");
      assert.ok(pages.length >= 3);
      for (const page of pages) {
        for (const part of partsOf(page.text)) {
          if ("file" in part) {
            Deno.writeTextFileSync(`${work}/${part.file.name}`, part.file.text);
            continue;
          }
          const { command, printed } = part.command;
          const { out, err } = await run(command);
          // `mosaic up` speaks to a person.
          const missing = missingLine(printed, `${out}${err}`);
          assert.equal(
            missing,
            undefined,
            `${page.name}: $ ${command}\nhas no line like: ${missing}\nbut\n${out}\n${err}`,
          );
        }
      }
    } finally {
      await run("mosaic down");
      Deno.removeSync(directory, { recursive: true });
    }
  },
);
