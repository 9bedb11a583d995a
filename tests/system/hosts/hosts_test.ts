/**
 * `--host NAME` with a real sshd: the command runs there, with the code from here. Both "hosts" are
 * this machine, with homes of their own.
 */
import assert from "node:assert/strict";
import { PROGRAM } from "../../harness/daemon.ts";
import { until } from "../../harness/wait.ts";

const SSHD = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].find((path) => {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
});
const ignore = SSHD === undefined;
if (ignore) console.log("SKIPPED: there is no sshd (openssh-server), so --host is not tested");

function tool(command: string, args: string[], options: Deno.CommandOptions = {}): string {
  const { success, stdout, stderr } = new Deno.Command(command, { args, ...options }).outputSync();
  assert.ok(success, `${command} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** A laptop with a repository, and a server that its ssh reaches as `gpu1`. */
class Pair implements AsyncDisposable {
  readonly laptop: string;
  readonly server: string;
  readonly repository: string;
  readonly #runtime: string;
  readonly #sshd: Deno.ChildProcess;

  private constructor(laptop: string, server: string, runtime: string, sshd: Deno.ChildProcess) {
    this.laptop = laptop;
    this.server = server;
    this.repository = `${laptop}/project`;
    this.#runtime = runtime;
    this.#sshd = sshd;
  }

  static async start(): Promise<Pair> {
    const root = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
    const [laptop, server] = [`${root}/laptop`, `${root}/server`];
    for (const directory of [laptop, server, `${laptop}/bin`]) {
      Deno.mkdirSync(directory, { mode: 0o700 });
    }
    // Short: a Unix socket of ssh's is in it.
    const runtime = Deno.makeTempDirSync({ dir: "/tmp", prefix: "mh-" });
    if (Deno.uid() === 0) Deno.mkdirSync("/run/sshd", { recursive: true });
    for (const key of ["host", "user"]) {
      tool("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", `${root}/${key}`]);
    }
    const port = freePort();
    // A login there has that home, and mosaic as a program.
    const mosaic = `${server}/mosaic`;
    Deno.writeTextFileSync(
      mosaic,
      `#!/bin/sh\nexec ${PROGRAM.map((word) => `'${word}'`).join(" ")} "$@"\n`,
    );
    Deno.chmodSync(mosaic, 0o755);
    const login =
      `env -i PATH=${server}:/usr/local/bin:/usr/bin:/bin HOME=${server} sh -c "$SSH_ORIGINAL_COMMAND"`;
    Deno.writeTextFileSync(
      `${root}/authorized`,
      `command="cd ${server} && ${login.replaceAll('"', '\\"')}" ${
        Deno.readTextFileSync(`${root}/user.pub`)
      }`,
    );
    Deno.writeTextFileSync(
      `${root}/sshd_config`,
      `Port ${port}\nListenAddress 127.0.0.1\nHostKey ${root}/host\nAuthorizedKeysFile ${root}/authorized\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n`,
    );
    Deno.writeTextFileSync(
      `${root}/ssh_config`,
      `Host gpu1\nHostName 127.0.0.1\nPort ${port}\nIdentityFile ${root}/user\nIdentitiesOnly yes\nUserKnownHostsFile ${root}/known\nStrictHostKeyChecking accept-new\n`,
    );
    Deno.writeTextFileSync(
      `${laptop}/bin/ssh`,
      `#!/bin/sh\nexec /usr/bin/ssh -F ${root}/ssh_config "$@"\n`,
    );
    Deno.chmodSync(`${laptop}/bin/ssh`, 0o755);
    const log = `${root}/sshd.log`;
    Deno.writeTextFileSync(log, "");
    const sshd = new Deno.Command(SSHD!, {
      args: ["-D", "-f", `${root}/sshd_config`, "-E", log],
      stdin: "null",
    })
      .spawn();
    const pair = new Pair(laptop, server, runtime, sshd);
    await until(() => Deno.readTextFileSync(log).includes("listening on"), {
      what: "sshd",
      state: () => log,
    });
    pair.#makeRepository();
    return pair;
  }

  #makeRepository(): void {
    Deno.mkdirSync(this.repository);
    const git = (...args: string[]) => tool("git", args, { cwd: this.repository, env: this.env });
    git("init", "-q");
    this.write(
      "train.sh",
      'echo "{\\"step\\": 1, \\"loss\\": 0.5}"; cat value.txt untracked.txt; ls; pwd\n',
    );
    this.write("value.txt", "committed\n");
    this.write("removed.txt", "x\n");
    this.write(".gitignore", "data\n");
    git("add", "-A");
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first");
    this.write("value.txt", "changed\n");
    this.write("untracked.txt", "and untracked\n");
    this.write("data", "ignored\n");
    Deno.removeSync(`${this.repository}/removed.txt`);
  }

  write(name: string, text: string): void {
    Deno.writeTextFileSync(`${this.repository}/${name}`, text);
  }

  get env(): Record<string, string> {
    const { laptop } = this;
    return {
      HOME: laptop,
      XDG_RUNTIME_DIR: this.#runtime,
      PATH: `${laptop}/bin:/usr/local/bin:/usr/bin:/bin`,
    };
  }

  async mosaic(...args: string[]): Promise<{ code: number; out: string; err: string }> {
    const command = new Deno.Command(PROGRAM[0]!, {
      args: [...PROGRAM.slice(1), ...args],
      cwd: this.repository,
      env: { ...this.env, ...Deno.env.has("DENO_DIR") && { DENO_DIR: Deno.env.get("DENO_DIR")! } },
      stdin: "null",
    });
    const { code, stdout, stderr } = await command.output();
    const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    return { code, out: out!, err: err! };
  }

  /** The page there, at an address here, for as long as the command runs. */
  async opens(): Promise<void> {
    const child = new Deno.Command(PROGRAM[0]!, {
      args: [...PROGRAM.slice(1), "open", "--host", "gpu1"],
      cwd: this.repository,
      env: this.env,
      stdin: "null",
      stdout: "piped",
      stderr: "null",
      detached: true,
    }).spawn();
    const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    try {
      const { value = "" } = await lines.read();
      assert.match(value, /^http:\/\/127\.0\.0\.1:\d+\/\n$/);
      const answer = await fetch(`${value.trim()}healthz`);
      assert.equal(answer.status, 200, await answer.text());
    } finally {
      Deno.kill(-child.pid, "SIGTERM");
      await lines.cancel();
      await child.status;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // There is none if the test failed before.
    await new Deno.Command(`${this.server}/mosaic`, { args: ["down"], env: { HOME: this.server } })
      .output();
    this.#sshd.kill();
    await this.#sshd.status;
  }
}

