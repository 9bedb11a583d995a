/**
 * `deno task test [--no-checks] [--record] [PATH…]`: formatting, lint, types and generated code,
 * and every test file, each in a process of its own (a file that hangs or aborts the runtime
 * affects no other), two for each core at a time, the longest first: most files wait for processes
 * of their own more than they compute.
 *
 * A file that fails is run again, alone, after all others. If it then passes, it is reported as
 * FLAKY with the output of its failure and does not fail the suite, because the machines that run
 * this are shared and busy. It is still a defect to look into.
 *
 * Processes of mosaic that tests start run the bundled program, which starts in a third of the time
 * of the source files; with MOSAIC_TEST_LONG=1 they run the executable, under its permissions,
 * which MOSAIC_BIN may name. A test run by hand with `deno test` starts the source files.
 *
 * Each file gets a temporary directory of its own as TMPDIR. Processes that outlive their file are
 * found by this directory, killed and reported. When the suite ends in any other way (a signal to
 * it, to its group or to what has started it), the same happens to all that run from its
 * directories (leftovers.ts).
 *
 * A test that needs an optional program prints "SKIPPED: …" where it is missing, and one that needs
 * a right of the host (mounting, tracing) "NOT ALLOWED HERE: …". The runner prints these lines, and
 * the names of ignored tests in a file that prints none.
 *
 * Environment: MOSAIC_TEST_REQUIRE=all makes a skipped optional part (Python, browser, …) a
 * failure; MOSAIC_TEST_JOBS=N sets how many files run at once; MOSAIC_TEST_LONG=1 runs the LONG
 * files, 30 fault schedules and the full sizes of tests whose sizes matter (tests/harness/long.ts),
 * with the executable.
 *
 * `--record` writes tests/durations.json, by which the longest files are started first.
 */
import { bundle } from "./compile/build.ts";
import { portable } from "./compile/portable.ts";
import { afterTheEnd, reap } from "./leftovers.ts";
import { taskArguments } from "./task_arguments.ts";

const root = new URL("..", import.meta.url).pathname;
/**
 * The lock of what tests, benches and the generator import; deno.lock has what mosaic itself runs,
 * and nothing else.
 */
const DEV_LOCK = "--lock=dev.lock";
const FILE_TIMEOUT_MS = 600_000;
/**
 * They build several executables, or run every bench, which takes minutes: run with
 * MOSAIC_TEST_LONG=1, or when named.
 */
const LONG = [
  "tests/packaging/portable_test.ts",
  "tests/packaging/upgrade_test.ts",
  "tests/bench/smoke_test.ts",
];
const DURATIONS = `${root}tests/durations.json`;
/** Two processes a core, up to this: more would wait for the same disk. */
const MOST_JOBS = 8;
const jobs = Number(
  Deno.env.get("MOSAIC_TEST_JOBS") ?? Math.min(MOST_JOBS, 2 * navigator.hardwareConcurrency),
);

interface Result {
  file: string;
  ok: boolean;
  passed: number;
  failed: number;
  skipped: number;
  seconds: number;
  notes: string[];
  output: string;
}

/** Their paths from the root of the tree. */
function testFiles(dir: string): string[] {
  return [...Deno.readDirSync(root + dir)].sort((a, b) => a.name < b.name ? -1 : 1).flatMap(
    (entry) => {
      const path = `${dir}/${entry.name}`;
      if (entry.isDirectory) return testFiles(path);
      return entry.name.endsWith("_test.ts") ? [path] : [];
    },
  );
}

