/** Named tokens of a running daemon, and the audit log of what their bearers and strangers did. */
import assert from "node:assert/strict";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { Audit, type AuditLine, parseAuditLine } from "../../src/wire/audit.ts";
import { createToken, readTokens, revokeToken, TokenFile } from "../../src/wire/tokens.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { GrpcClient } from "../harness/grpc_client.ts";
import { untilState } from "../harness/runs.ts";
import { mosaic } from "../system/machine/cli.ts";
import { hasCode } from "../registry/fixture.ts";

async function cli(daemon: TestDaemon, ...args: string[]): Promise<string> {
  const { code, out, err } = await mosaic([...args, "--state-dir", daemon.stateDir]);
  assert.equal(code, 0, err);
  return out;
}

Deno.test("a named token: does what its role may, until it is revoked, and the audit log tells all of it", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  const secret =
    (await cli(daemon, "token", "create", "--name", "ci", "--role", "submit", "--ttl", "30d"))
      .trim();
  assert.match(secret, /^mosaic_submit_/);
  assert.ok(!Deno.readTextFileSync(daemon.layout.tokensFile).includes(secret));
  const listed = JSON.parse(await cli(daemon, "token", "list", "-o", "json"));
  assert.deepEqual(
    listed.map((token: { name: string; role: string }) => [token.name, token.role]),
    [["ci", "submit"]],
  );

  const client = new MosaicClient(daemon.http, { token: secret });
  const grpc = new GrpcClient(daemon.address, { token: "a guess" });
  try {
    const configJson = configOf({ command: ["sleep", "600"], environment: { API_KEY: "s3cret" } });
    const { runId } = await client.unary(TrainerService.method.submitRun, { configJson });
    await untilState(daemon, runId, "READY", "EXECUTING");
    const shown = (await client.unary(Mosaic.method.getRun, { run: runId })).configJson;
    assert.ok(!shown.includes("s3cret"));
    assert.equal(JSON.parse(shown).metadata.submitted_by, "ci");
    await assert.rejects(
      client.unary(Mosaic.method.cancelRun, { run: runId }),
      hasCode("permission_denied", /operate/),
    );
    await assert.rejects(
      grpc.unary(TrainerService.method.cancelRun, { runId }),
      hasCode("unauthenticated"),
    );
    await daemon.client.unary(Mosaic.method.editRun, { run: "@last", name: "other" });
    await daemon.client.unary(Mosaic.method.cancelRun, { run: "other" });
    const headers = { authorization: `Bearer ${secret}` };
    const session = await (await fetch(`http://${daemon.http}/api/session`, { headers })).json();
    const page = await fetch(`http://${daemon.http}/api/runs/${runId}/delete`, {
      method: "POST",
      headers: { ...headers, "x-mosaic-token": session.token },
    });
    assert.equal(page.status, 403, await page.text());

    await cli(daemon, "token", "revoke", "--name", "ci");
    await assert.rejects(
      client.unary(TrainerService.method.submitRun, { configJson }),
      hasCode("unauthenticated"),
    );

    const entries: AuditLine[] = JSON.parse(await cli(daemon, "audit", "-o", "json"));
    assert.deepEqual(
      entries.map(({ who, action, outcome, run }) => [who, action, outcome, run === runId]),
      [
        ["owner", "token create ci (submit)", "ok", false],
        ["ci", "TrainerService/SubmitRun", "ok", true],
        ["ci", "Mosaic/CancelRun", "permission_denied", false],
        ["nobody", "TrainerService/CancelRun", "unauthenticated", false],
        ["owner", "Mosaic/EditRun", "ok", true],
        ["owner", "Mosaic/CancelRun", "ok", true],
        ["ci", `page /api/runs/${runId}/delete`, "permission_denied", false],
        ["owner", "token revoke ci", "ok", false],
        ["nobody", "TrainerService/SubmitRun", "unauthenticated", false],
      ],
    );
    assert.equal(entries[4]!.address, "unix");
    assert.match(entries[1]!.address, /^127\.0\.0\.1:\d+$/);
    assert.match(
      await cli(daemon, "audit", "--refused"),
      /nobody\s+127\.0\.0\.1:\d+\s+TrainerService\/CancelRun/,
    );
    assert.equal(Deno.statSync(daemon.layout.auditFile).mode! & 0o777, 0o600);
    assert.ok(!Deno.readTextFileSync(daemon.layout.auditFile).includes(secret));
  } finally {
    client.close();
    grpc.close();
  }
});

