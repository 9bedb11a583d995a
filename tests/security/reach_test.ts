/**
 * Everything that the token of a run's worker and a submit token reach, over the real listeners:
 * each pair of a credential and a method or route is tried, and what is not in the table below is
 * refused.
 */
import assert from "node:assert/strict";
import type { DescMethod } from "@bufbuild/protobuf";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Ingest } from "../../src/gen/mosaic/v1/ingest_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import type { Core } from "../../src/dispatch/core/core.ts";
import { createLogger } from "../../src/base/log.ts";
import { type ApiOptions, pageApi } from "../../src/ui/api/api.ts";
import { methodPath } from "../../src/wire/method_path.ts";
import { createToken } from "../../src/wire/tokens.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { submit, untilState } from "../harness/runs.ts";

/** Calls for the worker's own run; the same for another run are refused. */
const WORKER = [
  "Heartbeat",
  "RegisterWorker",
  "ControlStream",
  "PublishRunSteps",
  "PublishRunEpisodes",
];
/**
 * What reads; SubmitRun, CreateSweep. RecordCode only of a run that the token has submitted
 * (named_tokens_test.ts).
 */
const SUBMIT = [
  ...["SubmitRun", "ListRuns", "WatchRuns", "GetHealth", "StreamRunSteps", "StreamRunEpisodes"],
  ...[
    "GetRun",
    "ListRuns",
    "ValidateConfig",
    "StreamTelemetry",
    "StreamEvents",
    "StreamLogs",
    "ListSeries",
    "ListColumns",
  ],
  ...["GetSeries", "ListArtifacts", "GetHost", "GetGpuUse", "GetDiskUsage", "GetCode"],
  ...["GetLineage", "GetNamedArtifact", "ListNamedArtifacts"],
  ...["CreateSweep", "ListSweeps", "GetSweep"],
];
/** Routes of the page that are POST and change nothing. */
const READING_POSTS = [
  "/api/series",
  "/api/series/names",
  "/api/compared",
  "/api/compared/first",
  "/api/report",
];
/** Pages; what probes read needs no credential at all. */
const PAGES = ["/", "/compare", "/wall", "/sweeps", "/metrics"];
const OPEN = ["/healthz", "/readyz"];
const MLFLOW = [
  "runs/create",
  "runs/search",
  "runs/log-metric",
  "runs/log-batch",
  "experiments/search",
  "metrics/get-history",
];

