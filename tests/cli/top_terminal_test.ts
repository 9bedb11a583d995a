/** What `mosaic top` leaves behind on a real (pseudo) terminal, whatever ends it. */
import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";
import { processRef } from "../../src/os/processes/identity.ts";
import { type Signal, signalProcess } from "../../src/os/processes/signals.ts";
import { PROGRAM, TestDaemon } from "../harness/daemon.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";

const LEFT = "\x1b[?25h\x1b[?1049l";

/**
 * The command on a terminal of its own: what it printed, with its exit code and the terminal's
 * modes at the end.
 */
async function onTerminal(
  argv: string[],
  act: (said: string, pid: number) => void | Promise<void>,
): Promise<string> {
  const dir = await Deno.makeTempDir();
  const quoted = argv.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
  const line =
    `stty cols 100 rows 24; sh -c 'echo $$ >"$0"; exec "$@"' ${dir}/pid ${quoted}; echo "exit=$?"; stty -a`;
  const child = new Deno.Command("script", {
    args: ["--quiet", "--flush", "--command", line, "/dev/null"],
    env: { SHELL: "/bin/sh", TERM: "xterm" },
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  try {
    let said = "";
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      said += chunk;
      await act(said, Number(readTextIfThere(`${dir}/pid`)));
    }
    return said;
  } finally {
    await child.stdin.close().catch(() => {});
    await child.status;
    await Deno.remove(dir, { recursive: true });
  }
}

function assertGivenBack(said: string, exit: number): void {
  assert.ok(said.includes("\x1b[?1049h"), said);
  const after = said.slice(said.lastIndexOf(LEFT));
  assert.ok(said.includes(LEFT), said);
  assert.match(after, new RegExp(`exit=${exit}\\r?\\n`));
  assert.match(after, /[^-]icanon\b/);
  assert.match(after, /[^-]echo\b/);
}

Deno.test("top: screen, cursor and keyboard are given back on SIGTERM and SIGINT, with the shell's exit codes", async () => {
  await using daemon = await TestDaemon.start();
  for (const [signal, exit] of [["SIGTERM", 143], ["SIGINT", 130]] as [Signal, number][]) {
    let sent = false;
    const said = await onTerminal([...PROGRAM, "top", "--target", daemon.target], (said, pid) => {
      if (sent || !said.includes("No runs.")) return;
      sent = true;
      signalProcess(processRef(pid)!, signal);
    });
    assertGivenBack(said, exit);
  }
});

Deno.test("top: an error that nobody catches gives the terminal back, and is told after it", async () => {
  const module = new URL("../../src/cli/top/terminal.ts", import.meta.url).href;
  const script = `import { takeTerminal } from ${JSON.stringify(module)};
    const terminal = takeTerminal(() => {});
    terminal.show(["drawn"]);
    setTimeout(() => { throw new Error("a defect"); }, 0);
    for await (const _ of terminal.keys);`;
  const url = `data:text/typescript;base64,${Buffer.from(script).toString("base64")}`;
  const said = await onTerminal([Deno.execPath(), "run", "-A", "--no-check", url], () => {});
  assertGivenBack(said, 1);
  assert.ok(said.lastIndexOf("a defect") > said.indexOf(LEFT), said);
});
