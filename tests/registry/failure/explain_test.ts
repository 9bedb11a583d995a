import assert from "node:assert/strict";
import { type Ending, explain } from "../../../src/registry/failure/explain.ts";

type Exit = NonNullable<Ending["exit"]>;

function ending(exit: Partial<Exit> | undefined, fields: Partial<Ending> = {}): Ending {
  const whole = { code: 0, signal: "", lost: false, stderrTail: [], spawnError: "", ...exit };
  return {
    exit: exit === undefined ? undefined : whole,
    faultRequested: null,
    runFailed: undefined,
    ...fields,
  };
}

Deno.test("explain: the reason of every way in which a run can end", () => {
  const cases: [Ending, string | undefined][] = [
    [ending({}), undefined],
    [ending({ code: 3 }), "exit_code_3"],
    [ending({ code: null, signal: "SIGKILL" }), "signal_SIGKILL"],
    [ending({ code: null, signal: "SIGKILL" }, { oomKilled: { limitMb: 512 } }), "oom_killed"],
    [ending({ code: 137 }, { oomKilled: { limitMb: 512 } }), "oom_killed"],
    // A child was killed for want of memory and the worker coped.
    [ending({ code: 0 }, { oomKilled: { limitMb: 512 } }), undefined],
    [ending({ code: null, lost: true }), "worker_lost"],
    [ending({ code: null }), "worker_lost"],
    [ending(undefined), "worker_lost"],
    [ending({ code: 127, spawnError: "nope: not found" }), "spawn_failed: nope: not found"],
    [ending({}, { runFailed: "no environment" }), "run_failed: no environment"],
    [ending({}, { runFailed: "" }), "run_failed"],
    [ending({ code: 1 }, { runFailed: "no environment" }), "exit_code_1"],
    [
      ending({ code: null, signal: "SIGKILL" }, { faultRequested: "heartbeat_timeout" }),
      "heartbeat_timeout",
    ],
    [
      ending(undefined, { faultRequested: "preflight: data.h5 is not there" }),
      "preflight: data.h5 is not there",
    ],
  ];
  for (const [input, reason] of cases) {
    assert.equal(explain(input)?.reason, reason, JSON.stringify(input));
  }
});

