/**
 * What the config of a run says has no effect while a program still has the daemon's rights. The
 * attacker may submit runs to a daemon of root with --worker-user. Needs root.
 */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { giveRunTo } from "../../src/os/rights/worker_user.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { hasBubblewrap } from "../harness/bubblewrap.ts";
import { configOf } from "../harness/configs.ts";
import { PROGRAM, TestDaemon } from "../harness/daemon.ts";
import { PlannedDaemon } from "../harness/planned_daemon.ts";
import { getRun, records, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";

const USER = 54341;
const OTHER = 54399;
const ignore = Deno.uid() !== 0;
if (ignore) console.log("SKIPPED: only root can start workers as other users");
const bubblewrap = hasBubblewrap();
if (!bubblewrap) console.log("SKIPPED: bubblewrap is not usable here");

async function succeeds(program: string, ...args: string[]): Promise<boolean> {
  try {
    return (await new Deno.Command(program, { args, stdin: "null", stdout: "null", stderr: "null" })
      .output()).success;
  } catch {
    return false;
  }
}

/** Notes the user and the name of each process that loads it. */
const LIBRARY = (notes: string) => `
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void note(void) {
  char line[300];
  int file = open("${notes}", O_WRONLY | O_APPEND);
  int length = snprintf(line, sizeof line, "%d %d %s\\n", getuid(), geteuid(), program_invocation_short_name);
  if (file >= 0 && write(file, line, length) == length) close(file);
}`;

interface Stage {
  daemon: TestDaemon;
  /** Everybody may write to it. */
  place: string;
}

/**
 * A place that workers of other users reach, and a daemon with its permissions whose workers have
 * such a user.
 */
async function stage(
  work: (stage: Stage) => Promise<void>,
  args = ["--worker-user", String(USER)],
): Promise<void> {
  await using planned = await PlannedDaemon.start(args);
  const { daemon } = planned;
  for (const directory of [daemon.stateDir, dirname(daemon.stateDir)]) {
    if (directory !== "/tmp") await Deno.chmod(directory, 0o711);
  }
  const place = Deno.makeTempDirSync({ dir: "/tmp", prefix: "mosaic-place-" });
  Deno.chmodSync(place, 0o777);
  try {
    await work({ daemon, place });
  } finally {
    Deno.removeSync(place, { recursive: true });
  }
}

function configFor(
  script: string,
  cwd: string,
  more: Record<string, unknown> = {},
  environment = {},
): string {
  const worker = { script: "/bin/sh", arguments: ["-c", script], cwd, use_grpc: false };
  return configOf({ command: ["sh"], environment, metadata: { worker, ...more } });
}

function commandLines(): string {
  let text = "";
  for (const { name } of Deno.readDirSync("/proc")) {
    try {
      if (/^\d+$/.test(name)) {
        text += `${Deno.readTextFileSync(`/proc/${name}/cmdline`).replaceAll("\0", " ")}\n`;
      }
    } catch {
      // It has ended.
    }
  }
  return text;
}

Deno.test({
  name: "a config's environment and working directory: no program of root's has them",
  ignore,
  fn: () => stage((on) => attackEnvironment(on, undefined)),
});

Deno.test({
  name:
    "a config's environment and working directory: bubblewrap does not have them outside of the sandbox",
  ignore: ignore || !bubblewrap,
  fn: () => stage((on) => attackEnvironment(on, { kind: "bubblewrap", network: false })),
});

async function attackEnvironment(
  on: Stage,
  sandbox: Record<string, unknown> | undefined,
): Promise<void> {
  // Not below /tmp, which a sandbox hides.
  const library = Deno.makeTempDirSync({ dir: "/var/tmp", prefix: "mosaic-library-" });
  try {
    await attackFrom(library, on, sandbox);
  } finally {
    Deno.removeSync(library, { recursive: true });
  }
}

async function attackFrom(
  library: string,
  { daemon, place }: Stage,
  sandbox: Record<string, unknown> | undefined,
): Promise<void> {
  const notes = `${library}/notes`;
  for (const [path, mode] of [[library, 0o755], [notes, 0o666]] as const) {
    if (path === notes) Deno.writeTextFileSync(notes, "");
    Deno.chmodSync(path, mode);
  }
  Deno.writeTextFileSync(`${library}/note.c`, LIBRARY(notes));
  const compiled = await succeeds(
    "cc",
    "-shared",
    "-fPIC",
    "-o",
    `${library}/note.so`,
    `${library}/note.c`,
  );
  if (!compiled) console.log("SKIPPED: no C compiler, so the loader is not attacked, only shells");
  Deno.writeTextFileSync(`${library}/start.sh`, `echo "$(id -u) $(id -u) shell" >> ${notes}\n`);
  const environment = {
    ...compiled ? { LD_PRELOAD: `${library}/note.so` } : {},
    BASH_ENV: `${library}/start.sh`,
    ENV: `${library}/start.sh`,
    "BASH_FUNC_command%%":
      `() { echo "$(id -u) $(id -u) function" >> ${notes}; builtin command "$@"; }`,
    PATH: `${place}:/usr/bin:/bin`,
    API_KEY: "hunter2-key",
    "odd.name": "odd value",
    UID: "77",
    _mosaic_0: "mine",
    PYTHONPATH: place,
  };
  Deno.writeTextFileSync(
    `${place}/bwrap`,
    `#!/bin/sh\necho "$(id -u) $(id -u) bwrap" >> ${notes}\n`,
  );
  Deno.chmodSync(`${place}/bwrap`, 0o755);
  const script = `tr '\\0' '\\n' </proc/self/environ; pwd; exec sleep 60`;
  const id = await submit(
    daemon,
    configFor(script, place, {
      sandbox: sandbox === undefined ? undefined : { ...sandbox, writable: [library, place] },
      preflight: { modules: ["json"], files: [{ path: "bwrap" }] },
      worker: {
        script: "/bin/sh",
        arguments: ["-c", script],
        cwd: place,
        use_grpc: false,
        python: "/usr/bin/python3",
      },
    }, environment),
  );
  const run = daemon.layout.runDir("custom_scripts", id);
  const seen: string[] = [];
  const printed = () => readTextIfThere([...logs(run)][0] ?? "") ?? "";
  await until(async () => {
    seen.push(commandLines());
    const { state, reason } = await getRun(daemon, id);
    assert.notEqual(state, "FAULTED", reason);
    return printed().includes(`\n${place}\n`);
  }, { what: "the worker to print its environment", state: printed });
  for (const [name, value] of Object.entries(environment)) {
    assert.ok(printed().includes(`${name}=${value}`), `${name} is missing:\n${printed()}`);
  }
  assert.ok(seen.every((lines) => !lines.includes("hunter2-key")), "a secret is on a command line");

  const { pid } = JSON.parse(Deno.readTextFileSync(`${run}/.mosaic/worker-1.json`));
  const wrapper = Deno.readTextFileSync(`/proc/${pid}/environ`).split("\0").filter((entry) =>
    entry !== ""
  );
  assert.deepEqual(wrapper.filter((entry) => !/^_mosaic__*\d+=|^(PWD|SHLVL|_)=/.test(entry)), []);
  assert.equal(Deno.readLinkSync(`/proc/${pid}/cwd`), "/");

  const lines = Deno.readTextFileSync(notes).trim().split("\n");
  if (compiled) assert.ok(lines.includes(`${USER} ${USER} sleep`), lines.join("\n"));
  for (const line of lines) {
    assert.ok(line === "" || line.startsWith(`${USER} ${USER} `), `with root's rights: ${line}`);
    assert.doesNotMatch(line, /bwrap|setpriv/);
  }
}

function* logs(run: string): Generator<string> {
  for (const { name } of Deno.readDirSync(`${run}/logs`)) {
    if (name.endsWith("stdout.log")) yield `${run}/logs/${name}`;
  }
}

Deno.test({
  name:
    "a config's working directory that its user cannot enter is refused, and shows nothing of what is there",
  ignore,
  fn: () =>
    stage(async ({ daemon, place }) => {
      Deno.mkdirSync(`${place}/private/below`, { recursive: true });
      Deno.chmodSync(`${place}/private`, 0o700);
      for (const cwd of [`${place}/private`, `${place}/private/below`, `${place}/private/none`]) {
        const id = await submit(daemon, configFor("ls", cwd));
        const { reason } = await untilState(daemon, id, "FAULTED");
        assert.match(
          reason,
          new RegExp(`working directory ${cwd} is not there for user ${USER}, or it cannot be`),
        );
      }
    }),
});

Deno.test({
  name: "descriptors that a daemon was started with are closed for its workers",
  ignore: ignore || !await succeeds("/bin/bash", "-c", ":"),
  async fn() {
    const secret = Deno.makeTempFileSync();
    const open = 'exec 7<"$0" 12<"$0" 300<"$0"; exec "$@"';
    await using daemon = await TestDaemon.start({
      program: ["/bin/bash", "-c", open, secret, ...PROGRAM],
    });
    try {
      assert.ok(descriptorsOf(daemon.pid).includes(secret));
      const id = await submit(daemon, configFor("exec sleep 60", "/"));
      await untilState(daemon, id, "READY", "EXECUTING");
      const { pid } = JSON.parse(
        Deno.readTextFileSync(
          `${daemon.layout.runDir("custom_scripts", id)}/.mosaic/worker-1.json`,
        ),
      );
      const worker = Number(
        Deno.readTextFileSync(`/proc/${pid}/task/${pid}/children`).trim().split(" ")[0],
      );
      await until(() => Deno.readTextFileSync(`/proc/${worker}/comm`).trim() === "sleep", {
        what: "the program",
      });
      assert.deepEqual(descriptorsOf(worker).filter((path) => path === secret), []);
      assert.equal(descriptorsOf(worker).length, 3, descriptorsOf(worker).join(" "));
    } finally {
      Deno.removeSync(secret);
    }
  },
});

function descriptorsOf(pid: number): string[] {
  return [...Deno.readDirSync(`/proc/${pid}/fd`)].map(({ name }) =>
    Deno.readLinkSync(`/proc/${pid}/fd/${name}`)
  );
}

Deno.test({
  name:
    "preflight: checksums are taken as the worker's user, of regular files, and the daemon answers meanwhile",
  ignore,
  fn: () =>
    stage(async ({ daemon, place }) => {
      const none = "0".repeat(64);
      const shadow = `${place}/shadow`;
      Deno.writeTextFileSync(shadow, "root:secret\n", { mode: 0o600 });
      assert.ok(await succeeds("mkfifo", "-m", "666", `${place}/fifo`));
      const refused = async (path: string) => {
        const id = await submit(
          daemon,
          configFor("true", place, { preflight: { files: [{ path, sha256: none }] } }),
        );
        return (await untilState(daemon, id, "FAULTED")).reason;
      };
      for (const path of [shadow, "/etc/shadow"]) {
        const reason = await refused(path);
        assert.match(reason, new RegExp(`the file ${path} cannot be read for user ${USER}`));
        assert.doesNotMatch(reason, /[0-9a-f]{64}/);
      }
      assert.match(await refused(`${place}/fifo`), /is no file; its checksum/);
      assert.match(await refused("/root/.ssh/id"), /is not there for user/);

      const large = `${place}/large`;
      Deno.writeTextFileSync(large, "");
      Deno.truncateSync(large, 700 * 1024 ** 2);
      Deno.chmodSync(large, 0o644);
      const ended = refused(large);
      let over = false;
      ended.then(() => over = true, () => over = true);
      let longest = 0;
      while (!over) {
        const before = performance.now();
        await daemon.client.unary(Mosaic.method.listRuns, {});
        longest = Math.max(longest, performance.now() - before);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      assert.match(await ended, /has the SHA-256 [0-9a-f]{64}, not/);
      assert.ok(longest < 2000, `an answer took ${longest} ms`);
    }),
});

Deno.test({
  name:
    "observe: another user's private table becomes no series, one that the worker may read does",
  ignore,
  fn: () =>
    stage(async ({ daemon, place }) => {
      const go = `${place}/go`;
      const table = "step,loss\n1,5\n2,4\n";
      const script = `printf '${
        table.replaceAll("\n", "\\n")
      }' > own.csv; while [ ! -e ${go} ]; do sleep 0.05; done`;
      const id = await submit(
        daemon,
        configFor(script, place, { observe: ["*.csv", `${place}/private/*.csv`] }),
      );
      await untilState(daemon, id, "READY", "EXECUTING");
      await until(() => readTextIfThere(`${place}/own.csv`) === table, {
        what: "the worker's table",
      });
      Deno.mkdirSync(`${place}/private`, { mode: 0o700 });
      Deno.writeTextFileSync(`${place}/private/deep.csv`, "step,deep_secret\n1,42\n", {
        mode: 0o644,
      });
      Deno.writeTextFileSync(`${place}/theirs.csv`, "step,secret\n1,42\n", { mode: 0o600 });
      for (const path of ["private/deep.csv", "private", "theirs.csv"]) {
        Deno.chownSync(`${place}/${path}`, OTHER, OTHER);
      }
      const names = async () =>
        (await records(daemon, id, "metrics")).map(({ name }) => String(name));
      await until(async () => (await names()).includes("loss"), {
        what: "the worker's own series",
        timeoutMs: 60_000,
      });
      Deno.writeTextFileSync(go, "");
      await untilState(daemon, id, "TERMINATED");
      assert.deepEqual((await names()).filter((name) => name.includes("secret")), []);
      const events = (await records(daemon, id, "events")).map((event) => JSON.stringify(event));
      assert.ok(events.some((event) => /theirs\.csv is not read/.test(event)), events.join("\n"));
      assert.ok(!events.some((event) => event.includes("deep.csv")), events.join("\n"));
    }),
});

Deno.test({
  name:
    "webhook: a key file that is a FIFO holds nothing up, and none that only root may read signs anything",
  ignore,
  async fn() {
    const got: string[] = [];
    const receiver = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
      got.push(new URL(request.url).pathname);
      return new Response();
    });
    const place = Deno.makeTempDirSync({ dir: "/tmp" });
    try {
      Deno.chmodSync(place, 0o755);
      Deno.writeTextFileSync(`${place}/private`, "key", { mode: 0o600 });
      Deno.writeTextFileSync(`${place}/public`, "key", { mode: 0o644 });
      Deno.chmodSync(`${place}/public`, 0o644);
      assert.ok(await succeeds("mkfifo", "-m", "666", `${place}/fifo`));
      await using daemon = await TestDaemon.start({
        args: ["--worker-user", String(USER)],
        env: { MOSAIC_ALLOW: `--allow-net=127.0.0.1:${receiver.addr.port} --allow-read=${place}` },
      });
      Deno.chmodSync(daemon.stateDir, 0o711);
      for (const name of ["fifo", "private", "public"]) {
        const url = `http://127.0.0.1:${receiver.addr.port}/${name}`;
        const id = await submit(
          daemon,
          configFor("true", "/", {
            webhook: { url, events: ["completed"], secret_file: `${place}/${name}` },
          }),
        );
        await untilState(daemon, id, "TERMINATED");
      }
      await until(() => got.includes("/public"), {
        what: "the event that can be signed",
        state: () => got,
      });
      await until(() => daemon.output().match(/no key, event skipped/g)?.length === 2, {
        what: "both refusals in the log",
        state: () => daemon.output(),
      });
      assert.deepEqual(got, ["/public"]);
    } finally {
      await receiver.shutdown();
      Deno.removeSync(place, { recursive: true });
    }
  },
});

