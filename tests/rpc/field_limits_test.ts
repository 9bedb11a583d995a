/** Every field that somebody outside sends has a bound, and what is beyond it spoils no list. */
import assert from "node:assert/strict";
import {
  create,
  type DescField,
  type DescMessage,
  type DescMethodUnary,
  ScalarType,
} from "@bufbuild/protobuf";
import { DatabaseSync } from "node:sqlite";
import {
  CONFIG_LIMITS,
  FIELD_LIMITS,
  MLFLOW_LIMITS,
  PAGE_BYTES,
  STORED_LENGTH,
  URL_BYTES,
} from "../../src/base/field_limits.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { violationsOf } from "../../src/config/config.ts";
import { Health } from "../../src/gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../src/gen/grpc/reflection/v1/reflection_pb.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Ingest } from "../../src/gen/mosaic/v1/ingest_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { limitOf, requireBounds } from "../../src/rpc/call/field_bounds.ts";
import { configOf } from "../harness/configs.ts";
import { ConnectClient } from "../harness/connect_client.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { GrpcClient } from "../harness/grpc_client.ts";
import { submit, untilState } from "../harness/runs.ts";
import { mosaic } from "../system/machine/cli.ts";

const SERVICES = [TrainerService, Mosaic, Ingest, Health, ServerReflection];

/** Of all files, nested ones too. */
function* messages(
  of: readonly DescMessage[] = SERVICES.flatMap(({ file }) => file.messages),
): Generator<DescMessage> {
  for (const message of of) {
    yield message;
    yield* messages(message.nestedMessages);
  }
}

function hasSize(field: DescField): boolean {
  if (field.fieldKind === "list" || field.fieldKind === "map") return true;
  return field.fieldKind === "scalar" &&
    [ScalarType.STRING, ScalarType.BYTES].includes(field.scalar);
}

/** Values of the field that are beyond its bound, and what the refusal says of each. */
function* beyond(field: DescField): Generator<{ value: unknown; said: string }> {
  const { bytes, entries } = limitOf(field)!;
  const said = (size: string, most: string) =>
    `${field.name} of ${field.parent.typeName} has ${size}; the bound is ${most}`;
  const ofBytes = said(`${bytes + 1} bytes`, `${bytes} bytes`);
  if (field.fieldKind === "scalar") {
    yield {
      value: field.scalar === ScalarType.BYTES ? new Uint8Array(bytes + 1) : "x".repeat(bytes + 1),
      said: ofBytes,
    };
    // Fewer characters than the bound has bytes.
    if (field.scalar === ScalarType.STRING && bytes < 1 << 20) {
      const n = Math.floor(bytes / 3) + 1;
      yield { value: "€".repeat(n), said: said(`${3 * n} bytes`, `${bytes} bytes`) };
    }
    return;
  }
  const isText = field.fieldKind === "list" && field.listKind === "scalar" &&
    field.scalar === ScalarType.STRING;
  if (isText) yield { value: ["x".repeat(bytes + 1)], said: ofBytes };
  const one = field.fieldKind === "list"
    ? field.listKind === "scalar" ? (isText ? "" : 0) : field.listKind === "enum" ? 1 : {}
    : "";
  const ofEntries = said(`${entries! + 1} entries`, `${entries} entries`);
  if (field.fieldKind === "list") {
    yield { value: Array.from({ length: entries! + 1 }, () => one), said: ofEntries };
  } else if (field.fieldKind === "map") {
    const n = Array.from(
      { length: entries! + 1 },
      (_, i) => [i, field.mapKind === "scalar" && field.scalar === ScalarType.STRING ? "" : 0n],
    );
    yield { value: Object.fromEntries(n), said: ofEntries };
  }
}

const withValue = ({ localName, oneof }: DescField, value: unknown): Record<string, unknown> =>
  oneof === undefined ? { [localName]: value } : { [oneof.localName]: { case: localName, value } };

function isRefused(said: string): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof MosaicError, String(error));
    assert.equal(error.code, "invalid_argument", error.message);
    assert.equal(error.message, said);
    return true;
  };
}