Deno.test("named tokens: expire, stay through a rotation of the others, and need a name of their own", () => {
  const directory = Deno.makeTempDirSync();
  try {
    const path = `${directory}/tokens.json`;
    const late = createToken(path, { name: "late", role: "operate", ttlMs: -1 });
    const kept = createToken(path, { name: "kept", role: "operate" });
    const file = new TokenFile(path);
    assert.equal(file.holderOf(late), undefined);
    assert.deepEqual(file.holderOf(kept), { name: "kept", role: "operate" });
    for (const name of ["kept", "admin", "", "a b", "-x"]) {
      assert.throws(() => createToken(path, { name, role: "read" }), hasCode("invalid_argument"));
    }
    revokeToken(path, "late");
    assert.throws(() => revokeToken(path, "admin"), hasCode("not_found"));
    // A file of the version before has no named ones.
    const { admin, read } = readTokens(path)!;
    Deno.writeTextFileSync(path, JSON.stringify({ admin, read }));
    assert.deepEqual(file.holderOf(admin), { name: "admin", role: "admin" });
    assert.equal(file.holderOf(kept), undefined);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("audit log: refusals beyond a rate are counted, what was done never is left out", () => {
  const lines: AuditLine[] = [];
  const audit = new Audit((line) => lines.push(parseAuditLine(line)!));
  const entry = { who: "nobody", address: "127.0.0.1:1", action: "a", outcome: "unauthenticated" };
  for (let i = 0; i < 500; i++) audit.refused(entry);
  assert.ok(lines.length >= 60 && lines.length < 100, `${lines.length} lines`);
  for (let i = 0; i < 200; i++) audit.did({ ...entry, outcome: "ok" });
  assert.equal(lines.filter(({ outcome }) => outcome === "ok").length, 200);
  assert.equal(parseAuditLine('{"at":"2026-'), undefined);
});

Deno.test("a named token: made before the daemon's first start, it is good from the start", async () => {
  const parent = Deno.makeTempDirSync({ prefix: "mosaic-tokens-" });
  const stateDir = `${parent}/state`;
  try {
    const create = ["token", "create", "--name", "ci", "--role", "read", "--state-dir", stateDir];
    const { code, out, err } = await mosaic(create);
    assert.equal(code, 0, err);
    await using daemon = await TestDaemon.start({ args: ["--auth", "token"], stateDir });
    const client = new MosaicClient(daemon.http, { token: out.trim() });
    try {
      assert.deepEqual((await client.unary(Mosaic.method.listRuns, {})).runs, []);
    } finally {
      client.close();
    }
  } finally {
    Deno.removeSync(parent, { recursive: true });
  }
});

Deno.test("named tokens: those that several commands make at one time are all good", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  const names = ["a", "b", "c", "d", "e", "f"];
  await Promise.all(
    names.map((name) => cli(daemon, "token", "create", "--name", name, "--role", "read")),
  );
  const listed = JSON.parse(await cli(daemon, "token", "list", "-o", "json")) as { name: string }[];
  assert.deepEqual(names.filter((name) => !listed.some((token) => token.name === name)), []);
});

Deno.test("a submit token: records what ran of its own runs only, and larger sweeps than a path may be are taken", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  const [one, two] = await Promise.all(["one", "two"].map(async (name) => {
    const token = (await cli(daemon, "token", "create", "--name", name, "--role", "submit")).trim();
    return new MosaicClient(daemon.http, { token });
  }));
  try {
    const configJson = configOf({ command: ["true"] });
    const { runId } = await one!.unary(TrainerService.method.submitRun, { configJson });
    const codeJson = JSON.stringify({ cwd: "/r", git: null, words: [], problems: [] });
    const none = { driver: null, cuda: null, interpreter: null };
    const environmentJson = JSON.stringify({
      host: "h",
      kernel: "k",
      ...none,
      packages: [],
      sources: {},
    });
    const record = { runId, attempt: 0, codeJson, environmentJson };
    await assert.rejects(
      two!.unary(Mosaic.method.recordCode, record),
      hasCode("permission_denied", /was submitted by one/),
    );
    await one!.unary(Mosaic.method.recordCode, record);
    assert.equal(
      (await two!.unary(Mosaic.method.getCode, { run: runId })).records[0]!.codeJson,
      codeJson,
    );

    const config = { ...JSON.parse(configJson), arguments: ["{a}"] };
    const values = Array.from({ length: 1000 }, (_, i) => `value ${i}`);
    const spec = {
      name: "s",
      config,
      pass: "templates",
      parts: [{ axes: [{ name: "a", values }] }],
      budget: {},
    };
    const specJson = JSON.stringify({ ...spec, max_parallel: 1 });
    const { total } = await two!.unary(Mosaic.method.createSweep, { specJson });
    assert.equal(Number(total), 1000);
    await daemon.client.unary(Mosaic.method.changeSweep, { sweep: "s", action: "cancel" });
  } finally {
    one!.close();
    two!.close();
  }
});
