/**
 * Other users of the host: what they find at a daemon's listeners on loopback, and its own user
 * beside them.
 */
import assert from "node:assert/strict";
import { findProgram } from "../../src/proxy/worker/program.ts";
import { ensureTokens } from "../../src/wire/tokens.ts";
import { ownerOfListener, ownerOfPeer, PeerOwners } from "../../src/os/host/socket_owners.ts";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { Ingest } from "../../src/gen/mosaic/v1/ingest_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { socketStream } from "../../src/wire/client/socket_stream.ts";
import { hasCode } from "../registry/fixture.ts";
import { configOf } from "../harness/configs.ts";
import { PlannedDaemon } from "../harness/planned_daemon.ts";
import { mosaic } from "../system/machine/cli.ts";
import { submit, untilState } from "../harness/runs.ts";

const PATH = "/usr/bin:/bin:/usr/sbin";
const OTHER_UID = 65533;
/** What runs a program as another user; undefined where that cannot be done. */
const asOther = Deno.uid() === 0 &&
    ["setpriv", "curl", "perl"].every((name) => "path" in findProgram(name, "/", PATH))
  ? ["setpriv", `--reuid=${OTHER_UID}`, "--clear-groups"]
  : undefined;
if (asOther === undefined) {
  console.log(
    "NOT ALLOWED HERE: this is not root with setpriv, curl and perl, so another user's calls are not tried",
  );
}

const TOKEN = "authorization: Bearer ";

interface Call {
  path: string;
  /** A Unix socket, instead of the address. */
  socket?: string;
  headers?: string[];
  body?: Uint8Array;
  as?: readonly string[];
}

