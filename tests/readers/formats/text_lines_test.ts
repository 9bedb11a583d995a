import assert from "node:assert/strict";
import { jsonOf, literalOf, numberOfText } from "../../../src/readers/format/literal.ts";
import { TEXT_DIALECTS } from "../../../src/readers/text/text_dialects.ts";
import { type LineFields, readTextLine, TextLines } from "../../../src/readers/text/text_lines.ts";
import { FIXTURES } from "./harness.ts";

/** `dialect step: name=value …`, and the episode. */
function brief(fields: LineFields | undefined): string {
  if (fields === undefined) return "";
  const { dialect, step, stepIsEpisode, scalars, episode, wallTime } = fields;
  const values = scalars.map(([tag, value]) => ` ${tag}=${value}`).join("");
  const end = episode === undefined ? "" : ` episode(${episode.return}, ${episode.length}, ${episode.time})`;
  return `${dialect} ${step ?? "-"}${stepIsEpisode ? " of episodes" : ""}:${values}${end}${
    wallTime === undefined ? "" : ` at ${wallTime}`
  }`;
}

const CASES: readonly [line: string, expected: string][] = [
  // JSON without a type
  ['{"step": 10, "loss": 0.3}', "json 10: loss=0.3"],
  ['  {"step": 10, "loss": 0.3}\r', "json 10: loss=0.3"],
  ['{"loss": NaN, "step": 3}', "json 3: loss=NaN"],
  ['{"loss": 0.3, "name": "x", "ok": true}', "json -: loss=0.3"],
  ['{"train": {"loss": 0.3}, "step": 4}', "json 4: train/loss=0.3"],
  ['{"step": 1.5, "loss": 1}', "json -: step=1.5 loss=1"],
  ['{"step": 4, "loss": 1, "_timestamp": 1700000000.5}', "json 4: loss=1 at 1700000000.5"],
  ['{"type": "metric", "loss": 0.3}', ""],
  ['{"event": "x", "loss": 0.3}', ""],
  ['{"step": 4}', ""],
  ['{"name": "x"}', ""],
  ["{}", ""],
  ['{"step": 10, "loss": 0.3', ""],
  ['{"a": 1} {"b": 2}', ""],
  // Python's dict
  ["{'loss': 0.3, 'epoch': 1.0}", "python_dict -: loss=0.3 epoch=1"],
  ["{'loss': nan, 'step': 7, 'ok': True, 'n': None}", "python_dict 7: loss=NaN"],
  [
    "{'loss': np.float32(0.25), 'step': np.int64(3), 'grad': tensor(0.5000, device='cuda:0')}",
    "python_dict 3: loss=0.25 grad=0.5",
  ],
  ["{'a': array([12.], dtype=float32), 'b': [1, 2], 'c': (3,), 'd': -inf}", "python_dict -: a=12 c=3 d=-Infinity"],
  ["{'it\\'s': 1, \"b\": 2}", "python_dict -: it's=1 b=2"],
  ["{'loss': '0.9267', 'epoch': '0.5'}", "python_dict -: loss=0.9267 epoch=0.5"],
  ["{'id': '7', 'name': 'x', 'n': 2}", "python_dict -: n=2"],
  ["{1, 2, 3}", ""],
  ["{'a': lambda x: x}", ""],
  ["{'a': <object at 0x7f>, 'b': 1}", ""],
  // Gymnasium's episode
  ["{'r': 29.0, 'l': 29, 't': 0.000419}", "episode -: episode(29, 29, 0.000419)"],
  [
    "{'r': array([12.], dtype=float32), 'l': array([12], dtype=int32), 't': array([0.5], dtype=float32)}",
    "episode -: episode(12, 12, 0.5)",
  ],
  ['{"r": -3.5, "l": 7}', "episode -: episode(-3.5, 7, null)"],
  ["{'episode': {'r': 1.0, 'l': 2, 't': 3.0}, 'step': 40, 'x': 5}", "episode 40: x=5 episode(1, 2, 3)"],
  ["{'r': 'x', 'l': 2}", "python_dict -: l=2"],
  // key=value
  ["global_step=128, episodic_return=[12.]", "key_value 128: episodic_return=12 episode(12, null, null)"],
  ["global_step=128, episodic_return=[ 9.]", "key_value 128: episodic_return=9 episode(9, null, null)"],
  [
    "global_step=2048, episodic_return=12.0, episodic_length=12",
    "key_value 2048: episodic_return=12 episodic_length=12 episode(12, 12, null)",
  ],
  ["step=3 loss=1e-05 lr=nan", "key_value 3: loss=0.00001 lr=NaN"],
  ["[INFO] step=3 | loss=0.5", "key_value 3: loss=0.5"],
  ["2026-01-01 12:00:00,123 - INFO - step=10, loss=0.2", "key_value 10: loss=0.2"],
  ["eval: step=3, env=CartPole-v1, return=5", "key_value 3: return=5"],
  // Without a step, the number of the episode is one.
  ["episode=3 reward=1.5", "key_value 3 of episodes: reward=1.5"],
  ["[INFO] episode=3 reward=1.5", "key_value 3 of episodes: reward=1.5"],
  ['{"episode": 3, "reward": 1.5}', "json 3 of episodes: reward=1.5"],
  ["{'r': 2.0, 'l': 9, 'episode': 3}", "episode 3 of episodes: episode(2, 9, null)"],
  ["step=7 episode=3 reward=1.5", "key_value 7: episode=3 reward=1.5"],
  ["episode=3.5 reward=1.5", "key_value -: episode=3.5 reward=1.5"],
  ["episode=3", ""],
  ["loss=0.5, acc=0.25", "key_value -: loss=0.5 acc=0.25"],
  ["x=5", ""],
  ["settings: x=5 y=6", ""],
  ["Namespace(lr=0.0003, seed=1)", ""],
  ["python train.py --lr=3e-4 --seed=1", ""],
  ['  File "a.py", line 3, x = 5', ""],
  ["a == b, step=3", ""],
  ["step=3, what is this", ""],
  // Anything else
  ["SPS: 308", ""],
  ["", ""],
  ["Epoch 1/10", ""],
  ["| a | b |", ""],
];