Deno.test({
  name:
    "artifacts: nothing of others that a worker has moved to its run, nor mosaic's own records, is hashed or sent",
  ignore,
  fn: () =>
    stage(async ({ daemon, place }) => {
      Deno.writeTextFileSync(`${place}/secret`, "root's secret", { mode: 0o600 });
      const paths = ["checkpoints/theirs.pt", "checkpoints/own.pt", ".mosaic/proxy-1.json"];
      const tell = paths.map((path) => `echo '{"event":"artifact","path":"${path}"}'`).join("; ");
      const id = await submit(
        daemon,
        configFor(
          `cd "$MOSAIC_RUN_DIR"; mv ${place}/secret checkpoints/theirs.pt; echo own > checkpoints/own.pt; ${tell}`,
          place,
        ),
      );
      await untilState(daemon, id, "TERMINATED");
      const url = `http://${daemon.http}/api/runs/${id}/artifacts`;
      const listed = async () =>
        (await daemon.client.unary(Mosaic.method.listArtifacts, { run: id })).artifacts;
      await until(
        async () => (await listed()).some(({ path, sha256 }) => path === paths[1] && sha256),
        {
          what: "the checksum of its own file",
          state: listed,
        },
      );
      for (const { path, sha256 } of await listed()) {
        assert.equal(Boolean(sha256), path === paths[1], path);
      }
      const statuses: number[] = [];
      for (const path of paths) {
        const answer = await fetch(`${url}/${encodeURIComponent(path)}`);
        assert.doesNotMatch(await answer.text(), /root's secret|sessionToken/);
        statuses.push(answer.status);
      }
      assert.deepEqual(statuses, [403, 200, 404]);
    }),
});

Deno.test({
  name:
    "another attempt: what a worker has moved or linked into its run's directory is not given to it",
  ignore,
  async fn() {
    const place = Deno.makeTempDirSync({ dir: "/tmp" });
    try {
      const run = `${place}/run`;
      const user = { uid: USER, gid: USER, name: "", home: "" };
      for (const path of [place, run, `${run}/.mosaic`, `${run}/checkpoints`, `${place}/shared`]) {
        if (path !== place) Deno.mkdirSync(path, { mode: 0o700 });
      }
      Deno.chmodSync(place, 0o711);
      Deno.chmodSync(`${place}/shared`, 0o777);
      for (const [name, mode] of [["linked", 0o666], ["moved", 0o600]] as const) {
        Deno.writeTextFileSync(`${place}/shared/${name}`, "root's");
        Deno.chmodSync(`${place}/shared/${name}`, mode);
      }
      Deno.mkdirSync(`${place}/shared/open`);
      Deno.chmodSync(`${place}/shared/open`, 0o777);
      giveRunTo(user, run, [], []);
      assert.equal(Deno.statSync(`${run}/checkpoints`).uid, USER);
      const as = (script: string) =>
        succeeds(
          "setpriv",
          "--reuid",
          String(USER),
          "--regid",
          String(USER),
          "--clear-groups",
          "sh",
          "-c",
          script,
        );
      const [shared] = [`${place}/shared`];
      assert.ok(
        await as(
          `cd ${run} && ln ${shared}/linked analytics.json && mv ${shared}/moved checkpoints/ && ` +
            `mv ${shared}/open tensorboard && ln -s ${shared} videos`,
        ),
      );
      giveRunTo(user, run, [], []);
      assert.equal(Deno.statSync(`${shared}/linked`).uid, 0);
      for (const name of ["checkpoints/moved", "tensorboard", "videos"]) {
        assert.notEqual(Deno.statSync(`${run}/${name}`).uid, USER, name);
      }
      assert.ok(!await as(`cat ${run}/checkpoints/moved`));
    } finally {
      Deno.removeSync(place, { recursive: true });
    }
  },
});