Deno.test("field limits: every text, byte string, list and map of every message has a bound, and refuses what is beyond it", () => {
  let fields = 0;
  const names = new Set<string>();
  for (const message of messages()) {
    for (const field of message.fields) {
      names.add(`${message.typeName}.${field.name}`);
      assert.equal(
        limitOf(field) !== undefined,
        hasSize(field),
        `${message.typeName}.${field.name}`,
      );
      if (!hasSize(field)) continue;
      fields++;
      requireBounds(message, create(message));
      for (const { value, said } of beyond(field)) {
        assert.throws(
          () => requireBounds(message, create(message, withValue(field, value))),
          isRefused(said),
        );
      }
    }
  }
  assert.ok(fields > 150, `${fields} fields`);
  assert.deepEqual(
    Object.keys(FIELD_LIMITS).filter((name) => !names.has(name)),
    [],
    "lines for no field",
  );
});

Deno.test("field limits: over the wire, each field beyond its bound is named, and every list works afterwards", async () => {
  await using daemon = await TestDaemon.start();
  const run = await submit(daemon, configOf({ command: ["/bin/sleep", "600"] }));
  await untilState(daemon, run, "READY");
  const clients = [
    new ConnectClient(`http://${daemon.http}`),
    new ConnectClient(`http://${daemon.http}`, { json: true }),
    new ConnectClient(`http://${daemon.http}`, { protocol: "grpc-web" }),
    new GrpcClient(daemon.address),
  ];
  let calls = 0;
  try {
    for (const { methods } of [TrainerService, Mosaic]) {
      for (const method of methods.filter(({ methodKind }) => methodKind === "unary")) {
        for (const field of method.input.fields.filter(hasSize)) {
          for (const { value, said } of beyond(field)) {
            for (const client of clients) {
              if (
                client instanceof GrpcClient && method.parent.typeName !== TrainerService.typeName
              ) continue;
              const request = { runId: run, run, ...withValue(field, value) };
              await assert.rejects(
                client.unary(method as DescMethodUnary, request as never),
                isRefused(said),
              );
              calls++;
            }
          }
        }
      }
    }
    const step = TrainerService.method.publishRunSteps.input.field["agentId"]!;
    for (const { value, said } of beyond(step)) {
      for (const client of [clients[0]!, clients[3]!]) {
        const upload = client.upload(TrainerService.method.publishRunSteps);
        const refused = assert.rejects(upload.answer, isRefused(said));
        await upload.send({ runId: run, ...withValue(step, value) });
        upload.end();
        await refused;
      }
    }
    const post = (path: string, body: unknown) =>
      fetch(`http://${daemon.http}${path}`, { method: "POST", body: JSON.stringify(body) });
    const mlflow = `/mlflow/${run}/api/2.0/mlflow`;
    const tag = await post(`${mlflow}/runs/create`, {
      user_id: "x".repeat(MLFLOW_LIMITS.text + 1),
    });
    assert.match(
      await tag.text(),
      new RegExp(`user_id has ${MLFLOW_LIMITS.text + 1} bytes; the bound is ${MLFLOW_LIMITS.text}`),
    );
    const tags = await post(`${mlflow}/runs/create`, {
      tags: Array.from({ length: MLFLOW_LIMITS.entries + 1 }, () => ({})),
    });
    assert.match(await tags.text(), /tags has 10001 entries; the bound is 10000/);
    for (const path of ["/api/runs?where=", `${mlflow}/runs/get?run_id=`, "/api/runs?ids=", "/"]) {
      const answer = await fetch(`http://${daemon.http}${path}${"x".repeat(URL_BYTES)}`);
      assert.match(await answer.text(), /the address has \d+ bytes; the bound is 32768/, path);
    }
    assert.ok(calls > 100, `${calls} calls`);
    await listed(daemon, [run], clients);
  } finally {
    for (const client of clients) client.close();
  }
});

