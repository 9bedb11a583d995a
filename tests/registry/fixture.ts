/** A registry in a directory of its own, with a clock that the test moves. */
import { Registry, type RegistryOptions } from "../../src/registry/registry.ts";
import type { NewRun } from "../../src/registry/row_types.ts";

export interface Fixture {
  directory: string;
  path: string;
  registry: Registry;
  clock: { now: number };
  reopen(): Registry;
}

export async function withRegistry(
  work: (fixture: Fixture) => void | Promise<void>,
  options: RegistryOptions = {},
): Promise<void> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-registry-" });
  const path = `${directory}/registry.db`;
  const clock = { now: 1_700_000_000_000 };
  const open = () => Registry.open(path, { now: () => clock.now, ...options });
  const fixture: Fixture = {
    directory,
    path,
    clock,
    registry: open(),
    reopen() {
      fixture.registry.close();
      return fixture.registry = open();
    },
  };
  try {
    await work(fixture);
  } finally {
    fixture.registry.close();
    Deno.removeSync(directory, { recursive: true });
  }
}

/** The n-th run id: valid ULIDs that share all but their end. */
export function runId(n: number): string {
  return `01HZZZZZZZZZZZZZZZZZZZ${String(n).padStart(4, "0")}`;
}

export function newRun(n: number, fields: Partial<NewRun> = {}): NewRun {
  return {
    runId: runId(n),
    name: `run-${n}`,
    digest: `digest-${n}`,
    maxAttempts: 1,
    priority: 0,
    tags: [],
    baseDir: "runs",
    configJson: `{"run_name":"run-${n}"}`,
    gpusRequested: 0,
    gpusMandatory: false,
    workerId: "",
    agentId: "agent_1",
    owner: "",
    ...fields,
  };
}

export function hasCode(code: string, text?: RegExp) {
  return (error: unknown) =>
    (error as { code?: string }).code === code &&
    (text === undefined || text.test((error as Error).message));
}