Deno.test("text lines: each dialect, and what is none", () => {
  for (const [line, expected] of CASES) assert.equal(brief(readTextLine(line)), expected, line);
});

Deno.test("text lines: every dialect is off by its name", () => {
  const lines: { readonly [dialect in typeof TEXT_DIALECTS[number]]: string } = {
    json: '{"step": 10, "loss": 0.3}',
    python_dict: "{'loss': 0.3, 'epoch': 1.0}",
    key_value: "global_step=128, loss=0.5",
    episode: "{'r': 29.0, 'l': 29, 't': 0.5}",
    table: "| loss | 0.5 |",
  };
  for (const dialect of TEXT_DIALECTS) {
    const read = (off: Iterable<typeof dialect>) => {
      const text = new TextLines(off);
      return [...(dialect === "table" ? ["-----------"] : []), lines[dialect], "-----------"]
        .flatMap((line) => text.read(line) ?? []);
    };
    assert.equal(read([])[0]?.dialect, dialect);
    assert.ok(read([dialect]).every((fields) => fields.dialect !== dialect && fields.episode === undefined));
  }
  assert.equal(
    brief(readTextLine("global_step=128, episodic_return=[12.]", new Set(["episode"]))),
    "key_value 128: episodic_return=12",
  );
});

function readLines(name: string): { lines: string[]; found: LineFields[] } {
  const lines = Deno.readTextFileSync(FIXTURES + name).split("\n");
  const text = new TextLines();
  return { lines, found: lines.flatMap((line) => text.read(line) ?? []) };
}

Deno.test("text lines: Stable-Baselines3's tables as PPO prints them; the step is time/total_timesteps", () => {
  const { lines, found } = readLines("sb3.stdout.txt");
  assert.deepEqual(found.map(({ step, scalars }) => [step, scalars.length]), [[256, 5], [512, 15], [768, 15], [
    1024,
    15,
  ]]);
  assert.equal(
    brief(found[0]),
    "table 256: rollout/ep_len_mean=18.1 rollout/ep_rew_mean=18.1 time/fps=508 time/iterations=1 time/time_elapsed=0",
  );
  assert.deepEqual(found[1]!.scalars.slice(-2), [["train/policy_gradient_loss", -0.00243], ["train/value_loss", 72.7]]);
  const text = new TextLines();
  const open = lines.slice(0, lines.indexOf("| time/              |          |")).map((
    line,
  ) => (text.read(line), text.openLines));
  assert.equal(Math.max(...open), open.filter((n) => n > 0).length);
});

