/**
 * Lineage of a real daemon's runs: what they read, by run or by the content's name, declared or
 * said by the program.
 */
import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import type { LineageJson } from "../../../src/registry/artifacts/lineage_json.ts";
import { createHash } from "node:crypto";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { runVerb } from "../../cli/verb.ts";

const sha = (text: string) => createHash("sha256").update(text).digest("hex");

/** A run that writes `text` to checkpoints/best.txt, and ends. */
async function written(
  daemon: TestDaemon,
  name: string,
  text: string,
  metadata = {},
): Promise<string> {
  const script =
    'mkdir -p "$MOSAIC_CHECKPOINT_DIR"; printf %s "$0" > "$MOSAIC_CHECKPOINT_DIR/best.txt"';
  const run = await submit(
    daemon,
    configOf({ name, command: ["/bin/sh", "-c", script, text], metadata }),
  );
  await untilState(daemon, run, "TERMINATED");
  await until(async () => {
    const { artifacts } = await daemon.client.unary(Mosaic.method.listArtifacts, { run });
    return artifacts.some(({ path, sha256 }) =>
      path === "checkpoints/best.txt" && sha256 === sha(text)
    );
  }, { what: `the checksum of ${name}'s checkpoint` });
  return run;
}

Deno.test("lineage: declared and said uses, names by content, what is deleted or changed since", async () => {
  await using daemon = await TestDaemon.start();
  const mosaic = async (...args: string[]) => {
    const { code, out, err } = await runVerb(daemon, args);
    assert.equal(code, 0, `mosaic ${args.join(" ")}: ${err}`);
    return out;
  };
  const lineage = async (run: string): Promise<LineageJson> =>
    JSON.parse(await mosaic("lineage", run, "-o", "json"));
  const first = await written(daemon, "first", "one");
  const again = await written(daemon, "again", "one");
  const second = await written(daemon, "second", "two");

  await mosaic("artifact", "name", "first:checkpoints/best.txt", "policy:best");
  await mosaic("artifact", "name", "second:checkpoints/best.txt", "policy:newer");
  // The same content is the same version, whichever run wrote it.
  await mosaic("artifact", "name", "again:checkpoints/best.txt", "policy:stable");
  const versions = JSON.parse(await mosaic("artifact", "list", "policy", "-o", "json"));
  assert.deepEqual(
    versions.map((v: Record<string, unknown>) => [v.version, v.aliases, v.run_name, v.sha256]),
    [
      [2, ["newer"], "second", sha("two")],
      [1, ["best", "stable"], "first", sha("one")],
    ],
  );
  const file = `${daemon.layout.runDir("custom_scripts", first)}/checkpoints/best.txt`;
  for (const name of ["policy:best", "policy:v1", "first:checkpoints/best.txt"]) {
    assert.equal(await mosaic("artifact", "path", name), `${file}\n`);
  }
  assert.match(
    await mosaic("artifact", "path", "policy"),
    new RegExp(`${second}/checkpoints/best.txt`),
  );

  // Declared; and its program finds the file in its environment.
  const eager = await written(daemon, "eager", "three", {
    uses: ["policy:best", "second:checkpoints"],
  });
  const { configJson } = await daemon.client.unary(Mosaic.method.getRun, { run: eager });
  assert.equal(JSON.parse(configJson).metadata.uses[0].file, file);
  // Said by the program: of a run, and of nothing that there is.
  const script = `for artifact in eager:checkpoints/best.txt none:best; do
    printf '{"event":"use_artifact","payload":{"artifact":"%s"}}\\n' "$artifact"; done; printf '%s' "$MOSAIC_USES" >&2`;
  const metadata = { uses: ["policy:newer"] };
  const late = await submit(
    daemon,
    configOf({ name: "late", command: ["/bin/sh", "-c", script], metadata }),
  );
  await untilState(daemon, late, "TERMINATED");
  await until(
    async () => (await lineage(late)).uses.filter(({ run_id }) => run_id === late).length === 3,
    {
      what: "both records of the program",
    },
  );
  const { out: uses } = await runVerb(daemon, ["logs", late, "--stderr"]);
  assert.deepEqual(JSON.parse(uses), [{
    artifact: "policy:newer",
    file: `${daemon.layout.runDir("custom_scripts", second)}/checkpoints/best.txt`,
  }]);

  const of = await lineage(late);
  const edges = of.uses.map((
    use,
  ) => [use.run_name, use.source_run_name, use.path, use.artifact, use.changed]);
  assert.deepEqual(
    new Set(edges.map((edge) => edge.join(" "))),
    new Set([
      "late  none:best none:best false",
      "late second checkpoints/best.txt policy:newer false",
      "late eager checkpoints/best.txt eager:checkpoints/best.txt false",
      "eager first checkpoints/best.txt policy:best false",
      "eager second checkpoints second:checkpoints false",
    ]),
  );
  assert.equal(
    of.uses.find(({ path }) => path === "checkpoints")!.sha256,
    sha(`${sha("two")}  best.txt\n`),
  );
  const back = await lineage(first);
  assert.deepEqual(back.used_by.map(({ run_name }) => run_name), ["eager", "late"]);
  assert.deepEqual(back.names.map(({ name, version }) => `${name}:v${version}`), ["policy:v1"]);
  const tree = await mosaic("lineage", "late");
  assert.ok(tree.includes("\n  none:best: not found\n"), tree);
  assert.match(tree, /\n {2}eager {2}checkpoints\/best.txt {2}[0-9a-f]{12}\n {4}first {2}/);

  // A name stands for a content: another run still has it, until that one is deleted, too.
  await mosaic("delete", "--forever", "first", "-y");
  assert.match(
    await mosaic("artifact", "path", "policy:best"),
    new RegExp(`${again}/checkpoints/best.txt`),
  );
  await mosaic("delete", "--forever", "again", "-y");
  const gone = await runVerb(daemon, ["artifact", "path", "policy:best"]);
  assert.deepEqual([gone.code, /no run has the content of policy:v1 any more/.test(gone.err)], [
    6,
    true,
  ], gone.err);
  const deleted = (await lineage(eager)).uses.find(({ artifact }) => artifact === "policy:best")!;
  assert.deepEqual([deleted.source_deleted, deleted.source_run_name, deleted.sha256], [
    true,
    "first",
    sha("one"),
  ]);

  const retry = await runVerb(
    daemon,
    ["submit", "-"],
    configOf({ command: ["/bin/true"], metadata: { uses: ["polcy:best"] } }),
  );
  assert.deepEqual([retry.code, /metadata\.uses\[0\]: there is no run "polcy"/.test(retry.err)], [
    4,
    true,
  ], retry.err);
  const alias = await runVerb(daemon, ["artifact", "path", "policy:bset"]);
  assert.deepEqual([alias.code, /no version "bset"\. Did you mean "?best/.test(alias.err)], [
    4,
    true,
  ], alias.err);
});

