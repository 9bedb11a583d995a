/** Programs that do not end: the call does, and a second one is not started beside the first. */
import assert from "node:assert/strict";
import {
  ProgramLate,
  runProgram,
  shellOutputLater,
} from "../../src/os/processes/external_program.ts";
import { outputAs } from "../../src/os/rights/user_shell.ts";
import { identityOf } from "../../src/os/processes/identity.ts";
import { until } from "../harness/wait.ts";

const SRC = new URL("../../src/", import.meta.url).pathname;
const env = { PATH: Deno.env.get("PATH")! };
const sh = (script: string, ...words: string[]) => ["sh", "-c", script, ...words];

async function withDirectory(work: (directory: string) => Promise<void>): Promise<void> {
  const directory = Deno.makeTempDirSync({ dir: "/tmp", prefix: "mosaic-program-" });
  try {
    await work(directory);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

Deno.test("program: output, code and exactly its environment", async () => {
  const { code, stdout, stderr } = await runProgram(sh("env | grep -c HOME; echo no >&2; exit 3"), {
    env,
    limitMs: 60_000,
  });
  assert.deepEqual([code, stdout, stderr], [3, "0\n", "no\n"]);
  assert.equal((await runProgram(["/no/such/program"], { env, limitMs: 60_000 })).code, 127);
});

Deno.test("program: one that ignores SIGTERM is killed, and the call says how long it has waited", async () => {
  await withDirectory(async (directory) => {
    const script = 'trap "" TERM; echo $$ >"$0"; while :; do sleep 1; done';
    await assert.rejects(
      runProgram(sh(script, `${directory}/pid`), { env, limitMs: 300 }),
      (error) =>
        error instanceof ProgramLate && /^sh has not answered in 0.3 s$/.test(error.message),
    );
    assert.equal(
      identityOf(Number(Deno.readTextFileSync(`${directory}/pid`))),
      undefined,
      "it is dead",
    );
  });
});

Deno.test("program: a process it has left behind, which holds its output, does not hold the call", async () => {
  await withDirectory(async (directory) => {
    const script = 'echo answer; setsid sleep 600 & echo $! >"$0"';
    const { code, stdout } = await runProgram(sh(script, `${directory}/pid`), {
      env,
      limitMs: 500,
    });
    Deno.kill(Number(Deno.readTextFileSync(`${directory}/pid`)), "SIGKILL");
    assert.deepEqual([code, stdout], [0, "answer\n"]);
  });
});

Deno.test("program: what no signal ends is given up, and not started again while it is there", async () => {
  if (Deno.uid() !== 0) {
    console.error("SKIPPED: a program that cannot be killed: only root can start one");
    return;
  }
  await withDirectory(async (directory) => {
    Deno.chmodSync(directory, 0o755);
    // To another user it cannot be killed, as a process inside a driver cannot.
    const program = `${directory}/stuck`;
    Deno.writeTextFileSync(
      `${directory}/call.ts`,
      `import { runProgram } from "${SRC}os/processes/external_program.ts";
       const env = { PATH: Deno.env.get("PATH") };
       for (let i = 0; i < 2; i++) {
         const began = performance.now();
         await runProgram(["${program}", "--reuid=0", "sleep", "617"], { env, limitMs: 300 }).catch((error) => console.log(error.message));
         console.log(performance.now() - began < 5000 ? "soon" : "late");
       }`,
    );
    Deno.copyFileSync("/usr/bin/setpriv", program);
    Deno.chmodSync(program, 0o4755);
    const bundle = new Deno.Command(Deno.execPath(), {
      args: ["bundle", "-q", "--no-lock", "-o", `${directory}/call.js`, `${directory}/call.ts`],
      env: { NO_COLOR: "1" },
    });
    const made = await bundle.output();
    assert.ok(made.success, new TextDecoder().decode(made.stderr));
    Deno.copyFileSync(Deno.execPath(), `${directory}/deno`);
    Deno.chmodSync(`${directory}/deno`, 0o755);
    const out = await new Deno.Command("setpriv", {
      args: [
        ...[
          "--reuid=65534",
          "--regid=65534",
          "--clear-groups",
          `${directory}/deno`,
          "run",
          "-A",
          "--no-check",
        ],
        `${directory}/call.js`,
      ],
      cwd: directory,
      env: {
        DENO_DIR: "/nonexistent",
        HOME: "/nonexistent",
        NO_COLOR: "1",
        DENO_NO_UPDATE_CHECK: "1",
      },
    }).output();
    const said = new TextDecoder().decode(out.stdout);
    for (const { name } of Deno.readDirSync("/proc")) {
      const command = /^\d+$/.test(name)
        ? await Deno.readTextFile(`/proc/${name}/cmdline`).catch(() => "")
        : "";
      if (command === "sleep\x00617\x00") Deno.kill(Number(name), "SIGKILL");
    }
    assert.match(
      said,
      /stuck has not answered in 0.3 s\nsoon\n.*stuck was killed at .* and has still not ended, so it is not started again\nsoon\n$/,
      new TextDecoder().decode(out.stderr),
    );
  });
});

Deno.test("program: the whole group of a program that starts others is ended; endless output ends it, too", async () => {
  await withDirectory(async (directory) => {
    const script = 'sleep 600 & echo $! >"$0"; wait';
    await assert.rejects(
      runProgram(sh(script, `${directory}/pid`), { env, limitMs: 300, group: true }),
      ProgramLate,
    );
    const child = Number(Deno.readTextFileSync(`${directory}/pid`));
    await until(() => identityOf(child) === undefined, { what: "the child to end" });
  });
  await assert.rejects(runProgram(["yes"], { env, limitMs: 2000 }), /printed more than 64 MiB/);
});

Deno.test("program: a caller that stops ends it, and starts none afterwards", async () => {
  const stop = new AbortController();
  const running = runProgram(["sleep", "600"], { env, limitMs: 600_000, signal: stop.signal });
  stop.abort();
  await assert.rejects(running, /sleep was ended before it had answered/);
  await assert.rejects(
    runProgram(["sleep", "0"], { env, limitMs: 600_000, signal: stop.signal }),
    /is not started any more/,
  );
});

Deno.test("program: a script's output, or undefined where it fails", async () => {
  assert.equal(await shellOutputLater('echo "$0 $1"', "a", "b"), "a b\n");
  assert.equal(await shellOutputLater("exit 1"), undefined);
});

Deno.test("program: a script that looks at names of a config's is killed where they are on a file system that does not answer", () => {
  assert.equal(outputAs(undefined, "exec sleep 600"), undefined);
  assert.equal(outputAs(undefined, 'echo "$0 $1"', "a", "b"), "a b\n");
});
