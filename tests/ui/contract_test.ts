/**
 * The answers of the page's API against src/registry/contract.ts, strictly: a field too many fails
 * as one too few.
 */
import assert from "node:assert/strict";
import { z } from "zod";
import * as contract from "../../src/registry/contract.ts";
import { createApp } from "../../src/ui/app.ts";
import { PlayedEngine } from "../harness/played_engine.ts";

const BASE = "http://127.0.0.1:8055";

const CODE = {
  codeJson: JSON.stringify({
    cwd: "/r",
    git: {
      ...{
        root: "/r",
        commit: "c".repeat(40),
        branch: "main",
        remote: null,
        masked: ["a.py"],
        diff_sha256: "d".repeat(64),
      },
      files: [{ path: "a.py", change: "modified", sha256: "a".repeat(64) }],
      left_out: [{ path: "b.bin", why: "not a text file" }],
    },
    words: [],
    problems: [],
  }),
  environmentJson: JSON.stringify({
    ...{
      host: "h",
      kernel: "6",
      driver: null,
      cuda: null,
      interpreter: { path: "/usr/bin/python3", version: "3.11" },
    },
    ...{ packages: [["numpy", "1.26.4"]], sources: {} },
  }),
  diff: new TextEncoder().encode("diff --git a/a.py b/a.py\n"),
};

Deno.test("page API: every answer about runs, records, series, events and the host has the contract's fields", async (t) => {
  await using core = new PlayedEngine();
  const app = createApp(core, { log: core.log, bound: "127.0.0.1", tickMs: 20 });
  const { runId } = core.addExecuting("one", { tags: ["a"] });
  core.addEpisode(runId, 40, (step) => step % 10 === 0 ? '{"rgb":[[[1,2,3]]]}' : "");
  core.add("waits");

  const holds = (
    path: string,
    schema: z.ZodType,
    filled: (value: never) => boolean = () => true,
    init: RequestInit = {},
  ) =>
    t.step(path, async () => {
      const answer = await (await app.fetch(new Request(`${BASE}/api/${path}`, init))).json();
      const { success, error } = schema.safeParse(answer);
      assert.ok(success, `${path}: ${error && z.prettifyError(error)}`);
      assert.ok(filled(answer as never), `${path} says nothing`);
    });
  try {
    const listed = {
      runs: z.array(contract.Run),
      total: z.int(),
      next_token: z.string().nullable(),
      head: z.int(),
    };
    await holds(
      "runs",
      z.strictObject(listed),
      ({ runs }: { runs: unknown[] }) => runs.length === 2,
    );
    await holds(`runs?ids=${runId}`, z.strictObject({ runs: z.array(contract.Run).length(1) }));
    await holds(`runs/${runId}`, contract.PageRunDetail.extend({ head: z.int() }));
    await core.recordCode({ runId, attempt: 0, ...CODE });
    await holds(
      `runs/${runId}/code`,
      contract.PageCode,
      ({ facts, files, packages, patch }: z.infer<typeof contract.PageCode>) =>
        facts.some(({ name, text }) => name === "commit" && text === "c".repeat(40)) &&
        files.length === 1 &&
        packages[0] === "numpy 1.26.4" && patch.startsWith("diff"),
    );
    await holds(`runs/${runId}/lineage`, contract.Lineage);
    const heads = contract.PageHeads;
    await holds(
      `runs/${runId}/steps`,
      z.strictObject({ steps: z.array(contract.Step).length(40), heads }),
    );
    await holds(
      `runs/${runId}/episodes`,
      z.strictObject({ episodes: z.array(contract.Episode).length(1), heads }),
    );
    await holds(`runs/${runId}/steps/11`, contract.Step);
    await holds(
      `runs/${runId}/series`,
      z.strictObject({ series: z.array(contract.Series).min(3) }),
    );
    await holds(
      `runs/${runId}/series?name=reward&buckets=4`,
      z.strictObject({ series: z.array(contract.PageSeries).length(1) }),
    );
    await holds(
      `runs/${runId}/frames`,
      z.strictObject({
        frames: z.array(contract.PageFrame).length(4),
        next: z.int(),
        head: z.int(),
      }),
    );
    await holds(
      "events",
      z.strictObject({ events: z.array(contract.Event).min(2), head: z.int() }),
    );
    await holds(
      "columns",
      contract.PageColumnNames,
      ({ metrics }: { metrics: string[] }) => metrics.includes("reward"),
    );
    await holds(
      "columns?id=param.lr&id=metric.reward:max",
      z.strictObject({ columns: z.array(contract.PageColumn).length(2) }),
      ({ columns }: { columns: { values: object }[] }) =>
        Object.keys(columns[1]!.values).length > 0,
    );
    await holds("host", contract.Host);
    const asked = {
      method: "POST",
      headers: { "x-mosaic-token": app.token },
      body: JSON.stringify({ runs: [runId] }),
    };
    await holds(
      "series/names",
      contract.PageSeriesNames,
      ({ names }: { names: string[] }) => names.length > 0,
      asked,
    );
    const compared = z.strictObject({ runs: z.array(contract.PageComparedRun).length(1) });
    await holds("compared", compared, undefined, asked);
  } finally {
    app.stop();
  }
});

Deno.test("contract: the program takes types from it alone, so that no verb loads a library for it", async () => {
  const src = new URL("../../src/", import.meta.url);
  const files: string[] = [];
  const find = (below: string) => {
    for (const { name, isDirectory } of Deno.readDirSync(new URL(below, src))) {
      if (isDirectory) find(`${below}${name}/`);
      else if (name.endsWith(".ts")) files.push(below + name);
    }
  };
  find("");
  const importing: string[] = [];
  for (const file of files) {
    const text = await Deno.readTextFile(new URL(file, src));
    for (
      const [statement] of text.matchAll(
        /^import [^;]*"[./]+contract\.ts";|^import [^;]*registry\/contract\.ts";/gm,
      )
    ) {
      importing.push(`${file}: ${statement}`);
    }
  }
  assert.ok(importing.length > 5, "the imports are found");
  assert.deepEqual(importing.filter((line) => !line.includes(": import type ")), []);
});
