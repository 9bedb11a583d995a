/**
 * A worker puts links in the place of directories of its run: nothing is read, written, renamed or
 * removed outside of it.
 */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { versionFrame } from "../../src/cli/export/event_file.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { openRegular, openRegularInProxy } from "../../src/os/files/untrusted.ts";
import {
  makeDirectory,
  offerDirectory,
  removeFile,
  renameFile,
} from "../../src/os/files/untrusted_changes.ts";
import { frame } from "../../src/readers/tensorboard/tfrecord.ts";
import { hasBubblewrap } from "../harness/bubblewrap.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { LONG_TESTS } from "../harness/long.ts";
import { PlannedDaemon } from "../harness/planned_daemon.ts";
import { submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";

const bubblewrap = hasBubblewrap();
if (!bubblewrap) console.log("SKIPPED: bubblewrap is not usable here");
const isRoot = Deno.uid() === 0;

/** Names, kinds, modes, owners and contents of everything below a directory. */
function stateOf(directory: string): string[] {
  return [...Deno.readDirSync(directory)].sort((a, b) => a.name < b.name ? -1 : 1).flatMap(
    ({ name, isDirectory }) => {
      const path = `${directory}/${name}`;
      const { mode, gid, isFile } = Deno.lstatSync(path);
      const line = `${path} ${mode?.toString(8)} ${gid} ${
        isFile ? Deno.readTextFileSync(path) : ""
      }`;
      return isDirectory ? [line, ...stateOf(path)] : [line];
    },
  );
}

// ---------------------------------------------------------------------------------------------
// every function, every place

const SCRIPT = new URL("changed_ways.ts", import.meta.url).pathname;

/** A run whose `parts` lead to a file, one of them through a link to the same directory outside. */
function linkedRun(parts: readonly string[], linked: number) {
  const place = Deno.makeTempDirSync();
  const [run, outside] = [`${place}/run`, `${place}/outside`];
  Deno.mkdirSync(`${outside}/${parts.slice(linked + 1, -1).join("/")}`, { recursive: true });
  Deno.writeTextFileSync(`${outside}/${parts.slice(linked + 1).join("/")}`, "a secret");
  Deno.mkdirSync([run, ...parts.slice(0, linked)].join("/"), { recursive: true });
  Deno.symlinkSync(outside, [run, ...parts.slice(0, linked + 1)].join("/"));
  Deno.writeTextFileSync(`${run}/other`, "of the run");
  return { place, run, outside, path: [run, ...parts].join("/") };
}

const WAYS = [
  ...[0, 1, 2].map((linked) => ({
    kind: "anywhere",
    parts: ["checkpoints", "a", "b", "secret"],
    linked,
  })),
  ...[".mosaic", "logs", "media"].map((name) => ({
    kind: "own",
    parts: [name, "secret"],
    linked: 0,
  })),
];

function outcomes(flags: string[], kind: string, path: string, run: string): string[] {
  const { code, stdout, stderr } = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-check", ...flags, SCRIPT, kind, path, run],
  }).outputSync();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  const lines = new TextDecoder().decode(stdout).trim().split("\n");
  assert.ok(lines.length > 10, lines.join("\n"));
  return lines;
}

async function assertStopped(
  t: Deno.TestContext,
  flagsFor: (run: string) => string[],
): Promise<void> {
  for (const { kind, parts, linked } of WAYS) {
    await t.step(
      `${parts.slice(0, linked).map((part) => `${part}/`).join("")}[${parts[linked]}]`,
      () => {
        const { place, run, outside, path } = linkedRun(parts, linked);
        const before = stateOf(outside);
        const lines = outcomes(flagsFor(run), kind, path, run);
        assert.deepEqual(lines.filter((line) => / done$/.test(line)), []);
        assert.deepEqual(stateOf(outside), before);
        Deno.removeSync(place, { recursive: true });
      },
    );
  }
}

const asProxy = (run: string) => [
  "--no-prompt",
  ...["read", "write"].map((kind) => `--allow-${kind}=${run}`),
  "--allow-run=/bin/sh",
];

Deno.test("directories: every function stops at a link, with all permissions", async (t) => {
  await assertStopped(t, () => ["-A"]);
});

Deno.test("directories: every function stops at a link, with the permissions of a proxy", async (t) => {
  await assertStopped(t, asProxy);
});

