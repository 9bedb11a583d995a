/**
 * Containers made by bubblewrap: a root filesystem with what the recipe asks for and nothing else,
 * the entrypoint as process 1.
 */
import assert from "node:assert/strict";
import { type ProcessRef, processRef } from "../../../src/os/processes/identity.ts";
import { readTextIfThere } from "../../../src/os/files/files.ts";
import { CLOSE_DESCRIPTORS } from "../../../src/os/rights/crossing.ts";
import { type Signal, signalProcess } from "../../../src/os/processes/signals.ts";
import { until } from "../../harness/wait.ts";

const RECIPE = new URL("../../../packaging/container/", import.meta.url).pathname;

/** What the portable form needs (docs/reference/packaging.md), and what the tests' workers need. */
const PROGRAMS = [
  ...[
    "sh",
    "cat",
    "chmod",
    "date",
    "gzip",
    "head",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mv",
    "rm",
    "rmdir",
    "sha256sum",
  ],
  ...["sleep", "stat", "sync", "tail", "tar", "wc"],
];

/** Copies a program with the libraries that it is linked to. */
function install(program: string, root: string, as: string): void {
  const { stdout } = new Deno.Command("ldd", { args: [program] }).outputSync();
  const libraries = [...new TextDecoder().decode(stdout).matchAll(/(\/\S+) \(0x/g)].map((match) =>
    match[1]!
  );
  for (
    const [from, to] of [[program, as], ...libraries.map((path) => [path, path])] as [
      string,
      string,
    ][]
  ) {
    Deno.mkdirSync(`${root}${to.slice(0, to.lastIndexOf("/"))}`, { recursive: true });
    Deno.copyFileSync(from, `${root}${to}`);
  }
}

function located(program: string): string {
  const { stdout } = new Deno.Command("/bin/sh", { args: ["-c", 'command -v "$0"', program] })
    .outputSync();
  return Deno.realPathSync(new TextDecoder().decode(stdout).trim());
}

export interface Mount {
  from: string;
  to: string;
}

export interface ContainerOptions {
  /** argv of process 1. */
  command: string[];
  env?: Record<string, string>;
  /** Directories of the host that may be written to, as volumes are. */
  volumes?: Mount[];
}

export class Image {
  readonly root: string;
  readonly #directory: string;
  #containers = 0;

  private constructor(directory: string) {
    this.#directory = directory;
    this.root = `${directory}/root`;
  }

  /** As packaging/container/Containerfile has it. */
  static async build(directory: string, mosaic: string): Promise<Image> {
    const image = new Image(directory);
    for (
      const name of [
        "proc",
        "dev",
        "tmp",
        "etc",
        "app",
        "run/secrets",
        "var/lib/mosaic",
        "opt/mosaic",
      ]
    ) {
      Deno.mkdirSync(`${image.root}/${name}`, { recursive: true });
    }
    for (const program of PROGRAMS) install(located(program), image.root, `/bin/${program}`);
    // The libraries of the runtime that is packed: the one that runs this.
    install(Deno.execPath(), image.root, "/app/deno");
    Deno.removeSync(`${image.root}/app/deno`);
    Deno.mkdirSync(`${image.root}/usr/local/bin`, { recursive: true });
    Deno.copyFileSync(mosaic, `${image.root}/usr/local/bin/mosaic`);
    Deno.copyFileSync(`${RECIPE}entrypoint.sh`, `${image.root}/usr/local/bin/mosaic-entrypoint`);
    Deno.chmodSync(`${image.root}/usr/local/bin/mosaic-entrypoint`, 0o755);
    const unpacked = image.#start({ command: ["mosaic", "--version"] }, "--bind");
    assert.equal(await unpacked.code, 0, unpacked.stderr());
    return image;
  }

  add(path: string, text: string): void {
    Deno.writeTextFileSync(`${this.root}${path}`, text);
  }

  /** Starts a container whose root filesystem is read-only. */
  run(options: ContainerOptions): Container {
    return this.#start(options, "--ro-bind");
  }

  #start({ command, env = {}, volumes = [] }: ContainerOptions, bind: string): Container {
    const files = `${this.#directory}/container-${++this.#containers}`;
    const variables = { PATH: "/usr/local/bin:/bin", MOSAIC_CACHE_DIR: "/opt/mosaic", ...env };
    const args = [
      ...[
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--as-pid-1",
        "--die-with-parent",
        "--clearenv",
      ],
      ...Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]),
      ...[
        bind,
        this.root,
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--chdir",
        "/app",
      ],
      ...volumes.flatMap(({ from, to }) => ["--bind", from, to]),
      ...["--info-fd", "9", "--", ...command],
    ];
    // Engines pass none of their own descriptors on, and in an image without bash and perl nothing
    // closes high ones.
    const start = [
      "/bin/sh",
      "-c",
      'exec bwrap "$@" >"$0.out" 2>"$0.err" 9>"$0.info"',
      files,
      ...args,
    ];
    const child = new Deno.Command("/bin/sh", {
      args: ["-c", `${CLOSE_DESCRIPTORS}exec "$@"`, "sh", ...start],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    return new Container(child, files);
  }
}

export class Container {
  /** Of process 1. */
  readonly code: Promise<number>;
  readonly #files: string;

  constructor(child: Deno.ChildProcess, files: string) {
    this.#files = files;
    this.code = child.status.then(({ code }) => code);
  }

  stdout(): string {
    return readTextIfThere(`${this.#files}.out`) ?? "";
  }

  stderr(): string {
    return readTextIfThere(`${this.#files}.err`) ?? "";
  }

  /** Signals process 1, as an engine does. */
  async signal(signal: Signal): Promise<void> {
    const first = await until((): ProcessRef | undefined => {
      const pid = /"child-pid": (\d+)/.exec(readTextIfThere(`${this.#files}.info`) ?? "")?.[1];
      return pid === undefined ? undefined : processRef(Number(pid));
    }, { what: "process 1 of the container", state: () => this.stderr() });
    assert.ok(signalProcess(first, signal));
  }

  untilPrinted(pattern: RegExp): Promise<unknown> {
    return until(() => pattern.test(this.stdout()), {
      what: `the container to print ${pattern}`,
      state: () => [this.stdout().slice(-500), this.stderr().slice(-2000)],
    });
  }
}