Deno.test("lineage: a run that moves to another host keeps what it has read", async () => {
  const directory = Deno.makeTempDirSync();
  try {
    await using here = await TestDaemon.start();
    const source = await written(here, "source", "weights");
    const reader = await written(here, "reader", "better", {
      uses: ["source:checkpoints/best.txt"],
    });
    const exported = `${directory}/reader.mosaic`;
    const out = await runVerb(here, ["export", reader, "--format", "mosaic", "--out", exported]);
    assert.equal(out.code, 0, out.err);
    await using there = await TestDaemon.start();
    const imported = await runVerb(there, ["import", exported, "--state-dir", there.stateDir]);
    assert.equal(imported.code, 0, imported.err);
    const { uses } = await there.client.unary(Mosaic.method.getLineage, { run: reader });
    assert.deepEqual(
      uses.map((use) => [use.sourceRunId, use.sourceRunName, use.sha256, use.sourceDeleted]),
      [
        [source, "source", sha("weights"), true],
      ],
    );
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("lineage: names of what a run has written move with it, and take none that is taken", async () => {
  await using here = await TestDaemon.start();
  await using there = await TestDaemon.start();
  const directory = Deno.makeTempDirSync();
  const mosaic = async (daemon: TestDaemon, ...args: string[]) => {
    const { code, out, err } = await runVerb(daemon, args);
    assert.equal(code, 0, `mosaic ${args.join(" ")}: ${err}`);
    return out;
  };
  try {
    const moved = await written(here, "moved", "weights");
    await mosaic(
      here,
      "artifact",
      "name",
      "moved:checkpoints/best.txt",
      "policy:best,fast",
    );
    await written(there, "local", "others");
    await mosaic(there, "artifact", "name", "local:checkpoints/best.txt", "policy:best");
    const exported = `${directory}/moved.mosaic`;
    await mosaic(here, "export", moved, "--format", "mosaic", "--out", exported);
    await mosaic(there, "import", exported, "--state-dir", there.stateDir);
    const versions = JSON.parse(await mosaic(there, "artifact", "list", "policy", "-o", "json"));
    assert.deepEqual(
      versions.map((v: Record<string, unknown>) => [v.version, v.aliases, v.run_name, v.sha256]),
      [
        [2, ["fast"], "moved", sha("weights")],
        [1, ["best"], "local", sha("others")],
      ],
    );
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
