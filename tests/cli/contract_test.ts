/**
 * What programs rely on: what every command really prints is held against the shape that
 * docs/reference/json.md names for it, strictly: a field too many fails as one too few. The tables of
 * the shapes there are generated from src/registry/contract.ts.
 */
import { strict as assert } from "node:assert";
import { z } from "zod";
import { newCommand } from "../../src/cli/verb/verb_parser.ts";
import { fieldNames } from "../../src/cli/text/records.ts";
import { SHAPES } from "../../src/registry/contract.ts";
import { TELEMETRY_KINDS } from "../../src/records/record_fields.ts";
import { VERBS } from "../../src/cli/verbs.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { configOf } from "../harness/configs.ts";
import { FakeGpuTools } from "../harness/fake_gpu_tools.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { fakeWorld } from "./fakes.ts";
import { runVerb } from "./verb.ts";

type Shape = keyof typeof SHAPES;

const PAGE = await Deno.readTextFile(new URL("../../docs/reference/json.md", import.meta.url));

/** The rows of the first table below a heading, without its own heading. */
function rowsBelow(heading: string): string[][] {
  const after = PAGE.split(`\n${heading}\n`)[1];
  assert.ok(after !== undefined, `docs/reference/json.md has no ${heading}`);
  const lines = after.split(/\n#+ /)[0]!.split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2).map((line) => line.slice(1, -1).split("|").map((cell) => cell.trim()));
}

const quoted = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1]!);

const isShape = (schema: unknown) =>
  Object.entries(SHAPES).find(([, shape]) => shape === schema)?.[0];

interface Printed {
  json: string[];
  jsonl: string[];
  csv: string[];
}

/** By command, what docs/reference/json.md says that each format holds. */
const PROMISED = new Map<string, Printed>(
  rowsBelow("## Shapes").flatMap(([commands, json, jsonl, csv]) =>
    quoted(commands!).map((command): [string, Printed] => [
      command,
      { json: quoted(json!), jsonl: quoted(jsonl!), csv: csv === "" ? [] : [csv!] },
    ])
  ),
);

Deno.test("docs/reference/json.md: names every command that prints for programs, with every format it has", async () => {
  const real = new Map<string, string[]>();
  for (const verb of VERBS) {
    // The columns of sql are those of the query.
    if (verb.load === undefined || verb.name === "sql") continue;
    const command = newCommand(verb, fakeWorld());
    (await verb.load()).define(command, fakeWorld(), { code: 0 }, VERBS);
    const formats = command.options.find((option) => option.long === "--output")?.argChoices ?? [];
    const forPrograms = formats.filter((format) => ["json", "jsonl", "csv"].includes(format));
    if (forPrograms.length > 0) real.set(verb.name, forPrograms.sort());
  }
  const said = new Map<string, string[]>();
  for (const [command, formats] of PROMISED) {
    const named = Object.entries(formats).filter(([, what]) => what.length > 0).map(([format]) =>
      format
    ).sort();
    if (!command.includes(" ")) said.set(command, named);
  }
  assert.deepEqual(new Map([...said].sort()), new Map([...real].sort()));
});

/** The fields that have been seen with a value, by the shape that documents them. */
const seen = new Set<string>();

function look(schema: z.ZodType, value: unknown, path: string): void {
  if (value === null || value === undefined) return;
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) {
    return look(schema.unwrap() as z.ZodType, value, path);
  }
  if (schema instanceof z.ZodArray) {
    const item = schema.element as z.ZodType;
    for (const one of value as unknown[]) {
      seen.add(path);
      look(item, one, isShape(item) ?? `${path}[]`);
    }
    return;
  }
  seen.add(path);
  if (schema instanceof z.ZodUnion) {
    for (const option of schema.options as z.ZodType[]) {
      if (option.safeParse(value).success) look(option, value, isShape(option) ?? path);
    }
  }
  if (schema instanceof z.ZodRecord) {
    for (const one of Object.values(value)) look(schema.valueType as z.ZodType, one, path);
  }
  if (!(schema instanceof z.ZodObject)) return;
  for (const [name, field] of Object.entries(schema.shape) as [string, z.ZodType][]) {
    look(field, (value as Record<string, unknown>)[name], `${path}.${name}`);
  }
}