Deno.test({
  name:
    "--host: a host is added, a command runs there with the commit and the changes from here, and other verbs see it",
  ignore,
  async fn() {
    await using pair = await Pair.start();
    const unknown = await pair.mosaic("list", "--host", "gpu1");
    assert.equal(unknown.code, 4, unknown.err);
    assert.match(unknown.err, /there is no host "gpu1"/);

    const added = await pair.mosaic("host", "add", "gpu1", "--yes");
    assert.equal(added.code, 0, added.err);
    const hosts = JSON.parse((await pair.mosaic("host", "list", "-o", "json")).out);
    assert.deepEqual(
      hosts.map(({ name, ssh, state }: Record<string, string>) => [name, ssh, state]),
      [[
        "gpu1",
        "gpu1",
        "ready",
      ]],
    );

    const run = await pair.mosaic(
      "run",
      "--host",
      "gpu1",
      "--name",
      "it's here",
      "--",
      "sh",
      "train.sh",
    );
    assert.equal(run.code, 0, run.err);
    const id = run.out.trim();
    assert.match(id, /^[0-9A-Z]{26}$/);
    assert.equal((await pair.mosaic("wait", "--host", "gpu1", id)).code, 0);
    const { out: log } = await pair.mosaic("logs", "--host", "gpu1", id);
    assert.match(log, /changed\nand untracked\n/);
    assert.ok(!log.includes("removed.txt") && !/^data$/m.test(log), log);
    const shown = JSON.parse((await pair.mosaic("show", "--host", "gpu1", id, "-o", "json")).out);
    assert.deepEqual([shown.name, shown.telemetry.metrics], ["it's here", 1]);
    const code = JSON.parse(
      (await pair.mosaic("show", "--host", "gpu1", id, "--code", "-o", "json")).out,
    );
    assert.equal(
      /"commit":"(\w+)"/.exec(JSON.stringify(code))?.[1],
      tool("git", ["rev-parse", "HEAD"], { cwd: pair.repository }).trim(),
    );

    // The same content goes to the same directory; another to another, and the first run's copy
    // stays as it is.
    pair.write("value.txt", "again\n");
    const next = (await pair.mosaic("run", "--host", "gpu1", "--", "sh", "train.sh")).out.trim();
    assert.equal((await pair.mosaic("wait", "--host", "gpu1", next)).code, 0);
    assert.match((await pair.mosaic("logs", "--host", "gpu1", next)).out, /^again$/m);

    const failed = await pair.mosaic("run", "--host", "gpu1", "-f", "--", "sh", "-c", "exit 3");
    assert.equal(failed.code, 1, failed.err);

    const sweep = await pair.mosaic(
      "sweep",
      "--host",
      "gpu1",
      "--grid",
      "n=1,2",
      "-f",
      "--",
      "sh",
      "train.sh",
      "{n}",
    );
    assert.equal(sweep.code, 0, sweep.err);
    const trials = JSON.parse(
      (await pair.mosaic("sweep", "show", "--host", "gpu1", "@last", "-o", "json")).out,
    );
    assert.deepEqual(trials.states, { terminated: 2 });
    assert.equal(
      (await pair.mosaic("delete", "-y", "--host", "gpu1", "--tag", `sweep:${trials.name}`)).code,
      0,
    );

    await pair.opens();

    const all = await pair.mosaic("list", "--all-hosts", "-o", "json");
    // No daemon runs here, which is said; the others' runs are listed all the same.
    assert.equal(all.code, 3);
    assert.match(all.err, /host \(here\): no daemon runs/);
    assert.deepEqual(JSON.parse(all.out).map((row: { host: string }) => row.host), [
      "gpu1",
      "gpu1",
      "gpu1",
    ]);
    assert.match((await pair.mosaic("list", "--all-hosts")).out, /^HOST +RUN +NAME/);
  },
});