Deno.test("directories: without a link, files deep in directories that have just changed are opened and changed", () => {
  const run = Deno.makeTempDirSync();
  const path = `${run}/checkpoints/a/secret`;
  Deno.mkdirSync(dirname(path), { recursive: true });
  Deno.writeTextFileSync(path, "of the run");
  Deno.writeTextFileSync(`${run}/other`, "renamed");
  const refused = outcomes(asProxy(run), "anywhere", path, run).filter((line) =>
    !/ (?:done|nothing)$/.test(line)
  );
  assert.deepEqual(refused, []);
  assert.equal(Deno.readTextFileSync(path), "renamed");
  Deno.removeSync(run, { recursive: true });
});

// ---------------------------------------------------------------------------------------------------------------
// races

/** Exchanges two paths all the time, by renameat2(RENAME_EXCHANGE): no moment without either. */
const SWAPPER =
  'my ($a, $b) = @ARGV; $| = 1; print "ready\\n"; while (1) { syscall(316, -100, $a, -100, $b, 2) }';
const canSwap = Deno.build.arch === "x86_64" &&
  await new Deno.Command("perl", { args: ["-e", "1"] }).output().then(
    ({ success }) => success,
    () => false,
  );
if (!canSwap) console.log("SKIPPED: perl on x86-64, for renameat2, is not here");
const TRIES = LONG_TESTS ? 400 : 60;

Deno.test({
  name:
    "directories: however fast one is exchanged for a link, every read and change stays in the run",
  ignore: !canSwap,
  async fn() {
    const { place, run, outside } = linkedRun(["link", "model", "secret"], 0);
    const deep = `${run}/checkpoints/model`;
    Deno.mkdirSync(deep, { recursive: true });
    const swapper = new Deno.Command("perl", {
      args: ["-e", SWAPPER, `${run}/checkpoints`, `${run}/link`],
      stdout: "piped",
    }).spawn();
    const done = { kept: 0, refused: 0 };
    try {
      await swapper.stdout.getReader().read();
      const before = stateOf(outside);
      const attempt = (work: () => void) => {
        try {
          work();
          done.kept++;
        } catch {
          done.refused++;
        }
      };
      for (let i = 0; i < TRIES; i++) {
        attempt(() => removeFile(`${deep}/secret`, run));
        attempt(() => makeDirectory(`${deep}/made-${i}`, run));
        attempt(() => offerDirectory(`${deep}/offered-${i}`, run));
        attempt(() => {
          Deno.writeTextFileSync(`${run}/other`, "of the run");
          renameFile(`${run}/other`, `${deep}/renamed-${i}`, { to: run });
        });
        for (let reads = 0; reads < 20; reads++) {
          attempt(() => {
            using file = openRegular(`${deep}/secret`, run);
            assert.equal(file, undefined, "the secret was opened");
          });
          attempt(() => {
            using file = openRegularInProxy(`${deep}/secret`, run);
            assert.equal(file, undefined, "the secret was opened");
          });
        }
      }
      assert.deepEqual(stateOf(outside), before);
      assert.ok(done.kept > 0 && done.refused > 0, JSON.stringify(done));
    } finally {
      swapper.kill("SIGKILL");
      await swapper.status;
      Deno.removeSync(place, { recursive: true });
    }
  },
});

// -----------------------------------------------------------------------------------------------------
// a proxy that writes

/** An event file with sounds whose bytes and type are the worker's own. */
function eventFile(sounds: number): string {
  const frames = Array.from({ length: sounds }, (_, step) => {
    const event = new BinaryWriter();
    event.tag(1, WireType.Bit64).double(1.7e9);
    event.tag(2, WireType.Varint).int64(step);
    event.tag(5, WireType.LengthDelimited).fork().tag(1, WireType.LengthDelimited).fork();
    event.tag(1, WireType.LengthDelimited).string("evil");
    event.tag(6, WireType.LengthDelimited).fork();
    event.tag(4, WireType.LengthDelimited).bytes(new TextEncoder().encode("import os\n"));
    event.tag(5, WireType.LengthDelimited).string("audio/pth");
    event.join().join().join();
    return frame(event.finish());
  });
  const bytes = [versionFrame(1.7e9), ...frames].flatMap((one) => [...one]);
  return btoa(String.fromCharCode(...bytes));
}

const SOUNDS = 20;

const FLIPPING =
  'while :; do mv media kept; ln -s "$0" media; rm media; mv kept media; done 2>/dev/null & flipper=$!';

