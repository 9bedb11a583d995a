/**
 * What others wrote, on its way to a terminal: whichever verb shows it, the terminal obeys none of
 * it.
 */
import { strict as assert } from "node:assert";
import { runCli } from "../../src/cli/cli.ts";
import { fileOutput } from "../../src/cli/link/output.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { textLine } from "../../src/base/log_line.ts";
import { TerminalFilter } from "../../src/base/text/terminal_text.ts";
import { type Answers, fakeRun, fakeTerminalOutput, fakeWorld, ID_A, ID_B, NOW } from "./fakes.ts";

const CLIPBOARD = "\x1b]52;c;cm0gLXJmIH4=\x07";
const EVIL = `evil${CLIPBOARD}\x1b[2J\u009b2J\u202e\rspoofed\nline`;

Deno.test("terminal: colours and lines pass, everything else that a terminal would obey is shown", () => {
  const cases: [string[], string][] = [
    [["plain\ttext\n"], "plain\ttext\n"],
    [["\x1b[1;31mred\x1b[0m\n"], "\x1b[1;31mred\x1b[0m\n"],
    [[CLIPBOARD], "␛]52;c;cm0gLXJmIH4=␇"],
    [["\x1b[2J\x1bc\x1bP1;x\x1b\\"], "␛[2J␛c␛P1;x␛\\"],
    [["\b\x7f\u009b31m\u202e"], "␈␡�31m�"],
    [["10%\r20%\r\nend\n"], "10%\n20%\nend\n"],
    // However it is cut into chunks.
    [["a\x1b", "[3", "1mb", "\x1b[", "2Jc"], "a\x1b[31mb␛[2Jc"],
    [["a\r", "\nb"], "a\nb"],
    [["\x1b", "]52;c;eA==", "\x07"], "␛]52;c;eA==␇"],
  ];
  for (const [chunks, shown] of cases) {
    const filter = new TerminalFilter();
    assert.equal(chunks.map((chunk) => filter.pass(chunk)).join(""), shown);
  }
});

Deno.test("terminal: a program's carriage return begins its line anew, so that a progress bar is one line", () => {
  const filter = new TerminalFilter(true);
  const text = ["0%\r5", "0%\r", "\r100%\r\nend\x1b[2J\n"].map((chunk) => filter.pass(chunk)).join(
    "",
  );
  assert.equal(text, "0%\r\x1b[K50%\r\x1b[K100%\nend␛[2J\n");
});

Deno.test("terminal: a long chunk is filtered in time, whatever is in it", () => {
  for (const chunk of ["\r", "\x1b", "\x1b[", "\x1b[1;", "\x1b[3", "1;"]) {
    const began = performance.now();
    new TerminalFilter().pass(`${chunk.repeat(300_000)}x`);
    assert.ok(performance.now() - began < 2000, JSON.stringify(chunk));
  }
});

Deno.test("logs: a terminal gets lines and colours, a file or a pipe gets the bytes", async () => {
  const bytes = new TextEncoder().encode(
    `loss \x1b[32m0.1\x1b[0m\n${CLIPBOARD}größe\x1b]0;title\x07\n`,
  );
  const answers: Answers = {
    GetRun: () => fakeRun(),
    // Cut within a sequence and within a character.
    StreamLogs: function* (request: { stream: string }) {
      assert.equal(request.stream, "stderr");
      for (let at = 0; at < bytes.length; at += 5) {
        yield { text: bytes.subarray(at, at + 5), nextOffset: BigInt(at + 5) };
      }
    },
  };
  const { output, shown } = fakeTerminalOutput();
  assert.equal(await runCli(["logs", ID_A, "--stderr"], fakeWorld(answers, { out: output })), 0);
  assert.equal(shown(), "loss \x1b[32m0.1\x1b[0m\n␛]52;c;cm0gLXJmIH4=␇größe␛]0;title␇\n");

  const raw: Uint8Array[] = [];
  const pipe = fileOutput({
    writeSync: (p) => raw.push(p.slice()) && p.length,
    isTerminal: () => false,
  });
  assert.equal(await runCli(["logs", ID_A, "--stderr"], fakeWorld(answers, { out: pipe })), 0);
  assert.deepEqual(new Uint8Array(raw.flatMap((p) => [...p])), bytes);
});

