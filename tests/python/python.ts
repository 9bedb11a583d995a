/** Python programs in tests: found, run, and skipped aloud where there is none. */
import assert from "node:assert/strict";

const ROOT = new URL("../..", import.meta.url).pathname;

/**
 * The interpreter that has the modules of tests/python/requirements.txt; undefined when none has.
 */
function findPython(modules: readonly string[]): string | undefined {
  const candidates = [Deno.env.get("MOSAIC_TEST_PYTHON"), `${ROOT}.venv/bin/python`];
  return candidates.find((python) => {
    if (!python) return false;
    try {
      return new Deno.Command(python, {
        args: ["-c", `import ${modules.join(", ")}`],
        stderr: "null",
      }).outputSync()
        .success;
    } catch {
      return false;
    }
  });
}

/**
 * A test that needs Python with these modules. Without it the test is skipped, or fails where
 * nothing may be skipped.
 */
export function pythonTest(
  name: string,
  modules: readonly string[],
  work: (python: string) => Promise<void>,
): void {
  const python = findPython(modules);
  if (python !== undefined) {
    Deno.test(name, () => work(python));
    return;
  }
  const what = `no Python with ${
    modules.join(", ")
  }: make .venv from tests/python/requirements.txt`;
  if (Deno.env.get("MOSAIC_TEST_REQUIRE") === "all") {
    Deno.test(name, () => assert.fail(what));
    return;
  }
  console.warn(`SKIPPED: ${name}: ${what}`);
  Deno.test({ name: `${name} (skipped: ${what})`, ignore: true, fn() {} });
}

/**
 * Runs a program of this folder to its end. @returns what it printed; fails with all of it when it
 * does not exit 0
 */
export async function runPython(
  python: string,
  script: string,
  args: readonly string[],
): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(python, {
    args: [`${ROOT}tests/python/${script}`, ...args],
    env: { PYTHONDONTWRITEBYTECODE: "1" },
    signal: AbortSignal.timeout(240_000),
  }).output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  assert.ok(success, `${script} failed:\n${out}\n${err}`);
  return out!;
}