function checkShape(shape: string, value: unknown, what: string): void {
  const schema: z.ZodType = SHAPES[shape as Shape];
  assert.ok(schema !== undefined, `docs/reference/json.md has no shape ${shape}`);
  const result = schema.safeParse(value);
  assert.ok(
    result.success,
    `${what} is no ${shape}: ${result.error && z.prettifyError(result.error)}`,
  );
  look(schema, value, shape);
}

/**
 * Of audit entries of what was refused (tests/rpc/auth), and of runs in repositories
 * (tests/provenance).
 */
const REFUSALS = [
  ...["AuditEntry.uid", "AuditEntry.message", "AuditEntry.skipped"],
  ...[
    "RunCode.records",
    "CodeOfAttempt.attempt",
    "CodeOfAttempt.at",
    "CodeOfAttempt.code",
    "CodeOfAttempt.environment",
  ],
  ...[
    "RunDifferences.packages",
    "RunDifferences.environment",
    "RunDifferences.patch",
    "RunDifferences.code",
    "RunDifferences.parameters",
    "Run.code_changed",
  ],
];

/** Cells of CSV text; quoted ones may hold anything. */
function csvRows(text: string): string[][] {
  const rows: string[][] = [[]];
  for (
    const [, quotedCell, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\n"]*))(,|\n)/g)
  ) {
    rows.at(-1)!.push(quotedCell?.replaceAll('""', '"') ?? plain!);
    if (end === "\n") rows.push([]);
  }
  return rows.slice(0, -1);
}

/** The columns that docs/reference/json.md promises, of a list or of the shape's fields. */
function columnsOf(promised: string, shape: string): string[] {
  const [list] = promised.split(";");
  if (!promised.startsWith("each field of the shape")) return quoted(list!);
  const without = quoted(promised);
  return Object.keys(SHAPES[shape as Shape].shape).filter((field) => !without.includes(field));
}

const WORKER = `
mkdir -p "$MOSAIC_RUN_DIR/checkpoints"
echo weights > "$MOSAIC_RUN_DIR/checkpoints/step-2.bin"
echo 'just talk'
echo '{"torn'
cat <<'LINES'
{"type":"step","step_index":0,"episode_index":0,"reward":1,"action":1,"observation":[0.5,1],"agent_id":"a","policy_label":"p","backend":"b","render_hint":{"x":1},"render_payload":{"grid":[[1]]},"frame_ref":"f.png","payload_version":2,"episode_seed":7,"loss":0.25}
{"type":"step","step_index":1,"episode_index":0,"reward":NaN,"terminated":true}
{"type":"step","step_index":2,"episode_index":1}
{"type":"episode","episode":0,"total_reward":1,"steps":2,"terminated":true,"agent_id":"a","success":true}
{"type":"episode","episode":1,"total_reward":Infinity,"steps":1,"truncated":true}
{"type":"metrics","payload":{"entropy":0.5,"kl":NaN,"step":2}}
{"type":"checkpoint_saved","payload":{"path":"checkpoints/step-2.bin","step":2}}
{"type":"note"}
LINES
`;

Deno.test("shapes: every command prints what docs/reference/json.md says, no field more and none less", async (t) => {
  using gpus = new FakeGpuTools("a100x4");
  const directory = await Deno.makeTempDir();
  const notify = `${directory}/notify.json`;
  const mail = { from: "mosaic@lab.example", to: "ann@lab.example" };
  const receivers = ["true", "false"].map((name) => ({
    name,
    mail: { ...mail, sendmail: `/bin/${name}` },
  }));
  Deno.writeTextFileSync(notify, JSON.stringify({ receivers }));
  await using daemon = await TestDaemon.start({
    gpus: "1",
    env: gpus.env,
    args: ["--notify", notify],
  });
  const mosaic = async (args: string[], codes = [0]): Promise<string> => {
    const { code, out, err } = await runVerb(daemon, args);
    assert.ok(codes.includes(code), `mosaic ${args.join(" ")} exited with ${code}: ${err}`);
    return out;
  };
  const tried = new Set<string>();
  /**
   * Runs a command in each format that the docs name for it, and holds what it prints against what
   * they say.
   */
  const holds = (
    command: string,
    args: string[],
    { only = ["json", "jsonl", "csv"], codes = [0] } = {},
  ) =>
    t.step([...command.split(" "), ...args].join(" ").replaceAll(directory, "DIR"), async () => {
      const promised = PROMISED.get(command);
      assert.ok(
        promised !== undefined,
        `docs/reference/json.md does not say what ${command} prints`,
      );
      const [verb, ...options] = command.split(" ");
      const print = (format: string) => mosaic([verb!, ...options, "-o", format, ...args], codes);
      for (const format of only) {
        const what: string | undefined = promised[format as keyof Printed][0];
        if (what === undefined) continue;
        tried.add(`${command} ${format}`);
        const text = await print(format);
        const name = `${command} -o ${format}`;
        if (format === "csv") {
          const [header, ...rows] = csvRows(text);
          assert.deepEqual(
            header,
            columnsOf(what, promised.jsonl[0] ?? promised.json[0]!.replace("[]", "")),
          );
          for (const row of rows) assert.equal(row.length, header!.length, text);
        } else if (format === "jsonl") {
          for (const line of text.trimEnd().split("\n")) {
            if (line !== "") checkShape(what, JSON.parse(line), name);
          }
        } else if (what.endsWith("[]")) {
          const list = JSON.parse(text);
          assert.ok(Array.isArray(list), name);
          for (const item of list) checkShape(what.slice(0, -2), item, name);
        } else checkShape(what, JSON.parse(text), name);
      }
    });

  try {
    const shell = (script: string) => ["/bin/sh", "-c", script];
    const scripted = (script: string) => ({
      script: "/bin/sh",
      arguments: ["-c", script, "sh", "--lr=0.001"],
      use_grpc: false,
    });
    const rich = await submit(
      daemon,
      configOf({
        name: "rich",
        command: [],
        schedule: { max_steps: 100 },
        metadata: {
          tags: ["sweep"],
          objective: "episode_reward:max",
          worker: { ...scripted(WORKER), worker_id: "w-1" },
        },
      }),
    );
    const ended = await untilState(daemon, rich, "TERMINATED");
    assert.equal(Number(ended.telemetry!.steps), 3);
    const fails =
      `echo '{"type":"step"}'; echo "ModuleNotFoundError: No module named 'torch'" >&2; exit 3`;
    const worker = { ...scripted(fails), config: { schema_id: "telemetry.step.default" } };
    const failed = await submit(
      daemon,
      configOf({ name: "failed", command: [], metadata: { worker } }),
    );
    await untilState(daemon, failed, "FAULTED");
    const killed = await submit(
      daemon,
      configOf({
        name: "killed",
        command: shell(`echo '{"step":1,"rollout/ep_rew_mean":2}'; kill -9 $$`),
      }),
    );
    await untilState(daemon, killed, "FAULTED");
    const talks = shell(
      `trap 'exit 0' TERM; echo '{"type":"step","reward":1}'; echo 'Epoch 1/4 - loss: 0.5'; while :; do sleep 0.1; done`,
    );
    const gpus = { requested: 1, mandatory: true };
    const live = await submit(daemon, configOf({ name: "live", command: talks, gpus }));
    await untilState(daemon, live, "EXECUTING");
    const queued = await submit(daemon, configOf({ name: "queued", command: talks, gpus }));
    await until(async () => (await getRun(daemon, queued)).waitingFor !== "", {
      what: "the queue's word",
    });

    // A worker that speaks gRPC itself says what it can.
    await daemon.client.unary(TrainerService.method.registerWorker, {
      ...{ runId: live, workerId: "w-2", workerKind: "trainer", protoVersion: "MOSAIC/1.0" },
      ...{ schemaId: "telemetry.step.default", schemaVersion: 1, supportsCheckpoint: true },
    });
    Deno.writeTextFileSync(`${directory}/named.csv`, "step,loss\n1,0.5\n");
    await holds("observe", [rich, `${directory}/named.csv`, `${directory}/none.csv`]);
    await holds("throttle", ["--hz", "100", live]);
    await holds("tag", [live, "noted"]);
    await holds("note", [live, "some words"]);
    await holds("rename", [live, "lives"]);
    for (const run of [rich, failed, killed, live, queued]) await holds("show", [run]);
    await holds("list", []);
    for (const run of [rich, failed]) {
      for (
        const command of [
          "steps",
          "episodes",
          "metrics",
          "metrics --points",
          "events",
          "events --worker",
        ]
      ) {
        await holds(command, [run]);
      }
    }
    await holds("watch", [rich]);
    await holds("plot", [rich, "entropy"]);
    await holds("plot", [rich]);
    Deno.writeTextFileSync(`${directory}/progress.csv`, "step,loss\n1,0.5\n2,nan\n");
    await holds("import", [directory]);
    await holds("compare", [rich, failed, live]);
    await holds("list --group-by name", []);
    await holds("show --code", [rich]);
    await holds("diff", [rich, failed]);
    await holds("compare --group-by name", [rich, failed, live]);
    await holds("plot --group-by name", [rich]);
    await holds("status", []);
    await holds("gpus", []);
    await holds("sweep", [
      "-n",
      "tried",
      "--metric",
      "score:max",
      "--stop",
      "asha:max=9,min=1",
      "--max-parallel",
      "1",
      "--grid",
      "x=1,2",
      "--seeds",
      "1",
      "--",
      "/bin/true",
      "{x}{seed}",
    ]);
    await holds("sweep list", []);
    await holds("sweep show", ["tried"]);
    await holds("usage", []);
    await holds("usage --by sweep", []);
    await holds("usage --by run", []);
    const weights = "rich:checkpoints/step-2.bin";
    await until(
      async () => (await runVerb(daemon, ["artifact", "name", weights, "weights:best"])).code === 0,
      {
        what: "the checkpoint's checksum",
      },
    );
    const reader = await submit(
      daemon,
      configOf({ name: "reader", command: ["/bin/true"], metadata: { uses: ["weights:best"] } }),
    );
    await untilState(daemon, reader, "TERMINATED");
    await holds("lineage", [reader]);
    await holds("lineage", [rich]);
    await holds("artifact", ["list"]);
    await holds("notify", ["test"], { codes: [1] });
    await holds("du", []);
    await holds("wait", [rich]);
    await holds("wait", [killed], { codes: [1] });
    await holds("pause", [live]);
    await until(async () => (await getRun(daemon, live)).state === "PAUSED", {
      what: "it to be held",
    });
    await holds("resume", [live]);
    await until(async () => (await getRun(daemon, live)).state === "EXECUTING", {
      what: "it to go on",
    });

    const config = `${directory}/config.json`;
    Deno.writeTextFileSync(config, configOf({ name: "given", command: shell("exit 0") }));
    await holds("validate", [config]);
    Deno.writeTextFileSync(`${directory}/wrong.json`, `{"run_name": 1}`);
    await holds("validate", [`${directory}/wrong.json`], { codes: [2] });
    await holds("submit", [config]);
    await holds("run", ["--", "/bin/true"]);
    await holds("rerun", [rich]);
    await t.step("submit --follow: the submission, and events", async () => {
      Deno.writeTextFileSync(config, configOf({ name: "followed", command: shell("exit 0") }));
      const [first, ...events] = (await mosaic(["submit", "-o", "json", "--follow", config]))
        .trimEnd().split("\n");
      checkShape("Submission", JSON.parse(first!), "its first line");
      assert.ok(events.length > 3);
      for (const event of events) checkShape("Event", JSON.parse(event), "a line of it");
    });
    await t.step("export: run.json and the columns of csv", async () => {
      await mosaic(["export", rich, "--format", "csv", "--out", `${directory}/out`]);
      checkShape(
        "RunDetail",
        JSON.parse(Deno.readTextFileSync(`${directory}/out/run.json`)),
        "run.json",
      );
      for (const kind of TELEMETRY_KINDS) {
        const [header] = csvRows(Deno.readTextFileSync(`${directory}/out/${kind}.csv`));
        assert.deepEqual(header, fieldNames(kind));
      }
    });
    await t.step("csv: a number that JSON cannot write is there by its name", async () => {
      const rows = csvRows(await mosaic(["steps", rich, "-o", "csv"]));
      const at = rows[0]!.indexOf("reward");
      assert.deepEqual(rows.slice(1).map((row) => row[at]), ["1", "NaN", "0"]);
    });

    await holds("permissions", ["daemon"]);
    const at = ["--state-dir", daemon.stateDir];
    await holds("token create", ["--name", "ci", "--role", "submit", "--ttl", "1d", ...at]);
    await holds("token", ["list", ...at]);
    Deno.env.set("XDG_CONFIG_HOME", directory);
    Deno.mkdirSync(`${directory}/mosaic`);
    Deno.writeTextFileSync(
      `${directory}/mosaic/hosts.json`,
      '[{"name":"gpu1","ssh":"gpu1","mosaic":"/bin/mosaic"}]',
    );
    await holds("host", ["list"]);
    await holds("audit", at);
    await holds("doctor", ["--state-dir", daemon.stateDir], { codes: [0, 1] });
    await holds("backup", [...at, `${directory}/backup`]);
    await t.step("doctor --repair", async () => {
      const broken = `${directory}/broken`;
      Deno.mkdirSync(`${broken}/trainer`, { recursive: true });
      Deno.writeTextFileSync(`${broken}/trainer/daemon.json`, "{}");
      for (const more of [[], ["--repair"]]) {
        const text = await mosaic(["doctor", "-o", "json", "--state-dir", broken, ...more], [0, 1]);
        checkShape("Examination", JSON.parse(text), `doctor ${more}`);
      }
    });

    await holds("cancel", ["--grace", "60", live], { only: ["json"] });
    await holds("cancel", [live], { only: ["jsonl"] });
    await untilState(daemon, live, "CANCELLED");
    await holds("cancel", [queued]);
    await untilState(daemon, queued, "CANCELLED");
    await holds("retry", [failed], { only: ["json"] });
    await untilState(daemon, failed, "FAULTED");
    await holds("retry", [failed], { only: ["jsonl"] });
    await untilState(daemon, failed, "FAULTED");
    await holds("reset", ["--from", "checkpoints/1.pt", rich], { only: ["json"] });
    await untilState(daemon, rich, "TERMINATED");
    await holds("reset", [rich], { only: ["jsonl"] });
    await untilState(daemon, rich, "TERMINATED");
    for (const limit of [["--keep-last", "0"], ["--older-than", "0s"], ["--max-size", "1"]]) {
      await holds("prune", ["--dry-run", ...limit]);
    }
    await holds("edit", [rich, "-t", "good"]);
    await holds("delete", [rich], { only: ["json"] });
    await holds("restore", [rich], { only: ["json"] });
    await holds("delete", [failed], { only: ["jsonl"] });
    await holds("list", ["--trash"]);
    await holds("du", []);
    await holds("restore", [failed], { only: ["jsonl"] });
    await holds("prune", ["--keep-last", "0"]);

    await t.step("every command was tried in every format", () => {
      const all = [...PROMISED].flatMap(([command, formats]) =>
        Object.entries(formats).filter(([, what]) => what.length > 0).map(([format]) =>
          `${command} ${format}`
        )
      );
      assert.deepEqual(all.filter((one) => !tried.has(one)), []);
    });
    await t.step("every field was seen with a value", () => {
      const missing = Object.keys(SHAPES).flatMap((shape) =>
        rowsBelow(`### ${shape}`).flatMap(([names]) => quoted(names!)).map((field) =>
          `${shape}.${field}`
        )
      ).filter((field) => !seen.has(field));
      // What a host enforces depends on its cgroups; it has a test of its own (tests/os). The next
      // two are in tests/runs/fields. So have placements (tests/system/slurm) and the attempts of a
      // series (tests/telemetry/rewinds_test.ts).
      const elsewhere = (field: string) =>
        [
          "RunDetail.enforced_limits",
          // Measured every minute: tests/registry/gpus_test.ts.
          "UserGpuUse.idle_share",
          "SweepGpuUse.idle_share",
          // tests/daemon/disk_quota_test.ts
          "UserGpuUse.disk_limit_bytes",
          "RunGpuUse.idle_share",
          // tests/readers/files/deleted_artifacts_test.ts
          "Artifact.deleted_at",
          // tests/daemon/gpu_sharing_test.ts
          ...["Run.gpu_share", "Run.gpu_memory_mb", "Run.gpu_peak_mb"],
          ...[
            "Gpu.shares",
            "Gpu.shares[].run_id",
            "Gpu.shares[].part",
            "Gpu.shares[].memory_mb",
            "Gpu.shares[].used_mb",
          ],
          // tests/sweeps
          "Sweep.waiting_for",
          "Series.copy_of",
          // tests/system/hosts
          "KnownHost.version",
          "Run.parent",
          "Run.damaged",
          "Run.not_before",
          "Run.values",
          "RunDetail.values",
          "Bucket.attempt",
          "Backup.left_out",
          ...REFUSALS,
        ]
          .includes(field) ||
        field.startsWith("Run.placement") || field.startsWith("RunDetail.ranks");
      assert.deepEqual(missing.filter((field) => !elsewhere(field)), []);
    });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
