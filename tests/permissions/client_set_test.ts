/**
 * What verbs of the client may do under the portable executable: the part of its stub that says so.
 */
import assert from "node:assert/strict";
import { VERBS } from "../../src/cli/verbs.ts";
import { type Permissions, permissionsOfFlags } from "../../src/permissions/permissions.ts";
import { clientFlags, runClientFlags } from "./client_flags.ts";

const STATE = "/home/u/.local/state/mosaic";

function setOf(words: string[], env: Record<string, string> = {}): Permissions {
  return permissionsOfFlags(clientFlags(words, { HOME: "/home/u", ...env }))!;
}

/** A state directory whose daemon says `said` of itself. */
function withState(said: Record<string, unknown>, body: (directory: string) => void): void {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic, test " });
  try {
    Deno.mkdirSync(`${directory}/trainer`);
    Deno.writeTextFileSync(
      `${directory}/trainer/daemon.json`,
      `${JSON.stringify({ pid: 1, ...said })}\n`,
    );
    body(directory);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

Deno.test("client: without a daemon it reads where one would be, and does nothing else", () => {
  const { env, ...rest } = setOf(["list"]);
  assert.deepEqual(rest, {
    read: [`${STATE}/trainer/daemon.json`, `${STATE}/trainer/tokens.json`],
    ...{ write: [], net: [], run: [], sys: [] },
  });
  assert.ok(env.includes("MOSAIC_*") && !env.includes("AWS_SECRET_ACCESS_KEY"));
  assert.deepEqual(setOf(["list"], { XDG_STATE_HOME: "/x" }).read, [
    "/x/mosaic/trainer/daemon.json",
    "/x/mosaic/trainer/tokens.json",
  ]);
  assert.ok(setOf(["list"], { MOSAIC_STATE_DIR: "/s" }).read.includes("/s/trainer/tokens.json"));
  assert.deepEqual(setOf(["list"], { HOME: "" }).read, []);
});

Deno.test("client: it connects to what its daemon has announced, sockets included", () => {
  const said = {
    listen: "0.0.0.0:6",
    local: "unix:/run/m.sock",
    http: "off",
    socket: "/run/user/1/mosaic-0f.sock",
  };
  withState(said, (directory) => {
    for (const words of [["--state-dir", directory], [`--state-dir=${directory}`, "x"]]) {
      const { net, write } = setOf(["show", ...words]);
      const sockets = ["/run/m.sock", "/run/user/1/mosaic-0f.sock"];
      assert.deepEqual(write, sockets);
      assert.deepEqual(net, [
        "127.0.0.1:6",
        "localhost:80",
        ...sockets.map((path) => `unix:${path}`),
      ]);
    }
  });
  // JSON writes such a path in another way than the file system has it.
  withState({ socket: '/run/"m".sock', listen: "127.0.0.1:6" }, (directory) => {
    assert.deepEqual(setOf(["list"], { MOSAIC_STATE_DIR: directory }).net, ["127.0.0.1:6"]);
  });
});

Deno.test("client: it connects to its target, in each form", () => {
  const targets: [string, string[]][] = [
    ["127.0.0.1:7", ["127.0.0.1:7"]],
    ["[::1]:7", ["[::1]:7"]],
    ["[::]:7", ["[::1]:7"]],
    ["http://192.0.2.1:80/", ["192.0.2.1:80"]],
    ["https://192.0.2.1", ["192.0.2.1"]],
    ["unix:/run/m.sock", ["localhost:80", "unix:/run/m.sock"]],
    ["unix:m.sock", ["localhost:80", "unix:/m.sock"]],
    ["no-such-host.invalid:7", ["no-such-host.invalid"]],
    // The runtime would refuse to start with these; the program says what is wrong with them.
    ...["nowhere", "h:x", "h:99999", "*:1", ":1", "[x]:1", "a b:1", "$(id):1", "h:1,i", "x\n-A"]
      .map((target): [string, string[]] => [target, []]),
  ];
  for (const [target, net] of targets) {
    assert.deepEqual(setOf(["list", "--target", target]).net, net, target);
    assert.deepEqual(setOf(["list", `--target=${target}`]).net, net, target);
    assert.deepEqual(setOf(["list"], { MOSAIC_TARGET: target }).net, net, target);
  }
  assert.ok(setOf(["list", "--target", "localhost:7"]).net.includes("localhost"));
});

Deno.test("client: a worker's own options take nothing away, and none behind -- counts", () => {
  const words = [
    "run",
    "--target",
    "127.0.0.1:7",
    "train.py",
    "--target",
    "cpu",
    "--state-dir",
    "/w",
  ];
  const { net, read } = setOf(words);
  assert.deepEqual([net, read], [["127.0.0.1:7"], "all"]);
  assert.deepEqual(setOf(["run", "--", "train.py", "--target", "127.0.0.1:7"]).net, []);
});

Deno.test("client: paths and variables of any kind become no flags of their own", () => {
  const { read } = setOf(["list", "--state-dir", "/a,b c", "--state-dir", "/x\n-A"], {
    MOSAIC_TLS_CA: "ca.pem",
  });
  assert.deepEqual([...read].sort(), [
    "/a,b c/trainer/daemon.json",
    "/a,b c/trainer/tokens.json",
    ...[`${STATE}/trainer/daemon.json`, `${STATE}/trainer/tokens.json`],
    "ca.pem",
  ]);
});

Deno.test("client: a shell only to look who listens where a token is to go without TLS", () => {
  const run = (target: string, env = { MOSAIC_TOKEN: "t" }) =>
    setOf(["list", "--target", target], env).run;
  for (const target of ["127.0.0.1:8055", "http://localhost:8055", "[::1]:8055"]) {
    assert.deepEqual(run(target), ["/bin/sh"], target);
  }
  for (const target of ["https://localhost:8055", "trainer:8055", "unix:/x"]) {
    assert.deepEqual(run(target), [], target);
  }
  assert.deepEqual(run("127.0.0.1:8055", {} as never), []);
  assert.deepEqual(setOf(["list"], { MOSAIC_TOKEN: "t", MOSAIC_TARGET: "127.0.0.1:8055" }).run, [
    "/bin/sh",
  ]);
});

Deno.test("client: ssh, with the user's environment, for whoever names another host", () => {
  for (const words of [["--host", "gpu1"], ["--host=gpu1"], ["--all-hosts"]]) {
    const { read, write, run, env } = setOf(["list", ...words]);
    assert.deepEqual([run, env], [["/bin/sh"], "all"]);
    assert.ok(
      read.includes("/home/u/.config/mosaic/hosts.json") && write !== "all" &&
        !write.includes("/home/u/.config/mosaic"),
    );
  }
});

Deno.test("client: few verbs may do more, and what is in its name", () => {
  const beyond: Record<string, (granted: Permissions) => unknown> = {
    submit: ({ read, run }) => read === "all" && run.includes("/bin/sh"),
    rerun: ({ read, write, run }) =>
      read === "all" && run.includes("/bin/sh") &&
      write.includes(`${STATE}/trainer/custom_scripts`),
    validate: ({ read }) => read === "all",
    import: ({ read, write }) => read === "all" && write === "all",
    "import-worker": ({ read, env }) => read === "all" && env === "all",
    run: ({ read, write, env }) =>
      read === "all" && env === "all" && write.includes(`${STATE}/trainer/custom_scripts`) &&
      !write.includes(STATE),
    sweep: ({ read, env }) => read === "all" && env === "all",
    export: ({ read, write, run }) => read === "all" && write === "all" && run.includes("/bin/sh"),
    docs: ({ read, write }) => read === "all" && write === "all",
    report: ({ read, write }) => read === "all" && write === "all",
    backup: ({ read, write, run }) => read === "all" && write === "all" && run.includes("/bin/sh"),
    permissions: ({ read, env }) => read === "all" && env === "all",
    audit: ({ read, write }) => read.includes(STATE) && !write.includes(STATE),
    host: ({ read, write, run, env }) =>
      [read, write].every((paths) => paths.includes("/home/u/.config/mosaic")) &&
      run.includes("/bin/sh") &&
      env === "all",
    token: ({ read, write }) => read.includes(STATE) && write.includes(STATE),
    sql: ({ read, write }) => read.includes(STATE) && write.includes(STATE),
    doctor: ({ read, write, run }) =>
      read === "all" && write.includes(STATE) && run.includes("/bin/sh"),
    reindex: ({ read, write, run }) =>
      read === "all" && write.includes(STATE) && run.includes("/bin/sh"),
    demo: ({ write, net, run, env }) =>
      write.includes("/tmp") && net === "all" && run.includes("/bin/sh") && env === "all",
    "demo-worker": ({ read, write, env }) =>
      read === "all" && env === "all" && write.includes("/r") && write.includes("/c"),
  };
  const env = { MOSAIC_RUN_DIR: "/r", MOSAIC_CHECKPOINT_DIR: "/c" };
  const ordinary = clientFlags(["list"], env);
  for (const { name, aliases } of VERBS.filter(({ load }) => load !== undefined)) {
    for (const verb of [name, ...aliases ?? []]) {
      if (beyond[verb] === undefined) assert.deepEqual(clientFlags([verb], env), ordinary, verb);
      else assert.ok(beyond[verb](setOf([verb], env)), verb);
      const { write, run, net, sys } = setOf([verb], env);
      assert.deepEqual([run, sys].filter((entries) => entries === "all"), [], verb);
      assert.equal(
        write === "all",
        ["docs", "export", "import", "report", "backup"].includes(verb),
        verb,
      );
      assert.equal(net === "all", verb === "demo", verb);
    }
  }
});

Deno.test("client: an operator adds to it, but not everything", () => {
  const MOSAIC_ALLOW = "--allow-net=10.0.0.1:80,h  --allow-read\t--allow-run=/usr/bin/id";
  const { net, read, run } = setOf(["list", "--target", "127.0.0.1:7"], { MOSAIC_ALLOW });
  assert.deepEqual([net, read, run], [["10.0.0.1:80", "127.0.0.1:7", "h"], "all", ["/usr/bin/id"]]);
  for (
    const flag of [
      "-A",
      "--allow-all",
      "--allow-ffi",
      "--allow-ffi=/x",
      "--unstable-net",
      "read",
      "--allow-net=",
    ]
  ) {
    const { code, flags, err } = runClientFlags(["list"], { MOSAIC_ALLOW: `--allow-read ${flag}` });
    assert.deepEqual([code, flags], [2, []], flag);
    assert.match(err, /^mosaic: MOSAIC_ALLOW has ".+", which grants nothing that can be added\n/);
  }
});
