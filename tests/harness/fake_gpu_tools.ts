/**
 * Plays the recorded machines of tests/fixtures/gpus: nvidia-smi and rocm-smi in a directory for
 * PATH.
 */
import { runProgram } from "../../src/os/processes/external_program.ts";
import { GpuTools } from "../../src/os/gpus/gpu_tools.ts";

const MACHINES = new URL("../fixtures/gpus/", import.meta.url);

/** Answers as the machine in `here/machine` does, which may change while a daemon runs. */
const TOOL = `#!/bin/sh
here=$(dirname "$0"); machine=$(cat "$here/machine")
echo "$*" >>"$here/asked"
if [ -e "$machine/hangs" ]; then trap '' TERM; while :; do sleep 0.1; done; fi
print() { if [ -e "$machine/$1" ]; then cat "$machine/$1"; fi; }
name=$(basename "$0")
case "$name $*" in
  *--query-gpu*)
    for field in $(cat "$machine/unknown" 2>/dev/null); do
      case "$*" in *"$field"*) echo "Field \\"$field\\" is not a valid field to query."; exit 2 ;; esac
    done
    print cards; exit "$(cat "$machine/code" 2>/dev/null || echo 0)" ;;
  *"nvidia-smi -L") print list ;;
  *"topo -m") print topology ;;
  *compute-apps*) print processes ;;
  *"amd-smi metric"*) print amd_metric ;;
  *"amd-smi list"*) print amd_list ;;
  *"amd-smi static"*) print amd_static ;;
  *"amd-smi process"*) print amd_process ;;
  *showpids*) print rocm_processes ;;
  *showtopo*) print rocm_topology ;;
  *showuse*) print rocm_cards ;;
  *"discovery -d"*) print xpu_detail ;;
  *"xpu-smi discovery"*) print xpu_discovery ;;
  *"xpu-smi dump"*) print xpu_dump ;;
  system_profiler*) print apple ;;
  dmesg*|journalctl*)
    if [ -e "$machine/dmesg" ]; then cat "$machine/dmesg"
    else echo "$name: read kernel buffer failed: Operation not permitted" >&2; exit 1; fi ;;
esac
`;

export class FakeGpuTools implements Disposable {
  readonly directory = Deno.makeTempDirSync({ prefix: "mosaic-gpus-" });

  constructor(machine: string, tools: readonly string[] = ["nvidia-smi"]) {
    for (const tool of tools) {
      Deno.writeTextFileSync(`${this.directory}/${tool}`, TOOL, { mode: 0o755 });
    }
    this.becomes(machine);
  }

  get env(): Record<string, string> {
    return { PATH: `${this.directory}:${Deno.env.get("PATH")}` };
  }

  /** The tools as a daemon runs them. @param limitMs for one that hangs */
  tools(limitMs = 10_000): GpuTools {
    return new GpuTools((argv, signal) =>
      runProgram(argv, { env: this.env, limitMs, signal, group: argv[0] === "/bin/sh" })
    );
  }

  /** @param files of the machine that differ, such as `{ cards: "…" }` */
  becomes(machine: string, files: Record<string, string> = {}): void {
    const copy = Deno.makeTempDirSync({ dir: this.directory });
    for (const { name } of Deno.readDirSync(new URL(`${machine}/`, MACHINES))) {
      Deno.copyFileSync(new URL(`${machine}/${name}`, MACHINES), `${copy}/${name}`);
    }
    for (const [name, text] of Object.entries(files)) {
      Deno.writeTextFileSync(`${copy}/${name}`, text);
    }
    Deno.writeTextFileSync(`${this.directory}/machine.new`, copy);
    Deno.renameSync(`${this.directory}/machine.new`, `${this.directory}/machine`);
  }

  /** How often a tool was started. */
  get asked(): number {
    try {
      return Deno.readTextFileSync(`${this.directory}/asked`).trim().split("\n").length;
    } catch {
      return 0;
    }
  }

  [Symbol.dispose](): void {
    for (let tries = 0;; tries++) {
      try {
        return Deno.removeSync(this.directory, { recursive: true });
      } catch (error) {
        // A tool that was given up still writes.
        if (tries === 100) throw error;
      }
    }
  }
}

/** The recorded text of a machine; undefined if it has none of this name. */
export function recorded(machine: string, name: string): string | undefined {
  try {
    return Deno.readTextFileSync(new URL(`${machine}/${name}`, MACHINES));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

export function machines(): string[] {
  return [...Deno.readDirSync(MACHINES)].filter(({ isDirectory }) => isDirectory).map(({ name }) =>
    name
  ).sort();
}
