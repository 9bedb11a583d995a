/**
 * Real programs that fail in the usual ways under a real daemon: each run says what to do about it.
 */
import assert from "node:assert/strict";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { submit, untilState } from "../../harness/runs.ts";

const PYTHON = "/usr/bin/python3";
const havePython = (() => {
  try {
    return Deno.statSync(PYTHON).isFile;
  } catch {
    return false;
  }
})();

/** What fails, how the run's reason reads, and what the hint must say. */
const SHELL: Record<string, [script: string, reason: string, hint: RegExp]> = {
  "a full disk": ["cat /etc/passwd > /dev/full", "exit_code_1", /disk is full/],
  "a missing command": [
    "no-such-trainer --fast",
    "exit_code_127",
    /"no-such-trainer" is not on the worker's PATH/,
  ],
  "a program without the right to be executed": ["/etc/passwd", "exit_code_126", /may not use/],
  "a segmentation fault": ["kill -SEGV $$", "signal_SIGSEGV", /./],
  "a kill by somebody": ["kill -KILL $$", "signal_SIGKILL", /memory/],
};

const SCRIPTS: Record<string, [script: string, reason: string, hint: RegExp]> = {
  "a missing module": ["import no_such_module", "exit_code_1", /"no_such_module" is not installed/],
  "a name that a module lacks": [
    "from json import fast_loads",
    "exit_code_1",
    /without "fast_loads"/,
  ],
  "a missing file": ["open('no/data.h5')", "exit_code_1", /"no\/data.h5", which is not there/],
  "a taken port": [
    "import socket\na = socket.socket(); a.bind(('127.0.0.1', 0))\nb = socket.socket(); b.bind(a.getsockname())",
    "exit_code_1",
    /port that the worker wants is taken/,
  ],
  "memory beyond the limit": [
    "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))\nbytearray(1 << 40)",
    "exit_code_1",
    /refused memory .*ulimit -v/,
  ],
  "too many files": [
    "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\nkept = [open('/dev/null') for _ in range(99)]",
    "exit_code_1",
    /file descriptors/,
  ],
  // What the libraries that are not here print.
  "GPU memory": [
    "class OutOfMemoryError(RuntimeError): pass\nOutOfMemoryError.__module__ = 'torch.cuda'\n" +
    "raise OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 GiB')",
    "gpu_out_of_memory: asked for 20.00 GiB",
    /GPU's memory is full/,
  ],
  "an unknown environment": [
    "class NameNotFound(Exception): pass\nNameNotFound.__module__ = 'gymnasium.error'\n" +
    'raise NameNotFound("Environment `CartPoll` doesn\'t exist. Did you mean: `CartPole`?")',
    "exit_code_1",
    /Gymnasium knows no such environment \(Environment `CartPoll`/,
  ],
};

Deno.test("failures of real programs explain themselves: reason, last lines of standard error, and a hint", async (t) => {
  if (!havePython) {
    console.log(`SKIPPED: ${PYTHON} is not installed, so only shell scripts fail here`);
  }
  await using daemon = await TestDaemon.start();
  const cases = [
    ...Object.entries(SHELL).map(([what, [script, ...expected]]) =>
      [what, ["/bin/sh", "-c", script], ...expected] as const
    ),
    ...(havePython ? Object.entries(SCRIPTS) : []).map(([what, [script, ...expected]]) =>
      [what, [PYTHON, "-c", script], ...expected] as const
    ),
  ];
  const runs = await Promise.all(
    cases.map(([name, command]) => submit(daemon, configOf({ name, command: [...command] }))),
  );
  for (const [i, [what, , reason, hint]] of cases.entries()) {
    await t.step(what, async () => {
      const run = await untilState(daemon, runs[i]!, "FAULTED");
      assert.equal(run.reason, reason, run.stderrTail.join("\n"));
      assert.match(run.hint, hint, run.stderrTail.join("\n"));
    });
  }
});
