/**
 * A daemon that outlives its terminal: `mosaic up`, `mosaic daemon &`, and the question of `mosaic
 * run`.
 */
import assert from "node:assert/strict";
import { runCli } from "../../src/cli/cli.ts";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { logoutOf, logoutWarning } from "../../src/daemon/start/detach.ts";
import { Layout } from "../../src/base/layout.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { findProgram } from "../../src/proxy/worker/program.ts";
import { configOf } from "../harness/configs.ts";
import { PROGRAM } from "../harness/daemon.ts";
import { killProcessesOf } from "../harness/processes.ts";
import { until } from "../harness/wait.ts";
import { mosaic } from "../system/machine/cli.ts";
import { fakeApi, fakeWorld } from "./fakes.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";

const SCRIPT = new URL("on_a_terminal.py", import.meta.url).pathname;
const hasPython = "path" in findProgram("python3", "/", "/usr/bin:/usr/local/bin:/bin");
if (!hasPython) {
  console.log("MISSING HERE: python3, which makes terminals: nothing is tried on one");
}

const OPTIONS = ["--listen", "none", "--http", "127.0.0.1:0", "--gpus", "0"];
const quoted = (words: readonly string[]) =>
  words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");

/** A terminal in which a shell runs `command`. */
class Terminal implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #typing: WritableStreamDefaultWriter<Uint8Array>;
  readonly #ended: Promise<void>;
  shown = "";

  constructor(command: string) {
    const child = new Deno.Command("python3", {
      args: [SCRIPT, command],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#child = child;
    this.#typing = child.stdin.getWriter();
    this.#ended = (async () => {
      for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
        this.shown += text;
      }
    })();
  }

  async type(text: string): Promise<void> {
    await this.#typing.write(new TextEncoder().encode(text));
  }

  async shows(text: string): Promise<void> {
    await until(() => this.shown.includes(text), { what: `"${text}"`, state: () => this.shown });
  }

  async close(): Promise<void> {
    await this.#typing.close().catch(() => {});
    await this.#ended;
    await this.#child.status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

async function inState(work: (stateDir: string, layout: Layout) => Promise<void>): Promise<void> {
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
  try {
    await work(stateDir, new Layout(stateDir));
  } finally {
    await killProcessesOf(stateDir);
    Deno.removeSync(stateDir, { recursive: true });
  }
}

interface Announced {
  pid: number;
  socket: string;
}
const announced = (layout: Layout): Announced | undefined =>
  JSON.parse(readTextIfThere(layout.daemonJson) ?? "null") ?? undefined;

/** Submits a run, and resolves when it has ended well. */
async function runsOn({ socket }: Announced): Promise<void> {
  const client = new MosaicClient(`unix:${socket}`);
  try {
    const configJson = configOf({ command: ["true"] });
    const { runId } = await client.unary(TrainerService.method.submitRun, { configJson });
    await until(async () => {
      const { state } = await client.unary(Mosaic.method.getRun, { run: runId });
      return state === "TERMINATED";
    }, { what: "the end of the run" });
  } finally {
    client.close();
  }
}

for (
  const [name, words, background] of [
    ["mosaic daemon & in a terminal", ["daemon"], " & wait"],
    ["mosaic up in a terminal", ["up"], ""],
    ["mosaic daemon --detach in a terminal", ["daemon", "--detach"], ""],
  ] as const
) {
  Deno.test({
    name: `background: ${name} that is closed: the daemon goes on, and so does its queue`,
    ignore: !hasPython,
    fn: () =>
      inState(async (stateDir, layout) => {
        const command = quoted([...PROGRAM, ...words, "--state-dir", stateDir, ...OPTIONS]);
        await using terminal = new Terminal(`${command}${background}; sleep 600`);
        await until(() => announced(layout) !== undefined, {
          what: "a daemon",
          state: () => terminal.shown,
        });
        const daemon = announced(layout)!;
        if (background === "") await terminal.shows(`The daemon is ready (pid ${daemon.pid})`);
        await terminal.close();
        const log = () => readTextIfThere(layout.daemonLog) ?? "";
        // A daemon in a session of its own gets no signal of the terminal.
        if (background !== "") {
          await until(() => log().includes("SIGHUP: the daemon goes on"), {
            what: "the signal",
            state: log,
          });
        }
        await runsOn(daemon);
        assert.equal(announced(layout)?.pid, daemon.pid);
        // It says nothing outside its log, which is bounded.
        if (background === "") {
          assert.equal(readTextIfThere(layout.daemonOutput), "");
        }
      }),
  });
}

Deno.test("background: up finds the daemon that runs; down stops it; a failed start says why, with the daemon's exit code", () =>
  inState(async (stateDir, layout) => {
    const place = ["--state-dir", stateDir];
    const both = await Promise.all([1, 2].map(() => mosaic(["up", ...place, ...OPTIONS])));
    const { pid } = announced(layout)!;
    for (const { code, out, err } of both) {
      assert.deepEqual([code, out.includes(`(pid ${pid})`)], [0, true], out + err);
    }
    const again = await mosaic(["up", ...place]);
    assert.match(
      again.out,
      new RegExp(`^A daemon is running \\(pid ${pid}\\): http://127.0.0.1:\\d+/\\.\n$`),
    );
    assert.match((await mosaic(["up", ...place, "--gpus", "0"])).err, /--replace applies new ones/);
    // As `mosaic daemon` does, --detach wants the directory for itself.
    const second = await mosaic(["daemon", "--detach", ...place, ...OPTIONS]);
    assert.equal(second.code, 2);
    assert.match(second.err, /did not start \(exit code 2\)\n.*a daemon \(pid \d+\) already uses/);
    const down = await mosaic(["down", ...place]);
    assert.deepEqual([down.code, down.out], [
      0,
      `The daemon (pid ${pid}) has stopped; its runs continue.\n`,
    ]);
    assert.equal((await mosaic(["down", ...place])).code, 3);
    using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const failed = await mosaic([
      "up",
      ...place,
      ...OPTIONS,
      "--http",
      `127.0.0.1:${taken.addr.port}`,
    ]);
    assert.equal(failed.code, 3);
    assert.match(
      failed.err,
      /did not start \(exit code 3\)\n {2}mosaic daemon: cannot listen on .* in use/,
    );
  }));

Deno.test({
  name: "background: mosaic run on a terminal asks for a daemon; after a no it says the command",
  ignore: !hasPython,
  fn: () =>
    inState(async (stateDir) => {
      const run = quoted([...PROGRAM, "run", "--state-dir", stateDir, "--", "true"]);
      await using terminal = new Terminal(`${run}; echo "code $?"`);
      await terminal.shows("No daemon is running. Start one in the background? [Y/n] ");
      await terminal.type("n\n");
      await terminal.shows("code 3");
      assert.match(
        terminal.shown,
        new RegExp(`Start one with "mosaic up --state-dir ${stateDir}"`),
      );
    }),
});

Deno.test("background: run starts the daemon after a yes, and asks nothing where a daemon answers or nobody can", async () => {
  const gone = new MosaicError("unavailable", "no daemon runs in /x", {
    hint: 'Start one with "mosaic up"',
  });
  for (
    const [answer, canAsk, isThere, started] of [["", true, false, 1], ["Y", true, false, 1], [
      "",
      true,
      true,
      0,
    ], [
      "",
      false,
      false,
      0,
    ]] as const
  ) {
    let running: boolean = isThere;
    const asked: string[] = [];
    const ran: (readonly string[])[] = [];
    const world = fakeWorld({}, {
      canAsk,
      ask: (question) => Promise.resolve((asked.push(question), answer)),
      runSelf: (words) => Promise.resolve((ran.push(words), running = true, 0)),
      connect: () =>
        running
          ? Promise.resolve(
            fakeApi({ GetHost: () => ({ gpus: [] }), SubmitRun: () => ({ runId: "R" }) }),
          )
          : Promise.reject(gone),
      env: (name) => name === "PATH" ? "/usr/bin:/bin" : undefined,
    });
    const code = await runCli(["run", "--state-dir", "/x", "--", "true"], world);
    assert.deepEqual([asked.length, ran], [
      started,
      started === 1 ? [["up", "--state-dir", "/x"]] : [],
    ]);
    assert.deepEqual([code, world.stdout()], running ? [0, "R\n"] : [3, ""], world.stderr());
    if (!running) assert.match(world.stderr(), /mosaic up/);
  }
});

Deno.test("background: where logind ends a user's processes at log-out, it is said, with what helps", () => {
  assert.equal(logoutWarning(logoutOf(undefined)), undefined);
  assert.equal(logoutWarning(logoutOf("b false\nLinger=no\n")), undefined);
  const kills = (lingers: boolean) => logoutWarning({ kills: true, lingers })!;
  assert.match(
    kills(false),
    /KillUserProcesses.*\n.*\n {2}loginctl enable-linger && systemd-run --user /,
  );
  assert.match(kills(true), /\n {2}systemd-run --user /);
  const { kills: killed, lingers } = logoutOf("b true\nLinger=yes\n");
  assert.deepEqual([killed, lingers], [Deno.uid() !== 0, true]);
});
