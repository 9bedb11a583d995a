import assert from "node:assert/strict";
import { until } from "../harness/wait.ts";

const SHELL = new URL("../../src/os/shell.ts", import.meta.url).href;

/** The nice value of a program that a process of that value starts detached; and of that process. */
async function levels(nice: number): Promise<{ own: number; started: number }> {
  const output = Deno.makeTempFileSync();
  try {
    const program = `import { askShell, startDetached } from "${SHELL}";
      const level = "read -r stat </proc/$$/stat; set -- $stat; shift 18; echo $1";
      console.log(askShell(level));
      startDetached(["/bin/sh", "-c", level + "; echo"], { PATH: Deno.env.get("PATH") }, "${output}");`;
    const { stdout } = await new Deno.Command("nice", {
      args: [
        "-n",
        String(nice),
        Deno.execPath(),
        "run",
        "-A",
        "--no-check",
        `data:text/typescript,${encodeURIComponent(program)}`,
      ],
    }).output();
    await until(() => Deno.readTextFileSync(output).includes("\n\n"), { what: "the detached program" });
    return { own: Number(new TextDecoder().decode(stdout)), started: Number(Deno.readTextFileSync(output)) };
  } finally {
    Deno.removeSync(output);
  }
}

Deno.test("what is started detached does not inherit a precedence over others; a lower one it keeps", async () => {
  const { own, started } = await levels(-5);
  // Without the right to it, `nice` goes on at 0.
  assert.ok(own === -5 || own === 0, `${own}`);
  assert.equal(started, 0);
  assert.deepEqual(await levels(5), { own: 5, started: 5 });
});