async function runFile(file: string): Promise<Result> {
  const directory = `${suiteDirectory}-${String(++filesStarted).padStart(4, "0")}`;
  Deno.mkdirSync(directory, { mode: 0o700 });
  const started = performance.now();
  const child = new Deno.Command(Deno.execPath(), {
    // Not --quiet, which hides what a file prints while it is loaded: why its tests are skipped.
    args: ["test", DEV_LOCK, "-A", "--no-check", file],
    cwd: root,
    env: { TMPDIR: directory, NO_COLOR: "1", MOSAIC_STATE_DIR: "", MOSAIC_TARGET: "", ...program },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    child.kill("SIGKILL");
  }, FILE_TIMEOUT_MS);
  const { success, signal, stdout, stderr } = await child.output();
  clearTimeout(timer);
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  let output = decode(stdout) + decode(stderr);
  if (timedOut) output += `\nno end after ${FILE_TIMEOUT_MS / 1000} s: killed\n`;
  else if (signal !== null) output += `\nended by ${signal}\n`;
  const left = reap(directory);
  if (left.length > 0) {
    output += `\nleft running (killed):\n${left.map((l) => `  ${l}\n`).join("")}`;
  }
  try {
    Deno.removeSync(directory, { recursive: true });
  } catch (error) {
    output += `\n${error}\n`;
  }
  const counts = [...output.matchAll(/(\d+) passed[^|\n]*\| (\d+) failed(?: \| (\d+) ignored)?/g)]
    .at(-1);
  const skips = output.match(/^SKIPPED: .*/gm) ?? [];
  // Tests, and steps of tests, which the counts have in parentheses.
  const ignoredNames = [...output.matchAll(/^ *(.*) \.\.\. ignored/gm)].map(([, name]) => name!);
  const passed = Number(counts?.[1] ?? 0);
  const ignored = Number(counts?.[3] ?? 0);
  const skipped = Math.max(skips.length, ignoredNames.length);
  return {
    file,
    ok: success && passed + ignored > 0,
    passed: Math.max(0, passed - Math.max(0, skips.length - ignoredNames.length)),
    failed: success ? 0 : Math.max(1, Number(counts?.[2] ?? 1)),
    skipped,
    seconds: (performance.now() - started) / 1000,
    notes: notesOf(output, ignoredNames),
    output,
  };
}

/**
 * What Deno prints of each failed test, or the output's last lines. A long one is cut in its
 * middle.
 */
function errorsOf(output: string): string {
  const errors = /^ ERRORS *$\n([\s\S]*?)^ FAILURES *$/m.exec(output)?.[1] ?? output.slice(-4000);
  return errors.length <= 4000 ? errors : `${errors.slice(0, 2000)}\n[…]\n${errors.slice(-2000)}`;
}

/** Why tests did not run, and what they left running. */
function notesOf(output: string, ignoredNames: readonly string[]): string[] {
  const notes =
    output.match(/^((?:SKIPPED|NOT ALLOWED HERE): .*|left running .*\n(?: {2}.*\n)*)/gm) ?? [];
  const reasons = notes.some((note) => !note.startsWith("left running"));
  return reasons ? notes : [...ignoredNames.map((name) => `SKIPPED: ${name}`), ...notes];
}

function report(result: Result, mark: string): void {
  console.log(
    `${mark} ${result.file}  ${result.passed} passed` +
      `${result.failed ? `, ${result.failed} failed` : ""}${
        result.skipped ? `, ${result.skipped} skipped` : ""
      }` +
      `  (${result.seconds.toFixed(1)} s)`,
  );
  for (const note of result.notes) console.log(note.trimEnd().replace(/^/gm, "    "));
}

/**
 * Bundles the program into a directory, where no package of the source tree can be found. @returns
 * variables that name it
 */
function programIn(directory: string): Record<string, string> {
  for (const [name, text] of bundle("src/main.ts")) {
    Deno.writeTextFileSync(`${directory}/${name}`, text);
  }
  const variables = { MOSAIC_TEST_MAIN: `${directory}/main.js` };
  if (!long || Deno.env.has("MOSAIC_BIN")) return variables;
  const output = `${directory}/mosaic`;
  portable({ output, profile: "least", compression: 1 });
  return { ...variables, MOSAIC_BIN: output, MOSAIC_CACHE_DIR: `${directory}/cache` };
}

async function checks(): Promise<number> {
  const commands: [string, string[]][] = [
    ["formatting", ["fmt", "--check", "--quiet"]],
    ["lint", ["lint", "--quiet"]],
    ["types", ["check", DEV_LOCK, "--quiet", "src", "tests", "bench", "scripts"]],
    ["generated code", ["run", DEV_LOCK, "-A", "--quiet", "scripts/gen.ts", "--check"]],
  ];
  let failed = 0;
  for (const [name, args] of commands) {
    const out = await new Deno.Command(Deno.execPath(), { args, cwd: root, stdin: "null" })
      .output();
    console.log(`${out.success ? "ok  " : "FAIL"} ${name}`);
    if (out.success) continue;
    failed++;
    console.log(new TextDecoder().decode(out.stdout) + new TextDecoder().decode(out.stderr));
  }
  return failed;
}