/** Everything that a daemon says of runs is the worker's or the config's. */
const run = () =>
  fakeRun({
    name: EVIL,
    tags: [EVIL],
    reason: EVIL,
    hint: EVIL,
    workerId: EVIL,
    state: "FAULTED",
    outcome: "failed",
  });
const refuse = () => {
  throw new MosaicError("invalid_argument", `"0" could be any of several runs: ${ID_A} (${EVIL})`, {
    hint: EVIL,
  });
};
const ANSWERS: Answers = {
  GetRun: run,
  ListRuns: () => ({ runs: [run()] }),
  ListSeries: () => ({ series: [{ name: EVIL, points: 2n, last: 1 }] }),
  GetSeries: () => ({
    buckets: [1n, 2n].map((x) => ({
      firstX: x,
      lastX: x,
      min: 1,
      max: 2,
      mean: 1,
      last: 1,
      count: 1n,
      atMs: NOW,
    })),
  }),
  ListArtifacts: () => ({ artifacts: [{ path: EVIL, kind: EVIL }] }),
  StreamEvents: () => [{
    seq: 1n,
    runId: ID_A,
    runName: EVIL,
    kind: EVIL,
    dataJson: JSON.stringify({ [EVIL]: EVIL }),
  }],
  CancelRun: refuse,
  RetryRun: refuse,
  DeleteRun: refuse,
  GetDiskUsage: () => ({}),
  GetHost: () => ({}),
};

for (
  const args of [
    ["list"],
    ["list", "-o", "csv", "-c", "run,name,reason,tags"],
    ["show", ID_A],
    ["plot", ID_A, EVIL],
    ["compare", ID_A, ID_B, "--metric", EVIL],
    ["metrics", ID_A],
    ["events", ID_A],
    ["wait", ID_A, "--timeout", "1s"],
    ["cancel", ID_A],
    ["retry", ID_A],
    ["delete", ID_A, EVIL],
    [EVIL],
    ["list", EVIL],
    ["validate", EVIL],
  ]
) {
  Deno.test(`terminal: nothing of another's text is obeyed: mosaic ${args.join(" ").replace(EVIL, "EVIL")}`, async () => {
    for (const color of [false, true]) {
      const [out, err] = [fakeTerminalOutput(), fakeTerminalOutput()];
      const terminal = { isTty: true, width: 100, height: 30, color };
      await runCli(args, fakeWorld(ANSWERS, { out: out.output, err: err.output, terminal }));
      const shown = out.shown() + err.shown();
      assert.ok(shown.includes("evil"), shown);
      // deno-lint-ignore no-control-regex
      const rest = color ? shown.replace(/\x1b\[[0-9;]*m/g, "") : shown;
      // deno-lint-ignore no-control-regex
      assert.doesNotMatch(rest, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
      // Rows of CSV may have several lines, and a word of the command line is its user's own.
      if (!args.includes("csv") && args[1] !== EVIL) assert.doesNotMatch(rest, /^(spoofed|line)/m);
    }
  });
}

Deno.test("terminal: messages and headings are one line even where nothing filters them", async () => {
  for (
    const args of [["cancel", ID_A], ["compare", ID_A, ID_B, "--no-plot"], ["plot", ID_A, EVIL], [
      "wait",
      ID_A,
    ]]
  ) {
    const world = fakeWorld(ANSWERS);
    await runCli(args, world);
    const shown = world.stdout() + world.stderr();
    assert.ok(shown.includes("evil"), shown);
    // deno-lint-ignore no-control-regex
    assert.doesNotMatch(shown, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
  }
});

Deno.test("terminal: a line of the daemon's log is one line, whatever a name in it holds", () => {
  const line = textLine({ time: "now", level: "info", msg: "run submitted", name: EVIL });
  // deno-lint-ignore no-control-regex
  assert.doesNotMatch(line.slice(0, -1), /[\x00-\x1f\x7f-\x9f\u202e]/);
  assert.ok(line.endsWith("\n"));
});