Deno.test("reach: every method and route, with the token of a worker, a submit token, a wrong one and none", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  const command = ["/bin/sleep", "600"];
  const own = await submit(daemon, configOf({ name: "own", command }));
  const other = await submit(daemon, configOf({ name: "other", command }));
  for (const run of [own, other]) await untilState(daemon, run, "READY");
  const file = `${daemon.layout.runDir("custom_scripts", own)}/.mosaic/session-token`;
  const tokens = {
    worker: Deno.readTextFileSync(file).trim(),
    submit: createToken(daemon.layout.tokensFile, { name: "ci", role: "submit" }),
    wrong: "mosaic_submit_of_another_daemon",
    none: undefined,
  };
  type Holder = keyof typeof tokens;
  const holders = Object.keys(tokens) as Holder[];
  let pairs = 0;

  const send = async (
    holder: Holder,
    path: string,
    init: { method?: string; type?: string; body?: BodyInit },
  ) => {
    const headers = new Headers({
      "connect-protocol-version": "1",
      "content-type": init.type ?? "application/json",
    });
    if (tokens[holder] !== undefined) headers.set("authorization", `Bearer ${tokens[holder]}`);
    pairs++;
    const enough = new AbortController();
    const answer = await fetch(`http://${daemon.http}${path}`, {
      method: init.method ?? "POST",
      headers,
      ...(init.body === undefined ? {} : { body: init.body }),
      redirect: "manual",
      signal: enough.signal,
    });
    // Of a live stream, only its beginning.
    const text = init.type === undefined && init.method === "GET" ? "" : await beginning(answer);
    enough.abort();
    return { status: answer.status, text };
  };
  const refused = ({ status, text }: { status: number; text: string }) =>
    // The page answers 429 to many wrong tokens.
    [401, 403, 429].includes(status) || /"code": ?"(unauthenticated|permission_denied)"/.test(text);

  const call = async (holder: Holder, method: DescMethod, run: string) => {
    const message = JSON.stringify({ runId: run, run, hello: { runId: run } });
    if (method.methodKind === "unary") {
      return await send(holder, methodPath(method), { body: message });
    }
    const bytes = new TextEncoder().encode(message);
    const framed = new Uint8Array(5 + bytes.length);
    new DataView(framed.buffer).setUint32(1, bytes.length);
    framed.set(bytes, 5);
    return await send(holder, methodPath(method), {
      type: "application/connect+json",
      body: framed,
    });
  };
  for (const { methods } of [TrainerService, Mosaic, Ingest]) {
    for (const method of methods) {
      for (const holder of holders) {
        for (const run of [own, other]) {
          const may = holder === "worker"
            ? WORKER.includes(method.name) && run === own
            : holder === "submit" && SUBMIT.includes(method.name);
          const answer = await call(holder, method, run);
          assert.equal(
            !refused(answer),
            may,
            `${holder} ${method.name} ${answer.status} ${answer.text.slice(0, 300)}`,
          );
        }
      }
    }
  }

  const options: Partial<ApiOptions> = {
    log: createLogger({ level: "error" }),
    token: "",
    tickMs: 1,
    logLines: 1,
  };
  const routes = pageApi({} as Core, options as ApiOptions).routes.filter(({ method }) =>
    method !== "ALL"
  );
  const filled = (path: string) =>
    `/api${path}`.replace(":id", other).replace(/:seq\{[^}]*\}/, "1").replace(/:path\{[^}]*\}/, "a")
      .replace(
        ":kind",
        "steps",
      )
      .replace(":stream", "stdout").replace(":action", "cancel").replace(/(.)\/$/, "$1");
  const pages = [
    ...routes.map(({ method, path }) => ({ method, path: filled(path) })),
    ...[...PAGES, ...OPEN].map((path) => ({ method: "GET", path })),
  ];
  assert.ok(pages.length > 35, `${pages.length} routes`);
  for (const { method, path } of pages) {
    for (const holder of holders) {
      const may = OPEN.includes(path) || (holder === "submit" && method === "GET");
      // Without the page's own token, which only its script has, no POST at all.
      const answer = await send(holder, path, {
        method,
        ...(method === "GET" ? {} : { body: "{}" }),
      });
      assert.equal(!refused(answer), may, `${holder} ${method} ${path} ${answer.status}`);
    }
  }
  // With it, a submit token may make those that read, and changes nothing.
  const session = await fetch(`http://${daemon.http}/api/session`, {
    headers: { authorization: `Bearer ${tokens.submit}` },
  });
  const { token } = await session.json();
  for (const { method, path } of pages.filter(({ method }) => method === "POST")) {
    for (const holder of ["submit", "worker"] as const) {
      pairs++;
      const answer = await fetch(`http://${daemon.http}${path}`, {
        method,
        headers: { authorization: `Bearer ${tokens[holder]}`, "x-mosaic-token": token },
        body: "{}",
      });
      const may = holder === "submit" && READING_POSTS.includes(path);
      assert.equal(
        !refused({ status: answer.status, text: await answer.text() }),
        may,
        `${holder} ${path} ${answer.status}`,
      );
    }
  }

  for (const name of MLFLOW) {
    for (const run of [own, other]) {
      for (const holder of holders) {
        const answer = await send(holder, `/mlflow/${run}/api/2.0/mlflow/${name}`, { body: "{}" });
        assert.equal(
          !refused(answer),
          holder === "worker" && run === own,
          `${holder} ${name} ${answer.status}`,
        );
      }
    }
  }
  assert.ok(pairs > 464, `${pairs} pairs`);
  // The worker's points have come.
  assert.equal((await untilState(daemon, own, "EXECUTING")).cancelRequested, false);
  assert.equal((await untilState(daemon, other, "READY")).cancelRequested, false);
});

/** What comes within a moment: some streams have nothing to say until something happens. */
async function beginning({ body }: Response): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  let text = "";
  for (;;) {
    const next = reader.read().then(({ value }) => value, () => undefined);
    const chunk = await Promise.race([
      next,
      new Promise<undefined>((resolve) => setTimeout(resolve, 150)),
    ]);
    if (chunk === undefined) return text;
    text += new TextDecoder().decode(chunk);
  }
}