/** @returns the answer with its headers */
async function curl(
  address: string,
  { path, headers = [], body, as = [], socket }: Call,
  ...options: string[]
): Promise<string> {
  const [program, ...args] = [
    ...as,
    "curl",
    "-s",
    "-i",
    "--max-time",
    "30",
    ...(socket === undefined ? [] : ["--unix-socket", socket]),
    ...options,
    ...headers.flatMap((header) => ["-H", header]),
    ...(body === undefined ? [] : ["--data-binary", "@-"]),
    `http://${address}${path}`,
  ];
  const child = new Deno.Command(program!, {
    args,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  if (body !== undefined) await writer.write(body as Uint8Array<ArrayBuffer>);
  await writer.close();
  return new TextDecoder().decode((await child.output()).stdout);
}

const statusOf = (answer: string) => Number(/^HTTP\/\S+ (\d+)/.exec(answer)?.[1]);

const page = (address: string, call: Partial<Call> = {}) =>
  curl(address, { path: "/api/session", ...call });
const api = (address: string, call: Partial<Call> = {}) =>
  curl(address, {
    path: "/mosaic.v1.Mosaic/GetHost",
    body: new TextEncoder().encode("{}"),
    ...call,
    headers: ["content-type: application/json", ...call.headers ?? []],
  });
/** @returns gRPC's status */
async function grpc(address: string, call: Partial<Call> = {}): Promise<number> {
  const answer = await curl(
    address,
    {
      path: "/gymgui.trainer.TrainerService/ListRuns",
      body: new Uint8Array(5),
      ...call,
      headers: ["content-type: application/grpc", "te: trailers", ...call.headers ?? []],
    },
    "--http2-prior-knowledge",
  );
  return Number(/grpc-status: ?(\d+)/.exec(answer)?.[1] ?? 0);
}

Deno.test({
  name:
    "another user: is asked for a token at every listener on loopback, and the daemon's own user is not",
  ignore: asOther === undefined,
  async fn() {
    await using planned = await PlannedDaemon.start();
    const { daemon } = planned;
    assert.equal(statusOf(await page(daemon.http)), 200);
    assert.equal(statusOf(await api(daemon.http)), 200);
    assert.equal(await grpc(daemon.address), 0);

    const as = asOther!;
    for (const headers of [[], [`${TOKEN}guess`]]) {
      assert.equal(statusOf(await page(daemon.http, { as, headers })), 401);
      assert.equal(statusOf(await api(daemon.http, { as, headers })), 401);
      assert.equal(await grpc(daemon.address, { as, headers }), 16);
    }
    const visit = await page(daemon.http, { as, path: "/", headers: ["accept: text/html"] });
    assert.match(visit, /^HTTP\/1.1 303[^]*location: \/login/i);
    assert.equal(statusOf(await page(daemon.http, { as, path: "/readyz" })), 200);

    // A file that comes later counts at once.
    const { admin, read } = ensureTokens(daemon.layout.tokensFile);
    assert.equal(statusOf(await page(daemon.http, { as, headers: [`${TOKEN}${read}`] })), 200);
    assert.equal(statusOf(await api(daemon.http, { as, headers: [`${TOKEN}${admin}`] })), 200);
    assert.equal(await grpc(daemon.address, { as, headers: [`${TOKEN}${admin}`] }), 0);

    // A user is no consent: what a browser sends is checked as ever.
    assert.equal(
      statusOf(await api(daemon.http, { headers: ["origin: http://evil.example"] })),
      403,
    );
    assert.equal(statusOf(await api(daemon.http, { headers: ["host: evil.example"] })), 403);
    assert.equal(statusOf(await page(daemon.http, { headers: ["host: evil.example"] })), 403);
    const change = { path: "/api/runs/x/cancel", body: new Uint8Array() };
    assert.equal(
      statusOf(await page(daemon.http, { ...change, headers: ["sec-fetch-site: cross-site"] })),
      403,
    );
  },
});

Deno.test({
  name:
    "another user: --auth none stays for whoever wants it, --auth token asks the daemon's own user, too",
  ignore: asOther === undefined,
  async fn() {
    const as = asOther!;
    await using open = await PlannedDaemon.start(["--auth", "none"]);
    assert.equal(statusOf(await api(open.daemon.http, { as })), 200);
    assert.equal(await grpc(open.daemon.address, { as }), 0);
    await using closed = await PlannedDaemon.start(["--auth", "token"]);
    assert.equal(statusOf(await api(closed.daemon.http)), 401);
    assert.equal(await grpc(closed.daemon.address), 16);
  },
});

const GROUP = 65532;

/**
 * A directory for a group's socket, as systemd makes /run/mosaic; where other users get to: TMPDIR
 * may be ours alone.
 */
function groupDirectory(): string {
  const directory = Deno.makeTempDirSync({ dir: "/tmp", prefix: "mosaic-test-" });
  if (Deno.uid() === 0) Deno.chownSync(directory, null, GROUP);
  Deno.chmodSync(directory, 0o750);
  return directory;
}

Deno.test({
  name:
    "--group-socket: its group may connect, with a token; nobody else may, and the daemon's own socket stays",
  ignore: asOther === undefined,
  async fn() {
    const directory = groupDirectory();
    try {
      const socket = `${directory}/api.sock`;
      await using planned = await PlannedDaemon.start([
        "--group-socket",
        `${GROUP}:${socket}`,
        "--http",
        "none",
      ]);
      const { layout } = planned.daemon;
      const own = `${layout.trainer}/daemon.sock`;
      const modes = [socket, own].map((path) => Deno.lstatSync(path)).map((
        { gid, mode },
      ) => [gid, mode! & 0o777]);
      assert.deepEqual(modes, [[GROUP, 0o660], [0, 0o600]]);

      const member = ["setpriv", `--reuid=${OTHER_UID}`, `--groups=${GROUP}`];
      const by = (call: Partial<Call>) => ({ socket, as: member, ...call });
      const { admin, read } = ensureTokens(layout.tokensFile);
      // Root is the daemon's user here, and asked all the same.
      for (const call of [by({}), by({ as: [] }), by({ headers: [`${TOKEN}guess`] })]) {
        assert.equal(statusOf(await api("localhost", call)), 401);
        assert.equal(statusOf(await page("localhost", call)), 401);
      }
      assert.equal(statusOf(await api("localhost", by({ headers: [`${TOKEN}${read}`] }))), 200);
      assert.equal(statusOf(await page("localhost", by({ headers: [`${TOKEN}${read}`] }))), 200);
      const stop = {
        path: "/mosaic.v1.Mosaic/PauseRun",
        body: new TextEncoder().encode(JSON.stringify({ run: "01ARZ3NDEKTSV4RRFFQ69G5FAV" })),
      };
      assert.equal(
        statusOf(await api("localhost", by({ ...stop, headers: [`${TOKEN}${read}`] }))),
        403,
      );
      assert.equal(
        statusOf(await api("localhost", by({ ...stop, headers: [`${TOKEN}${admin}`] }))),
        404,
      );
      assert.match(
        Deno.readTextFileSync(layout.auditFile),
        /"who":"admin","action":"Mosaic\/PauseRun","address":"group"/,
      );
      assert.equal(statusOf(await page("localhost", by({ path: "/readyz" }))), 200);
      // A port that ssh forwards to the socket brings browsers.
      const visit = await page("localhost", by({ path: "/", headers: ["accept: text/html"] }));
      assert.match(visit, /^HTTP\/1.1 303[^]*location: \/login/i);
      assert.equal(
        statusOf(
          await page("localhost", by({ headers: ["host: evil.example", `${TOKEN}${read}`] })),
        ),
        403,
      );

      // Not of the group; and of the group, at the daemon's own.
      assert.ok(
        Number.isNaN(
          statusOf(await api("localhost", by({ as: asOther!, headers: [`${TOKEN}${admin}`] }))),
        ),
      );
      assert.ok(Number.isNaN(statusOf(await api("localhost", by({ socket: own })))));
      const client = new MosaicClient(`unix:${own}`);
      assert.ok(await client.unary(Mosaic.method.getHost, {}));
      client.close();
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  },
});

Deno.test("--group-socket: what others could replace, what the group cannot reach, and a daemon without tokens are refused", async () => {
  const directory = groupDirectory();
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
  try {
    const group = Deno.lstatSync(directory).gid;
    const refusal = async (value: string, ...further: string[]) => {
      const listeners = ["--listen", "none", "--http", "none", "--gpus", "0"];
      const run = await mosaic([
        "daemon",
        "--state-dir",
        stateDir,
        ...listeners,
        "--group-socket",
        value,
        ...further,
      ]);
      assert.ok([2, 3].includes(run.code), run.err);
      return run.err;
    };
    const socket = `${group}:${directory}/api.sock`;
    assert.match(await refusal("mosaic"), /must be GROUP:\/path\/of\/the\/socket/);
    assert.match(
      await refusal(`no-such-group:${directory}/api.sock`),
      /knows no group no-such-group/,
    );
    assert.match(
      await refusal(socket, "--auth", "none"),
      /requires a token from everybody, --auth none from nobody/,
    );
    Deno.writeTextFileSync(`${directory}/api.sock`, "somebody's");
    assert.match(await refusal(socket), /a file that is not a socket exists there/);
    Deno.chmodSync(directory, 0o770);
    assert.match(
      await refusal(socket),
      /others may replace a socket in \S+ \(user \d+, mode 770\)/,
    );
    Deno.chmodSync(directory, 0o700);
    assert.match(
      await refusal(socket),
      new RegExp(`cannot reach ${directory}[^]*chgrp ${group} ${directory}`),
    );
    assert.match(await refusal(`${group}:${directory}/none/api.sock`), /install -d -m 750 -g/);
    Deno.mkdirSync(`${directory}/below`, { mode: 0o755 });
    Deno.chmodSync(directory, 0o777);
    assert.match(
      await refusal(`${group}:${directory}/below/api.sock`),
      new RegExp(`others may replace a directory in ${directory} \\(user \\d+, mode 777\\)`),
    );
  } finally {
    for (const made of [directory, stateDir]) Deno.removeSync(made, { recursive: true });
  }
});

Deno.test("a sandboxed worker with a network would be known as the daemon's user: refused without --auth token", async () => {
  await using planned = await PlannedDaemon.start();
  const { daemon } = planned;
  const config = JSON.parse(configOf({ command: ["true"] }));
  config.metadata.sandbox = { kind: "bubblewrap", network: true };
  const runId = await submit(daemon, JSON.stringify(config));
  const run = await untilState(daemon, runId, "FAULTED");
  assert.match(`${run.reason} ${run.hint}`, /--auth token/);
});

Deno.test("a state directory that another user owns or may write to is refused, with what mends it", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
  try {
    const daemon = () =>
      mosaic([
        "daemon",
        "--state-dir",
        directory,
        "--listen",
        "none",
        "--http",
        "none",
        "--gpus",
        "0",
      ]);
    Deno.chmodSync(directory, 0o777);
    const shared = await daemon();
    assert.deepEqual(
      [shared.code, shared.err.includes(`chmod go-w ${directory}`)],
      [4, true],
      shared.err,
    );
    Deno.chmodSync(directory, 0o700);
    Deno.mkdirSync(`${directory}/trainer`);
    Deno.chmodSync(`${directory}/trainer`, 0o770);
    assert.match((await daemon()).err, /other users may write to \S+\/trainer \(mode 770\)/);
    if (Deno.uid() !== 0) {
      return console.log(
        "NOT ALLOWED HERE: this user is not root, so another user's state directory is not tried",
      );
    }
    Deno.chmodSync(`${directory}/trainer`, 0o700);
    Deno.chownSync(directory, OTHER_UID, null);
    const others = await daemon();
    assert.equal(others.code, 4);
    assert.match(others.err, new RegExp(`belongs to user ${OTHER_UID}, and the daemon is user 0`));
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

const row = (local: string, remote: string, state: string, uid: number, inode = 7) =>
  `   1: ${local} ${remote} ${state} 00000000:00000000 00:00000000 00000000  ${uid}        0 ${inode} 1 0 20 4 30 10 -1\n`;
const SERVER = "0100007F:1F77"; // 127.0.0.1:8055
const MAPPED = "0000000000000000FFFF0000";

Deno.test("socket table: only an established connection with an inode says whose it is", () => {
  const peer = { address: "127.0.0.1", port: 0xABCD };
  const of = (...rows: string[]) =>
    ownerOfPeer(`  sl  local_address\n${rows.join("")}`, peer, 8055);
  const mine = row("0100007F:ABCD", SERVER, "01", 1000);
  assert.equal(of(mine), 1000);
  // Its other end, another port, another address, a connection of the same port to elsewhere.
  assert.equal(of(row(SERVER, "0100007F:ABCD", "01", 5)), undefined);
  assert.equal(of(row("0100007F:ABCE", SERVER, "01", 5)), undefined);
  assert.equal(of(row("0200007F:ABCD", SERVER, "01", 5)), undefined);
  assert.equal(of(mine, row("0100007F:ABCD", "0100007F:1F78", "01", 5)), 1000);
  assert.equal(of(mine, row("0100007F:ABCD", "0100000A:1F77", "01", 5)), 1000);
  // Closed, being closed, without an inode; two that may be meant; a user of another namespace.
  assert.equal(of(row("0100007F:ABCD", SERVER, "05", 0, 0)), undefined);
  assert.equal(of(row("0100007F:ABCD", SERVER, "08", 1000)), undefined);
  assert.equal(of(row("0100007F:ABCD", SERVER, "01", 0, 0)), undefined);
  assert.equal(of(mine, row("0100007F:ABCD", "0200007F:1F77", "01", 5)), undefined);
  assert.equal(of(row("0100007F:ABCD", SERVER, "01", 65534)), undefined);
  assert.equal(of(), undefined);
  // By IPv6, with an IPv4 address in it and of its own.
  assert.equal(of(row(`${MAPPED}0100007F:ABCD`, `${MAPPED}${SERVER}`, "01", 1000)), 1000);
  const six = row(
    "00000000000000000000000001000000:ABCD",
    "00000000000000000000000001000000:1F77",
    "01",
    1000,
  );
  assert.equal(ownerOfPeer(six, { address: "::1", port: 0xABCD }, 8055), 1000);
});

Deno.test("socket table: who listens at an address, or at all of them", () => {
  const at = { address: "127.0.0.1", port: 8055 };
  assert.equal(ownerOfListener(row(SERVER, "00000000:0000", "0A", 5), at), 5);
  assert.equal(ownerOfListener(row("00000000:1F77", "00000000:0000", "0A", 6), at), 6);
  assert.equal(
    ownerOfListener(
      row("00000000000000000000000000000000:1F77", `${"0".repeat(32)}:0000`, "0A", 8),
      at,
    ),
    8,
  );
  assert.equal(ownerOfListener(row(SERVER, "0100007F:ABCD", "01", 5), at), undefined);
  const two = row(SERVER, "00000000:0000", "0A", 5) +
    row("00000000:1F77", "00000000:0000", "0A", 6);
  assert.equal(ownerOfListener(two, at), undefined);
});

Deno.test("socket table: a reading serves all who asked before it began, and nobody who came later", async () => {
  const readings: ((text: string) => void)[] = [];
  const owners = new PeerOwners(
    () => Promise.resolve(undefined),
    () => new Promise((resolve) => readings.push(resolve)),
  );
  const local = { address: "127.0.0.1", port: 8055 };
  const of = (port: number) => owners.of({ address: "127.0.0.1", port }, local);
  const line = (port: string, uid: number) => row(`0100007F:${port}`, SERVER, "01", uid);
  const first = [of(0xABCD), of(0xABCE)];
  while (readings.length === 0) await new Promise((resolve) => setTimeout(resolve));
  // Connected after the reading began: it needs one of its own.
  const late = of(0xABCF);
  readings[0]!(line("ABCD", 1) + line("ABCE", 2));
  assert.deepEqual(await Promise.all(first), [1, 2]);
  while (readings.length === 1) await new Promise((resolve) => setTimeout(resolve));
  readings[1]!(line("ABCF", 3));
  assert.equal(await late, 3);
  assert.equal(await owners.of({ address: "10.0.0.7", port: 1 }, local), undefined);
  assert.equal(readings.length, 2);
});

Deno.test({
  name:
    "a squatter: whoever listens on a port that is not the daemon's any more gets no token, of a client or a proxy",
  ignore: asOther === undefined,
  async fn() {
    const directory = Deno.makeTempDirSync();
    try {
      const heard = `${directory}/heard`;
      Deno.chmodSync(directory, 0o777);
      // Takes what comes, and answers nothing.
      const squatter = `use IO::Socket::INET; $| = 1;
my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 9) or die;
print $s->sockport, "\\n";
while (my $c = $s->accept) { sysread $c, my $text, 65536; open my $f, ">>", "${heard}"; print $f "accepted $text"; close $c }`;
      const [program, ...args] = [...asOther!, "perl", "-e", squatter];
      await using squatting = new Deno.Command(program!, { args, stdout: "piped" }).spawn();
      const port = new TextDecoder().decode((await squatting.stdout.getReader().read()).value)
        .trim();
      const client = new MosaicClient(`127.0.0.1:${port}`, { token: "the-secret" });
      await assert.rejects(
        client.unary(Mosaic.method.getHost, {}),
        hasCode(
          "failed_precondition",
          new RegExp(`not sent to 127.0.0.1:${port}: user ${OTHER_UID} listens there`),
        ),
      );
      client.close();
      const stream = socketStream(Ingest.method.deliver, {
        target: `127.0.0.1:${port}`,
        token: "the-secret",
      });
      await assert.rejects(
        stream[Symbol.asyncIterator]().next(),
        hasCode("failed_precondition", /not sent/),
      );
      squatting.kill();
      assert.ok(!(readTextIfThere(heard) ?? "").includes("the-secret"));
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  },
});
