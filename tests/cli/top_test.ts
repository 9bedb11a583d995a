import { strict as assert } from "node:assert";
import { runCli } from "../../src/cli/cli.ts";
import { hostJsonOf } from "../../src/runs/fields/host_json.ts";
import { runDetailJsonOf, runJsonOf } from "../../src/runs/fields/run_json.ts";
import type { RunDetailJson } from "../../src/runs/fields/run_types.ts";
import { keysOf } from "../../src/cli/top/keys.ts";
import {
  INITIAL,
  onKey,
  selectedRun,
  type TopState,
  visibleRuns,
} from "../../src/cli/top/model.ts";
import { draw, runsOnScreen } from "../../src/cli/top/screen.ts";
import { widthOf } from "../../src/cli/text/text.ts";
import { type HostResponse, HostResponseSchema } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { create } from "@bufbuild/protobuf";
import { MosaicError } from "../../src/base/errors.ts";
import { until } from "../harness/wait.ts";
import { type Answers, fakeRun, fakeWorld, ID_A, ID_B, NOW } from "./fakes.ts";

const HOST: HostResponse = create(HostResponseSchema, {
  version: "0.1.0",
  listen: "127.0.0.1:50055",
  gpus: [{ slot: 0, runId: ID_A, name: "H100" }, { slot: 1, name: "H100" }],
  cpus: 2,
  loadAverage: [0.5, 1, 1],
  memoryBytes: 100n << 30n,
  memoryAvailableBytes: 25n << 30n,
  runsByState: { EXECUTING: 1n, FAULTED: 1n },
});

function stateOf(overrides: Partial<TopState> = {}): TopState {
  return {
    ...INITIAL,
    host: hostJsonOf(HOST),
    runs: [
      runJsonOf(
        fakeRun({
          runId: ID_B,
          name: "old",
          state: "FAULTED",
          outcome: "failed",
          reason: "exit_code_1",
        }),
      ),
      runJsonOf(fakeRun()),
    ],
    curves: new Map([[ID_A, [1, 2, 3]]]),
    seenAt: NOW,
    ...overrides,
  };
}

const press = (state: TopState, ...keys: string[]) =>
  keys.reduce((s, key) => onKey(s, key, NOW, 10).state, state);

Deno.test("top: live runs come first, and the keys move the selection within the list", () => {
  const state = stateOf();
  assert.deepEqual(visibleRuns(state, NOW).map((r) => r.run_id), [ID_A, ID_B]);
  assert.equal(selectedRun(state, NOW)!.run_id, ID_A);
  assert.equal(selectedRun(press(state, "down"), NOW)!.run_id, ID_B);
  assert.equal(selectedRun(press(state, "down", "down", "pagedown"), NOW)!.run_id, ID_B);
  assert.equal(selectedRun(press(state, "end", "home"), NOW)!.run_id, ID_A);
  assert.equal(selectedRun(press(state, "down", "a"), NOW)!.run_id, ID_A);
  assert.deepEqual(visibleRuns(press(state, "s"), NOW).map((r) => r.name), ["cart-1", "old"]);
  assert.equal(selectedRun({ ...state, runs: [] }, NOW), undefined);
});

Deno.test("top: a search keeps the runs that fit, and its letters do nothing to a run", () => {
  let state = stateOf();
  const type = (keys: readonly string[]) => {
    for (const key of keys) {
      const next = onKey(state, key, NOW, 10);
      assert.equal(next.action, undefined, key);
      state = next.state;
    }
  };
  type(["/", ..."pcraq"]);
  assert.deepEqual([state.search, visibleRuns(state, NOW)], ["pcraq", []]);
  assert.equal(state.confirmation, undefined);
  assert.match(draw(state, NOW, { width: 60, height: 10, color: false }).at(-1)!, /^\/pcraq▏/);
  type(["escape", "/", ..."CARx", "backspace", "enter"]);
  assert.deepEqual([state.search, state.typing], ["CAR", false]);
  assert.deepEqual(visibleRuns(state, NOW).map(({ name }) => name), ["cart-1"]);
  // Only after that do letters act again, and the first escape ends the search, not the program.
  type(["escape"]);
  assert.equal(state.search, "");
  assert.equal(onKey(state, "escape", NOW, 10).action?.type, "quit");
});

