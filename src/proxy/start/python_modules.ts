/**
 * Checks whether a run's interpreter can import modules, by asking that interpreter with a time
 * limit.
 */
import { type Confinement, crossingShell } from "../../os/rights/crossing.ts";
import {
  ProgramLate,
  type ProgramOutput,
  runProgram,
} from "../../os/processes/external_program.ts";
import { isShortage } from "../../os/processes/shortage.ts";
import { messageOf } from "../../base/errors.ts";

/** A run's Python, and how the worker would be started. */
export interface Interpreter extends Confinement {
  python: readonly string[];
  env: Record<string, string>;
  cwd: string;
}

export interface ModuleCheck {
  name: string;
  /** Whether it is imported, or only searched (fast, but finds no fault inside it). */
  load: boolean;
}

/** The answer is the last line, because modules may print when they are imported. */
const SCRIPT = `
import importlib, importlib.util, json, sys
failed = {}
for argument in sys.argv[1:]:
    how, name = argument.split(":")
    try:
        if how == "load":
            importlib.import_module(name)
        elif importlib.util.find_spec(name) is None:
            failed[name] = "no module of that name"
    except BaseException as error:
        failed[name] = type(error).__name__ + ": " + str(error)
print()
print(json.dumps(failed))
`;

export async function checkModules(
  checks: ModuleCheck[],
  { python, ...place }: Interpreter,
  timeoutMs: number,
): Promise<string[]> {
  if (checks.length === 0) return [];
  const interpreter = python.join(" ");
  const names = checks.map(({ name }) => name).join(", ");
  let output: ProgramOutput;
  try {
    const questions = checks.map(({ name, load }) => `${load ? "load" : "find"}:${name}`);
    // Importing a module runs its code, so it is confined like the worker, and all of its processes
    // are ended.
    const { args, env, cwd } = crossingShell([...python, "-c", SCRIPT, ...questions], place);
    output = await runProgram(["/bin/sh", ...args], { env, cwd, limitMs: timeoutMs, group: true });
  } catch (error) {
    if (isShortage(error)) throw error;
    if (error instanceof ProgramLate) {
      return [
        `${interpreter} did not import ${names} within ${
          timeoutMs / 1000
        } s; import them by hand to see what hangs`,
      ];
    }
    return [
      `the interpreter ${interpreter} cannot be started (${
        messageOf(error)
      }); set metadata.worker.python`,
    ];
  }
  // A shell's exit codes for a program that does not exist, or cannot be executed.
  if (output.code === 127 || output.code === 126) {
    const why = output.code === 127 ? "there is no such program" : "it is not executable";
    return [
      `the interpreter ${interpreter} cannot be started (${why}); set metadata.worker.python`,
    ];
  }
  const failed = answerOf(output.stdout);
  if (failed === undefined) {
    const last = output.stderr.trim().split("\n").at(-1)!.slice(0, 300);
    const end = output.signal === null ? `exit code ${output.code}` : output.signal;
    return [
      `${interpreter} ended with ${end} while importing ${names}${last === "" ? "" : `: ${last}`}`,
    ];
  }
  return Object.entries(failed).map(([name, why]) =>
    `${interpreter} cannot import ${name} (${why}); install it there, or set metadata.worker.python to an interpreter that has it`
  );
}

function answerOf(stdout: string): Record<string, string> | undefined {
  try {
    return JSON.parse(stdout.trimEnd().split("\n").at(-1)!);
  } catch {
    return undefined;
  }
}