Deno.test("field limits: what an earlier version has stored without them is read cut, and large configs make short pages", async () => {
  await using daemon = await TestDaemon.start();
  const runs: string[] = [];
  for (let i = 0; i < 3; i++) {
    runs.unshift(await submit(daemon, configOf({ name: `n${i}`, command: ["/bin/true"] })));
  }
  for (const run of runs) await untilState(daemon, run, "TERMINATED");
  await daemon.kill9();
  {
    using db = new DatabaseSync(daemon.layout.registryDb);
    const long = "x".repeat(9 << 20);
    db.prepare(
      "UPDATE runs SET worker_kind = ?, proto_version = ?, resume_from = ?, tags = ? WHERE run_id = ?",
    )
      .run(long, long, long, JSON.stringify([long, "b"]), runs[0]!);
    const rest = db.prepare("UPDATE runs SET notes = ?, stderr_tail = ? WHERE run_id = ?");
    for (const run of runs.slice(1)) {
      rest.run("x".repeat(PAGE_BYTES * 0.75), JSON.stringify(["a", long]), run);
    }
  }
  await daemon.restart();
  const clients = [new ConnectClient(`http://${daemon.http}`), new GrpcClient(daemon.address)];
  try {
    const pages: number[] = [];
    for (let pageToken = "";;) {
      const page = await clients[0]!.unary(Mosaic.method.listRuns, { pageToken });
      pages.push(page.runs.length);
      if ((pageToken = page.nextPageToken) === "") break;
    }
    assert.deepEqual(pages, [1, 1, 1]);
    for (const run of runs) {
      const { resumeFrom, tags, stderrTail } = await clients[0]!.unary(Mosaic.method.getRun, {
        run,
      });
      const [text, list] = [resumeFrom, [...tags, ...stderrTail].join("")].map((of) =>
        of.replace("… (cut)", "").length
      );
      assert.ok(text! <= STORED_LENGTH.text && list! <= STORED_LENGTH.list, `${text} ${list}`);
    }
    for (const sort of ["", "name"]) {
      const { runs: found } = await clients[0]!.unary(Mosaic.method.listRuns, {
        sort,
        where: "name ~ n",
      });
      assert.equal(found.length, 1, sort);
    }
    await listed(daemon, runs, clients);
  } finally {
    for (const client of clients) client.close();
  }
});

Deno.test("field limits: a config's texts and collections, wherever they are", () => {
  const long = "x".repeat(CONFIG_LIMITS.text + 1);
  const many = Object.fromEntries(
    Array.from({ length: CONFIG_LIMITS.entries + 1 }, (_, i) => [`k${i}`, 1]),
  );
  const at = (change: (config: Record<string, never>) => void): string => {
    const config = JSON.parse(
      configOf({ command: ["/bin/true"], metadata: { worker: { config: {} } } }),
    );
    change(config);
    return violationsOf(JSON.stringify(config)).map(({ path, message }) => `${path} ${message}`)
      .join("\n");
  };
  // deno-lint-ignore no-explicit-any
  const changes: [string, (config: any) => void][] = [
    [
      "metadata.worker.config.any.deep[1]",
      (c) => c.metadata.worker.config.any = { deep: [1, long] },
    ],
    ["metadata.worker.config.many", (c) => c.metadata.worker.config.many = many],
    ["metadata.anything", (c) => c.metadata.anything = long],
    ["environment.A", (c) => c.environment = { A: long }],
    ["metadata.tags", (c) => c.metadata.tags = Array.from({ length: 101 }, (_, i) => `t${i}`)],
    ["metadata.worker.agent_id", (c) => c.metadata.worker.agent_id = "x".repeat(1025)],
    ["arguments[0]", (c) => c.arguments = [long]],
  ];
  assert.equal(at(() => {}), "");
  for (const [path, change] of changes) {
    const said = at(change);
    assert.ok(
      said.split("\n").some((line) =>
        line.startsWith(`${path} has `) && / at most \d+ are taken/.test(line)
      ),
      said,
    );
  }
});

/** By each way that somebody has to a list. */
async function listed(
  daemon: TestDaemon,
  runs: string[],
  clients: (ConnectClient | GrpcClient)[],
): Promise<void> {
  const found: string[][] = [];
  for (const client of clients) {
    found.push(
      (await client.unary(TrainerService.method.listRuns, {})).runs.map(({ runId }) => runId)
        .toReversed(),
    );
  }
  const { code, out, err } = await mosaic(["list", "-o", "json", "--state-dir", daemon.stateDir]);
  assert.equal(code, 0, err);
  found.push(JSON.parse(out).map(({ run_id }: { run_id: string }) => run_id));
  const ids: string[] = [];
  for (let token: string | null = ""; token !== null;) {
    const page: { runs: { run_id: string }[]; next_token: string | null } =
      await (await fetch(`http://${daemon.http}/api/runs?sort=-name&token=${token}`)).json();
    ids.push(...page.runs.map(({ run_id }: { run_id: string }) => run_id));
    token = page.next_token;
  }
  found.push(ids);
  for (const one of found) assert.deepEqual(one, runs);
}