Deno.test({
  name:
    "--host: what cannot be carried is said before anything starts, and a host that does not answer is named",
  ignore,
  async fn() {
    await using pair = await Pair.start();
    assert.equal((await pair.mosaic("host", "add", "gpu1", "--yes")).code, 0);
    tool("truncate", ["-s", "200M", `${pair.repository}/model.bin`]);
    const large = await pair.mosaic("run", "--host", "gpu1", "--", "true");
    assert.equal(large.code, 6, large.err);
    assert.match(
      large.err,
      /more than 104 MB: model\.bin \(209 MB\)\. Commit them, or name them in \.gitignore/,
    );
    assert.equal((await pair.mosaic("list", "--host", "gpu1", "-q", "--all")).out, "");
    // A directory of the host needs no code from here.
    const there = await pair.mosaic("run", "--host", "gpu1", "--cwd", "/", "-f", "--", "true");
    assert.equal(there.code, 0, there.err);

    const wrong = await pair.mosaic("host", "add", "other", "--ssh", "-oProxyCommand=x");
    assert.equal(wrong.code, 2, wrong.err);
    const away = await pair.mosaic("host", "add", "away", "--ssh", "nowhere.invalid", "--yes");
    assert.equal(away.code, 3, away.err);
    assert.match(away.err, /host away cannot be reached: .*nowhere\.invalid/);
    assert.equal((await pair.mosaic("host", "remove", "gpu1")).code, 0);
    assert.equal((await pair.mosaic("host", "list", "-o", "json")).out.trim(), "[]");
  },
});