Deno.test("explain: a worker's own text becomes one bounded line without control characters", () => {
  const reason =
    explain(ending({}, { runFailed: `\u001b[31mbad\r\nthing\u0007 ${"x".repeat(500)}` }))!.reason;
  assert.match(reason, /^run_failed: \[31mbad thing x+…$/);
  assert.equal(reason.length, "run_failed: ".length + 200);
});

Deno.test("explain: a failed run names the caller's variables that it did not get, if its last lines suggest one", () => {
  const leftOut = ["AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "MY_SECRET", "WANDB_API_KEY"];
  for (
    const [line, named] of [
      ["KeyError: 'MY_SECRET'", "-e MY_SECRET$"],
      [
        "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
        "-e WANDB_API_KEY$",
      ],
      ["OSError: You are trying to access a gated repo at huggingface.co", "-e HF_TOKEN$"],
      [
        "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
        "-e AWS_SECRET_ACCESS_KEY$",
      ],
      [
        "requests.exceptions.HTTPError: 401 Client Error",
        "-e AWS_SECRET_ACCESS_KEY -e HF_TOKEN -e MY_SECRET -e WANDB_API_KEY$",
      ],
      ["ZeroDivisionError: division by zero", undefined],
      ["NOT_MY_SECRET is fine", undefined],
    ] as const
  ) {
    const hint = explain(ending({ code: 1, stderrTail: [line] }, { leftOut }))!.hint ?? "";
    if (named === undefined) assert.doesNotMatch(hint, /mosaic run/, line);
    else assert.match(hint, new RegExp(`mosaic run ${named}`), line);
    assert.doesNotMatch(explain(ending({ code: 1, stderrTail: [line] }))!.hint ?? "", /mosaic run/);
  }
});

/** The last lines that programs really print, and what the hint must speak of. */
const STDERR: [string, string[], RegExp][] = [
  [
    "CUDA memory (PyTorch)",
    ["torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"],
    /GPU's memory is full/,
  ],
  ["CUDA memory (JAX)", [
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate",
  ], /GPU's memory/],
  ["no GPU", ["RuntimeError: No CUDA GPUs are available"], /sees no usable GPU/],
  [
    "missing module",
    ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'gymnasium'"],
    /"gymnasium" is not installed/,
  ],
  [
    "the original's arguments",
    [
      "usage: cli.py [-h] --config CONFIG",
      "cli.py: error: unrecognized arguments: --grpc --grpc-target 127.0.0.1:1",
    ],
    /use_grpc to false/,
  ],
  [
    "an argument",
    ["x.py: error: the following arguments are required: --lr"],
    /lacks "--lr".*use_grpc/,
  ],
  [
    "missing module by -m",
    ["/usr/bin/python3: No module named cleanrl_worker"],
    /"cleanrl_worker" is not installed/,
  ],
  [
    "other version",
    ["ImportError: cannot import name 'Box' from 'gymnasium.spaces' (/x/y.py)"],
    /"gymnasium.spaces".*without "Box"/,
  ],
  ["no such environment", [
    "gymnasium.error.NameNotFound: Environment `CartPoel` doesn't exist. Did you mean: `CartPole`?",
  ], /no such environment.*CartPoel/],
  [
    "no such version",
    ["gymnasium.error.VersionNotFound: Environment version `v9` for `CartPole` doesn't exist."],
    /no such environment/,
  ],
  ["environment's package", [
    'gymnasium.error.DependencyNotInstalled: Box2D is not installed, run `pip install "gymnasium[box2d]"`',
  ], /Box2D is not installed/],
  [
    "shared library",
    ["ImportError: libGL.so.1: cannot open shared object file: No such file or directory"],
    /"libGL.so.1" is missing/,
  ],
  ["disk full", ["OSError: [Errno 28] No space left on device"], /disk is full/],
  ["port taken", ["OSError: [Errno 98] Address already in use"], /port.*taken/],
  ["shared memory", [
    "RuntimeError: DataLoader worker (pid 5) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. insufficient shared memory (shm)",
  ], /\/dev\/shm/],
  ["host memory", ["MemoryError"], /refused memory/],
  [
    "host memory (numpy)",
    ["numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB"],
    /refused memory/,
  ],
  ["descriptors", ["OSError: [Errno 24] Too many open files: '/x'"], /file descriptors/],
  ["no display", ["pygame.error: No available video device"], /display/],
  [
    "wandb",
    ["wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])"],
    /WANDB_API_KEY/,
  ],
  [
    "permission",
    ["PermissionError: [Errno 13] Permission denied: '/data/replay'"],
    /"\/data\/replay".*owner and mode/,
  ],
  [
    "stdout opened anew",
    ["run.sh: 2: cannot create /dev/stderr: Permission denied"],
    />&1 and >&2/,
  ],
  ["stdout opened anew (bash)", ["run.sh: line 2: /dev/stdout: Permission denied"], />&1 and >&2/],
  [
    "stdout opened anew (Python)",
    ["PermissionError: [Errno 13] Permission denied: '/dev/stdout'"],
    />&1 and >&2/,
  ],
  ["permission (shell)", ["bash: ./train.sh: Permission denied"], /owner and mode/],
  [
    "command not found (bash)",
    ["train.sh: line 3: nvcc: command not found"],
    /"nvcc" is not on the worker's PATH/,
  ],
  ["command not found (sh)", ["sh: 1: uv: not found"], /"uv" is not on/],
  ["command not found (zsh)", ["zsh: command not found: conda"], /"conda" is not on/],
  [
    "a program that the sandbox hides",
    ["bwrap: execvp /tmp/venv/bin/python: No such file or directory"],
    /sandbox does not show "\/tmp\/venv\/bin\/python".*\/tmp is private/,
  ],
  [
    "file not found",
    ["FileNotFoundError: [Errno 2] No such file or directory: 'data/x.npz'"],
    /"data\/x.npz", which is not there.*worker\.cwd/,
  ],
];

for (const [name, stderrTail, expected] of STDERR) {
  Deno.test(`explain: a hint for ${name}`, () => {
    assert.match(explain(ending({ code: 1, stderrTail }))!.hint!, expected);
  });
}

const TRACEBACK = [
  "Traceback (most recent call last):",
  '  File "/home/me/train.py", line 40, in <module>',
  "    main()",
  '  File "/home/me/train.py", line 7, in main',
  "    loss = loss_fn(net(torch.randn(8, 3)), torch.zeros(8, 2))",
  "                   ^^^^^^^^^^^^^^^^^^^^^^",
  '  File "/home/me/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward',
  "    return F.linear(input, self.weight, self.bias)",
];

Deno.test("explain: an exception of no known cause is named, with the place in the program's own code", () => {
  const hint = (last: string[], exit: Partial<Exit> = { code: 1 }) =>
    explain(ending({ ...exit, stderrTail: [...TRACEBACK, ...last] }))!.hint;
  assert.equal(
    hint(["RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x3 and 4x2)"]),
    "The program ended with RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x3 and 4x2) (/home/me/train.py, line 7).",
  );
  assert.match(
    hint(["AssertionError", "wandb: run is over", ""])!,
    /ended with AssertionError \(.*line 7\)/,
  );
  assert.match(hint(["queue.Empty"])!, /queue\.Empty/);
  assert.match(
    hint([
      "RuntimeError: Error(s) in loading state_dict for Net:",
      "\tsize mismatch for fc.weight",
    ])!,
    /Error\(s\) in loading state_dict for Net:/,
  );
  assert.match(
    hint([`ValueError: ${"x".repeat(5000)}`])!,
    /^The program ended with ValueError: x{287}… \(/,
  );
  assert.equal(hint(["warning, no traceback's end"]), null);
  assert.match(
    hint(["KeyError: 'lr'"], { code: null, signal: "SIGKILL" })!,
    /^Somebody or the kernel/,
  );
  const cause = [
    ...TRACEBACK,
    "KeyError: 'a'",
    "",
    "During handling of the above exception, another exception occurred:",
  ];
  const both = [...cause, "", ...TRACEBACK.slice(0, 3), "ValueError: 'b'"];
  assert.match(
    explain(ending({ code: 1, stderrTail: both }))!.hint!,
    /ValueError: 'b' \(\/home\/me\/train.py, line 40\)/,
  );
  assert.match(
    explain(ending({ code: 1, stderrTail: TRACEBACK.slice(6).concat("KeyError: 3") }))!.hint!,
    /linear\.py, line 134/,
  );
});

Deno.test("explain: the newest cause counts, and lines after it do not hide it", () => {
  const stderrTail = [
    "FileNotFoundError: 'old'",
    "ModuleNotFoundError: No module named 'torch'",
    "cleaning up",
    "",
  ];
  assert.match(explain(ending({ code: 1, stderrTail }))!.hint!, /"torch"/);
});

Deno.test("explain: the text of run_failed is looked at as well", () => {
  const runFailed = "NameNotFound: Environment `X` doesn't exist.";
  assert.match(explain(ending({ code: 1 }, { runFailed }))!.hint!, /no such environment/);
});

Deno.test("explain: what the daemon decided is explained by that, not by what the worker wrote when it was stopped", () => {
  const stderrTail = ["PermissionError: [Errno 13] Permission denied"];
  const decided = ending({ code: 1, stderrTail }, { faultRequested: "stall_timeout" });
  assert.match(explain(decided)!.hint!, /stall_timeout_seconds/);
  const schema = ending({ code: 143, stderrTail }, {
    faultRequested: "telemetry_schema: reward is no number",
  });
  assert.match(explain(schema)!.hint!, /metadata.telemetry.strict/);
  assert.equal(
    explain(ending(undefined, { faultRequested: "preflight: install torch" }))!.hint,
    null,
  );
});

Deno.test("explain: exit codes and signals have hints of their own when stderr has none", () => {
  const cases: [Partial<Exit>, RegExp | null][] = [
    [{ code: 1 }, null],
    [{ code: 126 }, /not executable/],
    [{ code: 127 }, /not there/],
    [{ code: 137 }, /128 \+ 9: SIGKILL.*dmesg/],
    [{ code: 139 }, /128 \+ 11: SIGSEGV/],
    [{ code: 200 }, null],
    [{ code: null, signal: "SIGSEGV" }, /PYTHONFAULTHANDLER/],
    [{ code: null, signal: "SIGKILL" }, /dmesg/],
    [{ code: null, signal: "SIGUSR2" }, null],
    [
      { code: 127, spawnError: "no such program: trainer is not on the worker's PATH" },
      /full path.*proxy\.log/,
    ],
    [{ code: 127, spawnError: "no such program: /x/trainer" }, /full path/],
    [{ code: 127, spawnError: "trainer: No such file or directory" }, /full path/],
    [{ code: 126, spawnError: "trainer: Permission denied" }, /chmod \+x/],
  ];
  for (const [exit, expected] of cases) {
    const hint = explain(ending(exit))!.hint;
    if (expected === null) assert.equal(hint, null, JSON.stringify(exit));
    else assert.match(hint ?? "", expected, JSON.stringify(exit));
  }
});

Deno.test("explain: a hostile line is answered at once", () => {
  const stderrTail = [
    `${"'".repeat(50_000)}PermissionError${"'".repeat(50_000)}`,
    `${"a:".repeat(100_000)} not found`,
  ];
  assert.doesNotThrow(() => explain(ending({ code: 1, stderrTail })));
});