const { values: options, words: paths } = taskArguments(
  import.meta.url,
  { "no-checks": { type: "boolean" }, record: { type: "boolean" } },
  { positionals: true },
);
// Beside the tests: a check uses one core, and types take the longest.
const checking = paths.length === 0 && !options["no-checks"] ? checks() : Promise.resolve(0);

const durations: Record<string, number> = JSON.parse(Deno.readTextFileSync(DURATIONS));
const seconds = (file: string) => durations[file] ?? 0;
const long = Deno.env.get("MOSAIC_TEST_LONG") === "1";
const files = testFiles("tests")
  .filter((f) =>
    paths.length === 0
      ? long || !LONG.includes(f)
      : paths.some((p) => f.startsWith(p.replace(/^\.\//, "")))
  )
  // A file that is not in the tree.
  .concat(paths.filter((p) => p.startsWith("/")))
  .sort((a, b) => seconds(b) - seconds(a));
if (paths.length === 0 && !long) {
  console.log(
    `not run without MOSAIC_TEST_LONG=1: ${
      LONG.join(", ")
    }, 15 of 30 fault schedules, and full sizes`,
  );
}
if (files.length === 0) {
  console.error(`no test file is at ${paths.join(", ")}`);
  Deno.exit(2);
}
const suiteDirectory = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
let filesStarted = 0;
await afterTheEnd(suiteDirectory);
for (const [signal, code] of [["SIGHUP", 129], ["SIGINT", 130], ["SIGTERM", 143]] as const) {
  Deno.addSignalListener(signal, () => Deno.exit(code));
}
// A parent that is killed tells nobody.
const parent = Deno.ppid;
Deno.unrefTimer(setInterval(() => Deno.ppid === parent || Deno.exit(129), 500));
const program = programIn(suiteDirectory);
const results: Result[] = [];
const suspects: Result[] = [];
let next = 0;
await Promise.all(Array.from({ length: jobs }, async () => {
  while (next < files.length) {
    const result = await runFile(files[next++]!);
    report(result, result.ok ? "ok  " : "FAIL");
    if (result.ok) results.push(result);
    else suspects.push(result);
  }
}));

const failedChecks = await checking;

if (options.record) {
  const longest = results.filter((r) => r.seconds >= 3).map((r) =>
    [r.file, Math.round(r.seconds)] as const
  );
  longest.sort(([a], [b]) => a < b ? -1 : 1);
  Deno.writeTextFileSync(DURATIONS, JSON.stringify(Object.fromEntries(longest), null, 2) + "\n");
}

const flaky: Result[] = [];
for (const first of suspects) {
  console.log(`\n--- output of ${first.file}\n${first.output}\n--- end; once more, alone:`);
  const second = await runFile(first.file);
  report(second, second.ok ? "ok  " : "FAIL");
  if (second.ok) flaky.push(first);
  else console.log(second.output);
  results.push(second);
}

console.log("");
// At the end, because whoever reads a long suite's output reads its last page.
for (const { file, ok, output } of results) {
  if (!ok) console.log(`FAILED ${file}\n${errorsOf(output).trim()}\n`);
}
for (const result of flaky) {
  console.log(`FLAKY ${result.file}: failed once, passed alone; its first output is above`);
}
const sum = (key: "passed" | "failed" | "skipped") => results.reduce((n, r) => n + r[key], 0);
const skipped = sum("skipped");
const failed = sum("failed") + failedChecks;
const strict = Deno.env.get("MOSAIC_TEST_REQUIRE") === "all";
if (strict && skipped > 0) {
  console.log("MOSAIC_TEST_REQUIRE=all: what was skipped counts as failed");
}
console.log(
  `${sum("passed")} passed, ${failed + (strict ? skipped : 0)} failed, ${skipped} skipped`,
);
Deno.exit(failed > 0 || (strict && skipped > 0) ? 1 : 0);