/**
 * Tries to put a link in the place of media/, once or all the time, and writes sounds. `$0` is the
 * link's goal.
 */
const attackOn = (goal: string, flips: boolean) => [
  "/bin/sh",
  "-c",
  `cd "$MOSAIC_RUN_DIR"
  mv media media.old; rm -rf media; ln -s "$0" media; ln -sfn "$0" media
  ln "$0/victim" media/hard; ln "$0/victim" checkpoints/hard && echo linked
  ${flips ? FLIPPING : "flipper="}
  mkdir -p tensorboard
  printf %s "$1" | base64 -d >tensorboard/events.out.tfevents.1700000000.host
  echo '{"event_type":"step","step_index":0}'
  sleep 3
  [ -z "$flipper" ] || kill $flipper; wait
  exit 0`,
  goal,
  eventFile(SOUNDS),
];

/** @returns names in media/ of a run that flips, and of one that does not */
async function attack(
  daemon: TestDaemon,
  goal: string,
  metadata: Record<string, unknown>,
): Promise<string[][]> {
  Deno.writeTextFileSync(`${goal}/victim`, "of another");
  const before = stateOf(goal);
  const runs = await Promise.all(
    [true, false].map((flips) =>
      submit(daemon, configOf({ command: attackOn(goal, flips), metadata }))
    ),
  );
  const kept: string[][] = [];
  for (const run of runs) {
    await untilState(daemon, run, "TERMINATED");
    const { artifacts } = await daemon.client.unary(Mosaic.method.listArtifacts, { run });
    assert.deepEqual(artifacts.filter(({ path }) => path.endsWith("hard")), []);
    const media = `${daemon.layout.runDir("custom_scripts", run)}/media`;
    kept.push(
      Deno.lstatSync(media).isDirectory
        ? [...Deno.readDirSync(media)].map(({ name }) => name).sort()
        : [],
    );
  }
  assert.deepEqual(stateOf(goal), before, "outside of the run");
  return kept;
}

const KEPT = Array.from({ length: SOUNDS }, (_, step) => `evil-${step}-0.audio`).sort();

Deno.test({
  name:
    "directories: media/ as a link to a root-only directory: root's proxy writes none of the worker's sounds there",
  ignore: !isRoot,
  async fn() {
    await using planned = await PlannedDaemon.start(["--worker-user", "54321-54330"]);
    const { daemon } = planned;
    for (const directory of [daemon.stateDir, dirname(daemon.stateDir)]) {
      if (directory !== "/tmp") Deno.chmodSync(directory, 0o711);
    }
    const goal = Deno.makeTempDirSync({ dir: "/root" });
    try {
      assert.deepEqual(await attack(daemon, goal, {}), [KEPT, KEPT]);
    } finally {
      Deno.removeSync(goal, { recursive: true });
    }
  },
});

Deno.test({
  name:
    "directories: out of a sandbox, no .pth file in the user's site-packages, and no hard link to a file there",
  ignore: !bubblewrap,
  async fn() {
    await using planned = await PlannedDaemon.start();
    const home = Deno.makeTempDirSync({ dir: Deno.cwd(), prefix: ".home-" });
    const goal = `${home}/.local/lib/python3/site-packages`;
    Deno.mkdirSync(goal, { recursive: true });
    try {
      assert.deepEqual(await attack(planned.daemon, goal, { sandbox: "bubblewrap" }), [KEPT, KEPT]);
    } finally {
      Deno.removeSync(home, { recursive: true });
    }
  },
});

Deno.test("directories: without a sandbox, sounds behind a link are refused, and an event says so", async () => {
  await using daemon = await TestDaemon.start();
  const goal = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(`${goal}/victim`, "of another");
    const before = stateOf(goal).map((line) => line.split(" ")[0]);
    // Only once: this worker may do what the proxy may.
    const run = await submit(daemon, configOf({ command: attackOn(goal, false) }));
    await untilState(daemon, run, "TERMINATED");
    // The worker itself has made a hard link there.
    assert.deepEqual(
      stateOf(goal).map((line) => line.split(" ")[0]).filter((path) => !path!.endsWith("/hard")),
      before,
    );
    await until(async () => {
      const { artifacts } = await daemon.client.unary(Mosaic.method.listArtifacts, { run });
      return artifacts.every(({ path }) => !path.startsWith("media/"));
    }, { what: "no sound to be recorded" });
  } finally {
    Deno.removeSync(goal, { recursive: true });
  }
});
