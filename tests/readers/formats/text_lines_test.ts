import assert from "node:assert/strict";
import { jsonOf, literalOf, numberOfText } from "../../../src/readers/format/literal.ts";
import { TEXT_DIALECTS } from "../../../src/readers/text/text_dialects.ts";
import { type LineFields, readTextLine, TextLines } from "../../../src/readers/text/text_lines.ts";
import { FIXTURES } from "./harness.ts";

/** `dialect step: name=value …`, and the episode. */
function brief(fields: LineFields | undefined): string {
  if (fields === undefined) return "";
  const { dialect, step, stepIsEpisode, scalars, episode, wallTime, progress } = fields;
  const values = scalars.map(([tag, value]) => ` ${tag}=${value}`).join("");
  const end = episode === undefined
    ? ""
    : ` episode(${episode.return}, ${episode.length}, ${episode.time})`;
  return `${dialect} ${step ?? "-"}${stepIsEpisode ? " of episodes" : ""}:${values}${end}${
    wallTime === undefined ? "" : ` at ${wallTime}`
  }${progress === undefined ? "" : ` ${progress.at}/${progress.of}`}`;
}

const CASES: readonly [line: string, expected: string][] = [
  // JSON without a type
  ['{"step": 10, "loss": 0.3}', "json 10: loss=0.3"],
  ['  {"step": 10, "loss": 0.3}\r', "json 10: loss=0.3"],
  ['{"loss": NaN, "step": 3}', "json 3: loss=NaN"],
  ['{"loss": 0.3, "name": "x", "ok": true}', "json -: loss=0.3"],
  ['{"train": {"loss": 0.3}, "step": 4}', "json 4: train/loss=0.3"],
  ['{"step": 1.5, "loss": 1}', ""],
  ['{"step": "100", "loss": 0.3}', "json 100: loss=0.3"],
  ['{"step": 5, "update": 0.5, "loss": "0.3"}', "json 5: update=0.5 loss=0.3"],
  ['{"step": 5, "name": "x", "port": "80", "loss": 1}', "json 5: loss=1"],
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
  [
    "{'a': array([12.], dtype=float32), 'b': [1, 2], 'c': (3,), 'd': -inf}",
    "python_dict -: a=12 c=3 d=-Infinity",
  ],
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
  [
    "{'episode': {'r': 1.0, 'l': 2, 't': 3.0}, 'step': 40, 'x': 5}",
    "episode 40: x=5 episode(1, 2, 3)",
  ],
  ["{'r': 'x', 'l': 2}", "python_dict -: l=2"],
  // key=value
  [
    "global_step=128, episodic_return=[12.]",
    "key_value 128: episodic_return=12 episode(12, null, null)",
  ],
  [
    "global_step=128, episodic_return=[ 9.]",
    "key_value 128: episodic_return=9 episode(9, null, null)",
  ],
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
  // Numbers for people
  ["step=10/100 loss=0.3", "key_value 10: loss=0.3 10/100"],
  ["step=100: loss=0.3", "key_value 100: loss=0.3"],
  ["step=1.5k loss=0.3", "key_value 1500: loss=0.3"],
  ["step=1,000 loss=0.3", "key_value 1000: loss=0.3"],
  ["step=7 loss=0.3 tag='a b'", "key_value 7: loss=0.3"],
  ["step=7 loss=0.3 (0.31)", "key_value 7: loss=0.3"],
  ["step=7 précision=0.5 loss=0.3", "key_value 7: précision=0.5 loss=0.3"],
  [
    "step=5 time=0.12s acc=71.5% speed=3.5it/s loss=0.2",
    "key_value 5: time=0.12 acc=71.5 speed=3.5 loss=0.2",
  ],
  ["step = 100, loss = 0.31", "key_value 100: loss=0.31"],
  ["step=abc loss=0.3", ""],
  ["step=1/2/3 loss=0.3", ""],
  ["step=-1 loss=0.3", ""],
  // Words
  ["loss: 0.31 acc: 0.7", "words -: loss=0.31 acc=0.7"],
  ["Loss: 0.31", "words -: Loss=0.31"],
  ["Epoch 3/10 - loss: 0.31 - accuracy: 0.7", "words 3: loss=0.31 accuracy=0.7 3/10"],
  ["iter 100: loss 0.31, time 120.1ms, mfu 30%", "words 100: loss=0.31 time=120.1 mfu=30"],
  ["step 200: train loss 2.5, val loss 2.6", "words 200: train_loss=2.5 val_loss=2.6"],
  ["step 200 loss 0.57", "words 200: loss=0.57"],
  ["Step 1.5k | loss 0.2", "words 1500: loss=0.2"],
  ["Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.305400", "words -: epoch=1 Loss=2.3054"],
  [
    "Test set: Average loss: 0.05, Accuracy: 9835/10000 (98%)",
    "words -: Average_loss=0.05 Accuracy=0.9835",
  ],
  ["Epoch [3/10], Loss: 0.5", "words 3: Loss=0.5 3/10"],
  ["Epoch [3/10], Step [100/600], Loss: 0.5", "words -: epoch=3 Loss=0.5 3/10"],
  ["[100/1000] loss: 0.5", "words 100: loss=0.5 100/1000"],
  ["Episode: 5, Reward: 12.5, Steps: 200", "words 5 of episodes: Reward=12.5 Steps=200"],
  ["Iteration 10, mean reward: 5.2 ± 0.3", "words 10: mean_reward=5.2"],
  // Prefixes of loggers and launchers, colours
  ["INFO:root:step=1 loss=0.1", "key_value 1: loss=0.1"],
  [
    "2026-01-01 12:00:00,123 - INFO - Epoch 2: loss: 0.5, val_loss: 0.6",
    "words 2: loss=0.5 val_loss=0.6",
  ],
  ["[2024-01-01 10:00:00,000][root][INFO] - step: 3, loss: 0.2", "words 3: loss=0.2"],
  ["I0101 12:00:00.000000 1234 train.py:57] step: 3, loss: 0.2", "words 3: loss=0.2"],
  ["[rank0]: step 5 loss: 0.5", "words 5: loss=0.5"],
  ["[1,0]<stdout>:step 5 loss 0.4", "words 5: loss=0.4"],
  ["0: step: 5 loss: 1", "words 5: loss=1"],
  ["(RayTrainWorker pid=123, ip=10.0.0.1) {'loss': 0.5, 'step': 1}", "python_dict 1: loss=0.5"],
  [
    "\x1b[32m12:00:00.1\x1b[0m | \x1b[1mINFO   \x1b[0m | a:main:12 - \x1b[1mstep 5 | loss \x1b[31m0.5\x1b[0m",
    "words 5: loss=0.5",
  ],
  // Bars
  [" 10%|##  | 1/10", "bar 1: 1/10"],
  [" 10%|##  | 1/10 [00:01<00:09]{'loss': 0.1, 'step': 3}", "python_dict 3: loss=0.1 1/10"],
  [" 50%|███  | 5/10 [00:00<00:00, 10.0it/s, loss=0.5, acc=71%]", "bar 5: loss=0.5 acc=71 5/10"],
  ["Epoch 1:  50%|███  | 5/10 [00:00<00:00, 10.0it/s, loss=0.5, v_num=1]", "bar 1: 5/10"],
  [
    "Epoch 1: 100%|██████| 10/10 [00:00<00:00, 10.0it/s, loss=0.5, v_num=1]",
    "bar 1: loss=0.5 10/10",
  ],
  [
    "10/10 ━━━━━━━━━━ 1s 10ms/step - accuracy: 0.1 - loss: 2.3",
    "bar -: accuracy=0.1 loss=2.3 10/10",
  ],
  [
    "100/100 [==============================] - 1s 10ms/step - loss: 0.5",
    "bar -: loss=0.5 100/100",
  ],
  [" 3/10 [=====>........................] - ETA: 0s - loss: 0.5", "bar -: 3/10"],
  // Prose, settings and other output have no curves.
  ["Saving checkpoint at step 200 to out/ckpt.pt", ""],
  ["Epoch 3: val_loss improved from 0.5 to 0.4, saving model to x.keras", ""],
  ["Epoch 3: val_loss improved from 0.5 to 0.4", ""],
  ["Epoch 3 took 12 s", ""],
  ["step 2 of 5", ""],
  ["step 7: nothing to do", ""],
  ["The loss was 0.5 after 3 epochs", ""],
  ["Epoch 5 done, 200 steps in total", ""],
  ["We reached accuracy 0.9", ""],
  ["Server listening on port: 8080", ""],
  ["Listening on http://127.0.0.1:8080", ""],
  ["lr: 0.001, gamma: 0.99", ""],
  ["batch size: 32, epochs: 10", ""],
  ["Total params: 1,234", ""],
  ["memory: 5GB, cpus: 4", ""],
  ["version: 1.2.3", ""],
  ["12:30:05 loaded 3 files", ""],
  ["Loaded 5 shards: 10 files", ""],
  // Anything else
  ["SPS: 308", ""],
  ["", ""],
  ["Epoch 1/10", "bar -: 1/10"],
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
    words: "step 200 loss 0.57",
    trial: "Trial 3 finished with value: 0.5 and parameters: {'x': 1}.",
    bar: " 50%|##  | 5/10 [00:00<00:00, 10.0it/s, loss=0.5]",
  };
  for (const dialect of TEXT_DIALECTS) {
    const read = (off: Iterable<typeof dialect>) => {
      const text = new TextLines(off);
      return [...(dialect === "table" ? ["-----------"] : []), lines[dialect], "-----------"]
        .flatMap((line) => text.read(line) ?? []);
    };
    assert.equal(read([])[0]?.dialect, dialect);
    assert.ok(
      read([dialect]).every((fields) => fields.dialect !== dialect && fields.episode === undefined),
    );
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
  assert.deepEqual(found.map(({ step, scalars }) => [step, scalars.length]), [[256, 5], [512, 15], [
    768,
    15,
  ], [
    1024,
    15,
  ]]);
  assert.equal(
    brief(found[0]),
    "table 256: rollout/ep_len_mean=18.1 rollout/ep_rew_mean=18.1 time/fps=508 time/iterations=1 time/time_elapsed=0",
  );
  assert.deepEqual(found[1]!.scalars.slice(-2), [["train/policy_gradient_loss", -0.00243], [
    "train/value_loss",
    72.7,
  ]]);
  const text = new TextLines();
  const open = lines.slice(0, lines.indexOf("| time/              |          |")).map((
    line,
  ) => (text.read(line), text.openLines));
  assert.equal(Math.max(...open), open.filter((n) => n > 0).length);
});

Deno.test("text lines: what stands in a table's way ends it", () => {
  const table = [
    "-----------",
    "| a/ | |",
    "|    b | 1 |",
    "other output",
    "|    c | 2 |",
    "-----------",
  ];
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
  assert.equal(
    brief(found[0]),
    "python_dict -: loss=0.9267 grad_norm=0.7696 learning_rate=0.00004375 epoch=0.5",
  );
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
  for (
    const [text, value] of [["1", 1], [".5", 0.5], ["+2", 2], ["NaN", NaN], [
      "-Inf",
      -Infinity,
    ]] as const
  ) {
    assert.deepEqual(numberOfText(text), value);
  }
  for (const text of ["", "1,5", "0x10", "1e", "--1", "1 ", "Infinit"]) {
    assert.equal(numberOfText(text), undefined);
  }
});