Deno.test("top: what would harm is asked for first; what makes no sense is told", () => {
  const asked = onKey(stateOf(), "c", NOW, 10);
  assert.equal(asked.action, undefined);
  assert.equal(asked.state.confirmation!.question, "Cancel cart-1?");
  assert.deepEqual(onKey(asked.state, "y", NOW, 10).action, { type: "cancel", run: ID_A });
  assert.equal(onKey(asked.state, "n", NOW, 10).action, undefined);
  assert.equal(press(asked.state, "n").confirmation, undefined);
  assert.deepEqual(onKey(stateOf(), "p", NOW, 10).action, { type: "pause", run: ID_A });
  const paused = stateOf({ runs: [runJsonOf(fakeRun({ state: "PAUSED" }))] });
  assert.deepEqual(onKey(paused, "p", NOW, 10).action, { type: "resume", run: ID_A });
  assert.equal(press(stateOf(), "r").message, "cart-1 is still live");
  assert.equal(press(stateOf({ selected: ID_B }), "p").message, "old has ended");
  assert.deepEqual(onKey(stateOf(), "q", NOW, 10).action, { type: "quit" });
  assert.deepEqual(onKey(asked.state, "ctrl-c", NOW, 10).action, { type: "quit" });
});

Deno.test("top: the screen has as many lines as the terminal, none wider than it is", () => {
  const detail: RunDetailJson = runDetailJsonOf(fakeRun({ name: "日本".repeat(40) }));
  for (
    const state of [
      INITIAL,
      stateOf(),
      stateOf({ detail }),
      stateOf({ detail: "loading" }),
      stateOf({ all: false }),
    ]
  ) {
    for (
      const [width, height] of [[80, 24], [120, 50], [40, 10], [20, 5], [8, 3], [1, 1]] as const
    ) {
      const lines = draw(state, NOW, { width, height, color: false });
      assert.equal(lines.length, height);
      for (const line of lines) assert.ok(widthOf(line) <= width, `${widthOf(line)}: ${line}`);
    }
  }
});

Deno.test("top: shows host, GPUs, runs with their curves, and how old it is when the daemon is away", () => {
  const lines = draw(stateOf(), NOW, { width: 120, height: 12, color: false });
  assert.equal(lines[0], "mosaic 0.1.0   127.0.0.1:50055   1 running, 1 failed");
  assert.equal(lines[1], "load 0.5/2   memory ██████  ▏25.0 GiB free");
  assert.equal(lines[2], "gpus 0:cart-1  1:free");
  assert.match(lines[4]!, /^>1K9ABCDEF +cart-1 +Running .*▁▅█/);
  assert.match(lines[5]!, /^01K9ZZZZZZ +old +Failed .*exit_code_1$/);
  const old = draw(stateOf({ trouble: "the daemon does not answer" }), NOW + 12_000, {
    width: 80,
    height: 8,
    color: false,
  });
  assert.equal(old[2], "the daemon does not answer; data is 12s old");
});

Deno.test("top: the names of a sweep's runs are told apart, whatever else goes for it", () => {
  const names = ["cart-lr-0.003", "cart-lr-0.01", "waits-for-the-gpus"];
  const waiting = { state: "INIT", queuePosition: 1, waitingFor: "2 GPUs" };
  const runs = names.map((name, i) =>
    runJsonOf(fakeRun({ ...waiting, runId: `${ID_A.slice(0, -1)}${i}`, name }))
  );
  for (const width of [60, 80, 100, 120]) {
    const text = draw(stateOf({ runs }), NOW, { width, height: 12, color: false }).join("\n");
    for (const name of names) assert.ok(text.includes(name), `${width} columns:\n${text}`);
  }
});

