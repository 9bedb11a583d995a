import assert from "node:assert/strict";
import { carry } from "../../src/os/processes/shell.ts";
import { findProgram } from "../../src/proxy/worker/program.ts";
import { until } from "../harness/wait.ts";

const SHELL = new URL("../../src/os/processes/shell.ts", import.meta.url).href;

/**
 * The nice value of a program that a process of that value starts detached; and of that process.
 */
async function levels(nice: number): Promise<{ own: number; started: number }> {
  const output = Deno.makeTempFileSync();
  try {
    const program = `import { shellOutput, startDetached } from "${SHELL}";
      const level = "read -r stat </proc/$$/stat; set -- $stat; shift 18; echo $1";
      console.log(shellOutput(level));
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
    await until(() => Deno.readTextFileSync(output).includes("\n\n"), {
      what: "the detached program",
    });
    return {
      own: Number(new TextDecoder().decode(stdout)),
      started: Number(Deno.readTextFileSync(output)),
    };
  } finally {
    Deno.removeSync(output);
  }
}

/** Of the process that runs the tests, which need not be 0. */
function ownLevel(): number {
  return Number(Deno.readTextFileSync("/proc/self/stat").split(") ")[1]!.split(" ")[16]);
}

Deno.test("what is started detached does not inherit a precedence over others; a lower one it keeps", async () => {
  const given = ownLevel();
  const raised = await levels(-5 - given);
  // Without the right to it, `nice` goes on as the test is.
  assert.ok(raised.own === -5 || raised.own === given, `${raised.own}`);
  assert.equal(raised.started, Math.max(0, raised.own));
  const lowered = Math.min(19, Math.max(0, given) + 5);
  assert.deepEqual(await levels(lowered - given), { own: lowered, started: lowered });
});

Deno.test("carried variables: every shell gives them exactly their values, and imports none of them itself", () => {
  const env = {
    ...{
      PATH: "/usr/bin:/bin",
      IFS: "_0123456789",
      EMPTY: "",
      LINES: "a' \" $(id) `id`\n\\ b",
      _mosaic_0: "of the program",
    },
    ...{
      UID: "77",
      OPTIND: "none",
      "a.b": "dot",
      "BASH_FUNC_unset%%": "() { echo imported; }",
      "-x": "option",
    },
  };
  const { env: carried, apply } = carry(env);
  for (const shell of [["dash"], ["bash"], ["bash", "--posix"], ["busybox", "sh"]]) {
    if (!("path" in findProgram(shell[0]!, "/", env.PATH))) {
      console.log(`SKIPPED: ${shell[0]} is not installed`);
      continue;
    }
    const { stdout } = new Deno.Command(shell[0]!, {
      args: [...shell.slice(1), "-c", `${apply}exec "$@"`, "sh", "/usr/bin/env", "-0"],
      env: carried,
      clearEnv: true,
    }).outputSync();
    const lines = new TextDecoder().decode(stdout).split("\0").filter((line) =>
      !/^(PWD|SHLVL|_)=|^$/.test(line)
    );
    assert.deepEqual(
      lines.sort(),
      Object.entries(env).map(([name, value]) => `${name}=${value}`).sort(),
      shell.join(" "),
    );
  }
});