Deno.test("text lines: what stands in a table's way ends it", () => {
  const table = ["-----------", "| a/ | |", "|    b | 1 |", "other output", "|    c | 2 |", "-----------"];
  const text = new TextLines();
  assert.deepEqual(table.flatMap((line) => text.read(line) ?? []), []);
  const next = ["| x | 3 |", "-----------", "-----------"].flatMap((line) => text.read(line) ?? []);
  assert.deepEqual(next.map(brief), ["table -: x=3"]);
  const long = new TextLines();
  long.read("-----------");
  for (let i = 0; i < 10_000; i++) long.read(`| key${i} | ${i} |`);
  assert.equal(long.openLines, 0);
});

Deno.test("text lines: what Transformers prints", () => {
  const { found } = readLines("transformers.stdout.txt");
  assert.equal(found.length, 7);
  assert.equal(brief(found[0]), "python_dict -: loss=0.9267 grad_norm=0.7696 learning_rate=0.00004375 epoch=0.5");
});

Deno.test("text lines: hostile lines cost little and throw nothing", () => {
  const hostile = [
    "{".repeat(60_000),
    "{'a':".repeat(10_000),
    `{"a":${"[".repeat(50_000)}`,
    `{'a': ${"(".repeat(50_000)}}`,
    `{"a":${"[".repeat(50_000)}}`,
    "a".repeat(60_000) + "=!",
    "a=".repeat(30_000),
    "a=1 ".repeat(15_000),
    "a=1,".repeat(15_000) + "!",
    "[".repeat(30_000) + "=1",
    `a=[${" ".repeat(50_000)}`,
    "| " + " ".repeat(60_000) + "|",
    "-".repeat(60_000),
    `{'a': '${"\\".repeat(60_000)}'}`,
    `{'a': f(${"x=".repeat(20_000)})}`,
    `{'a': f(${"x=x,".repeat(12_000)}1)}`,
    `{"a": NaN, "b": ${"9".repeat(60_000)}}`,
    "\ufeff{'\ud800': 1}",
  ];
  const text = new TextLines();
  for (const line of hostile) {
    const from = performance.now();
    text.read(line);
    assert.ok(performance.now() - from < 1000, line.slice(0, 20));
  }
});

Deno.test("literals: JSON, Python, NumPy and PyTorch", () => {
  const cases: readonly [text: string, value: unknown][] = [
    ["1", 1],
    ["-1.5e-3", -0.0015],
    ["12.", 12],
    ["1_000", 1000],
    ["[1, 'a', None, True, {'x': (1, 2)}]", [1, "a", null, true, { x: [1, 2] }]],
    ["array([ 1.,  2.])", [1, 2]],
    ["array([[1., 2.],\n       [3., 4.]], dtype=float32)", [[1, 2], [3, 4]]],
    ["tensor(0.5000, grad_fn=<MeanBackward0>)", 0.5],
    ["<object at 0x7f>", undefined],
    ["tensor(0.5000, device='cuda:0', requires_grad=True)", 0.5],
    ["np.float64(0.5)", 0.5],
    ["'\\x41\\u00e4\\n'", "Aä\n"],
    ["nan", NaN],
    ["-inf", -Infinity],
    ["{}", {}],
    ["1 2", undefined],
    ["{1: 2}", { 1: 2 }],
    ["print('x')", "x"],
    ["", undefined],
  ];
  for (const [text, value] of cases) assert.deepEqual(literalOf(text), value, text);
  assert.deepEqual(jsonOf('{"a": NaN, "b": "NaN"}'), { a: NaN, b: "NaN" });
  assert.equal(jsonOf("{'a': 1}"), undefined);
  for (const [text, value] of [["1", 1], [".5", 0.5], ["+2", 2], ["NaN", NaN], ["-Inf", -Infinity]] as const) {
    assert.deepEqual(numberOfText(text), value);
  }
  for (const text of ["", "1,5", "0x10", "1e", "--1", "1 ", "Infinit"]) assert.equal(numberOfText(text), undefined);
});