Deno.test("top: the line of keys always has the way out, and ? shows all keys until the next one", () => {
  for (const width of [60, 80, 120]) {
    for (const detail of [undefined, runDetailJsonOf(fakeRun())]) {
      const foot = draw(stateOf({ detail }), NOW, { width, height: 20, color: false }).at(-1)!;
      assert.match(foot, /\? keys {2}q quit$/);
      assert.equal(foot.includes("esc back"), detail !== undefined);
    }
  }
  const help = press(stateOf(), "?");
  const shown = draw(help, NOW, { width: 60, height: 24, color: false }).join("\n");
  for (const line of [/^enter +details/m, /^esc +back/m, /^q, ctrl-c +quit/m]) {
    assert.match(shown, line);
  }
  const left = onKey(help, "c", NOW, 10);
  assert.deepEqual([left.state.help, left.state.confirmation, left.action], [
    false,
    undefined,
    undefined,
  ]);
  assert.deepEqual(onKey(help, "q", NOW, 10).action, { type: "quit" });
});

Deno.test("top: a long list scrolls with the selection", () => {
  const runs = Array.from(
    { length: 100 },
    (_, i) => runJsonOf(fakeRun({ runId: `01K9${String(i).padStart(22, "0")}` })),
  );
  const state = stateOf({ runs, selected: runs[20]!.run_id });
  const shown = runsOnScreen(state, NOW, { height: 15 }).map((r) => r.run_id);
  assert.equal(shown.length, 10);
  assert.ok(shown.includes(runs[20]!.run_id));
});

Deno.test("top: keys out of a terminal's bytes", () => {
  assert.deepEqual(keysOf("j\x1b[A\x1bOB\x1b[5~q"), ["j", "up", "down", "pageup", "q"]);
  assert.deepEqual(keysOf("\x1b"), ["escape"]);
  assert.deepEqual(keysOf("\r\x03é\x1b[200~\x01"), ["enter", "ctrl-c", "é"]);
});

async function top(keys: string[], answers: Answers = {}) {
  const asked: string[] = [];
  let released = false;
  const world = fakeWorld({
    GetHost: () => HOST,
    ListRuns: () => ({ runs: [fakeRun()] }),
    GetSeries: () => ({ buckets: [] }),
    GetRun: () => fakeRun(),
    CancelRun: ({ run }) => {
      asked.push(run);
      return fakeRun();
    },
    ...answers,
  }, {
    terminal: { isTty: true, width: 100, height: 20, color: false },
    takeTerminal: () =>
      Promise.resolve({
        keys: (async function* () {
          // The first look at the daemon comes before the first key, as it does for a person.
          await until(() => world.stdout().includes("cart-1"), {
            what: "the first look",
            state: () => world.stdout(),
          });
          yield* keys;
        })(),
        show: (lines) => world.out.write(`${lines.join("\n")}\n`),
        giveBack: () => void (released = true),
      }),
  });
  const code = await runCli(["top"], world);
  return { code, asked, released, out: world.stdout(), err: world.stderr() };
}

Deno.test("top: cancels by keys, and gives the terminal back", async () => {
  const { code, asked, released, out } = await top(["c", "n", "c", "y", "enter", "q"]);
  assert.deepEqual([code, asked, released], [0, [ID_A], true]);
  assert.match(out, /cancel requested/);
  assert.match(out, new RegExp(`run +${ID_A}`));
});

Deno.test("top: a refusal is told on the screen", async () => {
  const { code, out } = await top(["p", "q"], {
    PauseRun: () => {
      throw new MosaicError("failed_precondition", "it cannot be paused now");
    },
  });
  assert.equal(code, 0);
  assert.match(out, /it cannot be paused now/);
});

Deno.test("top: without a terminal it says what to use instead", async () => {
  const world = fakeWorld();
  assert.equal(await runCli(["top"], world), 2);
  assert.match(world.stderr(), /mosaic list --watch/);
});
