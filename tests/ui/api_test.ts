import assert from "node:assert/strict";
import type { RunJson } from "../../src/runs/fields/run_types.ts";
import { JOURNAL_HEADER } from "../../src/journal/journal_header.ts";
import { type AppOptions, createApp, type PageApp } from "../../src/ui/app.ts";
import { EMPTY_WORKER_EVENT } from "../../src/gen/records/record_types.ts";
import { decodeSeries } from "../../src/ui/api/series_frame.ts";
import { sizedMessages } from "../../src/ui/http/sized_messages.ts";
import { configOf } from "../harness/configs.ts";
import { PlayedEngine } from "../harness/played_engine.ts";
import { until } from "../harness/wait.ts";
import { events, type Received } from "./received.ts";

const BASE = "http://127.0.0.1:8055";

/** Runs `body` with a core of its own and the application on top; nothing listens. */
function withApp(
  body: (
    page: { core: PlayedEngine; app: PageApp; get: (path: string) => Promise<Response> },
  ) => Promise<void>,
  options: Partial<AppOptions> = {},
): () => Promise<void> {
  return async () => {
    await using core = new PlayedEngine();
    const app = createApp(core, { log: core.log, bound: "127.0.0.1", tickMs: 20, ...options });
    try {
      await body({ core, app, get: async (path) => await app.fetch(new Request(BASE + path)) });
    } finally {
      app.stop();
    }
  };
}

function metric(data: Record<string, number>) {
  return {
    ...EMPTY_WORKER_EVENT,
    kind: "metrics",
    tsNs: "1",
    dataJson: `{${Object.entries(data).map(([name, v]) => `"${name}":${v}`)}}`,
  };
}

async function tokenOf(app: PageApp): Promise<string> {
  return (await (await app.fetch(new Request(`${BASE}/api/session`))).json()).token;
}

function change(
  path: string,
  token: string,
  body: unknown = {},
  headers: Record<string, string> = {},
): Request {
  return new Request(BASE + path, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-mosaic-token": token,
      origin: BASE,
      ...headers,
    },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

Deno.test(
  "where MLflow's client tells people to look is the run's page",
  withApp(async ({ get }) => {
    const answer = await get("/mlflow/01M8490ZRHB1ED24Z7PCGF1ESD/");
    assert.deepEqual(
      [answer.status, answer.headers.get("location")],
      [302, "/runs/01M8490ZRHB1ED24Z7PCGF1ESD#overview"],
    );
  }),
);

Deno.test(
  "API: runs are listed with filters, order and pages",
  withApp(async ({ core, get }) => {
    for (let i = 0; i < 25; i++) {
      const { runId } = core.addExecuting(`sweep-${i}`, { tags: [i % 2 ? "odd" : "even"] });
      core.addEpisode(runId, i + 1);
    }
    core.add("waits");
    const all = await (await get("/api/runs?limit=10")).json();
    assert.equal(all.total, 26);
    assert.equal(all.runs.length, 10);
    const next = await (await get(`/api/runs?limit=1000&token=${all.next_token}`)).json();
    assert.equal(next.runs.length, 16);
    const odd = await (await get("/api/runs?tag=odd&state=executing&limit=100")).json();
    assert.equal(odd.total, 12);
    const longest = await (await get("/api/runs?sort=-steps&limit=1")).json();
    const others = await (await get(`/api/runs?sort=-steps&limit=3&token=${longest.next_token}`))
      .json();
    assert.deepEqual(others.runs.map((r: { name: string }) => r.name), [
      "sweep-23",
      "sweep-22",
      "sweep-21",
    ]);
    // A column that only a whole run has, in the words of the command line.
    const waiting = await (await get(
      `/api/runs?where=${
        encodeURIComponent("directory like '%/trainer/runs/%' and rate=0 and state=INIT")
      }`,
    ))
      .json();
    assert.deepEqual(waiting.runs.map((r: { name: string }) => r.name), ["waits"]);
    // An order is over all runs, however old.
    core.addMany("later-", 600);
    const shortest = await (await get("/api/runs?where=steps>0&sort=steps&limit=2")).json();
    assert.deepEqual(shortest.runs.map((r: { name: string }) => r.name), ["sweep-0", "sweep-1"]);
    assert.equal((await get("/api/runs?state=flying")).status, 400);
    assert.equal((await get("/api/runs?sort=colour")).status, 400);
    assert.equal((await get("/api/runs?limit=x")).status, 400);
  }),
);

Deno.test(
  "API: a run with its records, series and frames",
  withApp(async ({ core, get }) => {
    const { runId } = core.addExecuting("one");
    core.addEpisode(runId, 40, (step) => step % 10 === 0 ? '{"rgb":[[[1,2,3]]]}' : "");
    core.addEpisode(runId, 60);
    const run = await (await get(`/api/runs/${runId}`)).json();
    assert.equal(run.state, "EXECUTING");
    assert.deepEqual(run.transitions.map((t: { to: string }) => t.to), [
      "INIT",
      "HANDSHAKE",
      "READY",
      "EXECUTING",
    ]);
    assert.deepEqual(run.heads, { steps: 100, episodes: 2, events: 0, metrics: 0 });
    const { steps } = await (await get(`/api/runs/${runId}/steps?since=30&limit=5`)).json();
    assert.deepEqual(steps.map((s: { seq: number }) => s.seq), [31, 32, 33, 34, 35]);
    assert.equal(steps[0].episode_index, 0);
    assert.equal("render_payload" in steps[0], false);
    assert.deepEqual((await (await get(`/api/runs/${runId}/steps/31`)).json()).render_payload, {
      rgb: [[[1, 2, 3]]],
    });
    assert.equal((await get(`/api/runs/${runId}/steps/101`)).status, 404);
    const { frames, next } = await (await get(`/api/runs/${runId}/frames?since=5&limit=2`)).json();
    assert.deepEqual(frames.map((f: { seq: number }) => f.seq), [11, 21]);
    assert.equal(next, 21);

    // Some workers render only how an episode ended: the frame is in the episode's metadata.
    core.addEpisode(
      runId,
      7,
      undefined,
      Date.now(),
      '{"lives":2,"render_payload":{"rgb":[[[4,5,6]]]}}',
    );
    const ofEpisodes = await (await get(`/api/runs/${runId}/frames?kind=episodes`)).json();
    assert.deepEqual(ofEpisodes, {
      frames: [{
        seq: 3,
        episode: 2,
        step: 7,
        reward: 7,
        action: null,
        payload: { rgb: [[[4, 5, 6]]] },
      }],
      ...{ next: 3, head: 3 },
    });
    assert.equal((await get(`/api/runs/${runId}/frames?kind=metrics`)).status, 400);
    const { episodes } = await (await get(`/api/runs/${runId}/episodes?since=2`)).json();
    assert.deepEqual(episodes[0].metadata, { lives: 2 }, "lists are without pictures");
    const whole = await (await get(`/api/runs/${runId}/episodes/3`)).json();
    assert.deepEqual(whole.metadata.render_payload, { rgb: [[[4, 5, 6]]] });
    const { series } =
      await (await get(`/api/runs/${runId}/series?name=episode_reward&name=reward&buckets=4`))
        .json();
    assert.deepEqual(series[0].mean, [40, 60, 7]);
    const missing = await (await get(`/api/runs/${runId}/series?name=loss`)).json();
    assert.deepEqual(missing.series[0].mean, []);
    assert.equal(series[1].last_x.length, 4);
    assert.equal((await (await get("/api/runs/one")).json()).run_id, runId);
    assert.equal((await get("/api/runs/nobody")).status, 404);
    assert.equal((await get(`/api/runs/${runId}/colours`)).status, 404);
  }),
);

Deno.test(
  "API: the log of an earlier attempt, read, searched and read backwards",
  withApp(async ({ core, get }) => {
    const { runId } = core.addExecuting("twice");
    const path = core.logFile(core.registry.require(runId), "stdout");
    await Deno.writeTextFile(path, "first\nunfinished");
    core.cancel(runId);
    core.retry(runId);
    await Deno.writeTextFile(path.replace(/\.stdout\.log$/, ".2.stdout.log"), "second\n");
    const at = (query: string) => get(`/api/runs/${runId}/logs/stdout?${query}`);
    const texts = (query: string) =>
      at(query).then((r) => r.json()).then(({ text, attempt }) => [text, attempt]);
    assert.deepEqual(await texts("from=0&attempt=1"), ["first\nunfinished", 1]);
    assert.deepEqual(await texts("from=0&attempt=2"), ["second\n", 2]);
    assert.deepEqual(await texts("before=6&attempt=1"), ["first\n", 1]);
    const { matches } = await (await at("q=fir&attempt=1")).json();
    assert.deepEqual(matches, [{ offset: 0, line: "first" }]);
    for (const wrong of [0, 3]) {
      assert.equal((await at(`from=0&attempt=${wrong}`)).status, 400, `${wrong}`);
    }
  }),
);

Deno.test(
  "API: logs by offset, from the end, backwards, and searched, never tearing a line",
  withApp(async ({ core, get }) => {
    const row = core.addExecuting("logs");
    const lines = Array.from({ length: 30_000 }, (_, i) => `line ${i} größe`);
    await Deno.writeFile(core.logFile(row, "stdout"), JOURNAL_HEADER);
    await Deno.writeTextFile(core.logFile(row, "stdout"), lines.join("\n") + "\nunfinished", {
      append: true,
    });
    const at = (query: string) =>
      get(`/api/runs/${row.runId}/logs/stdout?${query}`).then((r) => r.json());
    let text = "";
    for (let from = 0;;) {
      const chunk = await at(`from=${from}`);
      if (chunk.to === chunk.from) break;
      text += chunk.text;
      from = chunk.to;
    }
    assert.equal(text, lines.join("\n") + "\n");
    const tail = await at("from=-100");
    assert.match(tail.text, /^line 29\d{3} größe\n(line 29\d{3} größe\n)*$/);
    assert.equal(tail.rest, "unfinished");
    await Deno.writeTextFile(core.logFile(row, "stdout"), "\r 50% of größe\r", { append: true });
    assert.deepEqual(await at(`from=${tail.to}`).then(({ text, rest }) => [text, rest]), [
      "",
      " 50% of größe",
    ]);
    const before = await at(`before=${tail.from}`);
    assert.equal(before.to, tail.from);
    assert.match(before.text, /^line \d+ größe\n/);
    const found = await at("q=LINE 2999&from=0");
    assert.deepEqual(found.matches.map((m: { line: string }) => m.line).slice(0, 2), [
      "line 2999 größe",
      "line 29990 größe",
    ]);
    const there = await at(`from=${found.matches[0].offset}`);
    assert.ok(there.text.startsWith("line 2999 größe\n"));
    assert.equal((await at("from=0")).size, (await Deno.stat(core.logFile(row, "stdout"))).size);
    core.cancel(row.runId);
    assert.match((await at("from=-100")).text, /\nunfinished\r 50% of größe\r$/);
    const none = await (await get(`/api/runs/${row.runId}/logs/stderr`)).json();
    assert.equal(none.size, 0);
    assert.equal((await get(`/api/runs/${row.runId}/logs/secrets`)).status, 404);
  }),
);

Deno.test(
  "live: records arrive in order without gaps, and a resumed stream goes on after its last id",
  withApp(async ({ core, app }) => {
    const { runId } = core.addExecuting("live");
    core.addEpisode(runId, 450);
    const open = (lastEventId?: string) =>
      app.fetch(
        new Request(`${BASE}/api/runs/${runId}/steps/live`, {
          headers: lastEventId === undefined ? {} : { "last-event-id": lastEventId },
        }),
      );
    const first = await events(await open(), (e) => e.event === "steps");
    const seqs: number[] = first.at(-1)!.data.map((s: { seq: number }) => s.seq);
    core.addEpisode(runId, 50);
    const rest = await events(await open(first.at(-1)!.id), (e) => e.id === "500");
    seqs.push(
      ...rest.filter((e) => e.event === "steps").flatMap((e) =>
        e.data.map((s: { seq: number }) => s.seq)
      ),
    );
    assert.deepEqual(seqs, Array.from({ length: 500 }, (_, i) => i + 1));
  }),
);

Deno.test(
  "live: streams of a deleted run end and say so, also where another run has its id by then",
  withApp(async ({ core, get }) => {
    const { runId } = core.addExecuting("first");
    core.addEpisode(runId, 450);
    Deno.writeTextFileSync(core.logFile(core.registry.require(runId), "stdout"), "old\n");
    const paths = ["/live", "/steps/live", "/episodes/live", "/metrics/live", "/logs/stdout/live"];
    const streams = await Promise.all(
      paths.map(async (path) => ({ path, answer: await get(`/api/runs/${runId}${path}`) })),
    );
    const ends = streams.map(async ({ path, answer }) => ({
      path,
      seen: await events(answer, () => false),
    }));
    await until(() => core.activity.subscribers.following().length >= paths.length - 1, {
      what: "the streams to follow",
    });
    core.ended(runId);
    await core.delete(runId, true);
    core.addExecuting("second", { runId });
    core.addEpisode(runId, 10);
    for (const { path, seen } of await Promise.all(ends)) {
      const last = seen.at(-1)!;
      if (path !== "/logs/stdout/live") {
        assert.deepEqual([last.event, last.data], ["gone", { run_id: runId }], path);
      }
      const seqs = seen.filter((e) => e.event === "steps").flatMap((e) =>
        e.data.map((s: { seq: number }) => s.seq)
      );
      if (path === "/steps/live") {
        assert.deepEqual(
          seqs,
          Array.from({ length: 450 }, (_, i) => i + 1),
        );
      }
    }
    const anew = await events(await get(`/api/runs/${runId}/steps/live`), (e) => e.id === "10");
    assert.equal(anew.filter((e) => e.event === "steps")[0]!.data[0].seq, 1);
  }),
);

Deno.test(
  "live: the list tells of changes, arrivals and deletions; a run's stream of its events",
  withApp(async ({ core, app, get }) => {
    const old = core.addExecuting("old");
    const { head } = await (await get("/api/runs")).json();
    const list = await app.fetch(new Request(`${BASE}/api/live?since=${head}`));
    core.cancel(old.runId);
    await core.delete(old.runId, false);
    const fresh = core.addExecuting("fresh");
    const executes = (e: Received) =>
      e.event === "runs" &&
      e.data.runs.some((r: { run_id: string; state: string }) =>
        r.run_id === fresh.runId && r.state === "EXECUTING"
      );
    const got = await events(list, executes);
    const changes = got.filter((e) => e.event === "runs");
    assert.ok(changes.some((e) => e.data.deleted.includes(old.runId)));
    assert.equal(got.find((e) => e.event === "tick")!.data.host.gpus.length, 4);

    const one = await app.fetch(new Request(`${BASE}/api/runs/${fresh.runId}/live?since=0`));
    const told = await events(one, (e) => e.event === "tick");
    assert.deepEqual(
      told.filter((e) => e.event === "event").map((e) => e.data.data.to ?? e.data.kind),
      ["queued", "HANDSHAKE", "READY", "EXECUTING"],
    );
    assert.equal(told.find((e) => e.event === "run")!.data.transitions.length, 4);
  }),
);

Deno.test(
  "live: a log comes whole as far as it is there; of what is appended, so many lines a second and the number of the others",
  withApp(async ({ core, get }) => {
    const { runId } = core.addExecuting("chatty");
    const path = core.logFile(core.registry.resolve(runId), "stdout");
    const lines = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => `line ${from + i}\n`).join("");
    Deno.writeTextFileSync(path, lines(0, 500));
    const sizes: number[] = [Deno.statSync(path).size];
    const seen = await events(await get(`/api/runs/${runId}/logs/stdout/live`), (e) => {
      if (e.data.to === sizes[0] && sizes.length === 1) {
        Deno.writeTextFileSync(path, lines(500, 600), { append: true });
        sizes.push(Deno.statSync(path).size);
      }
      return e.data.to === sizes[1];
    });
    const text = (of: Received[]) => of.map((e) => e.data.text).join("");
    const history = seen.filter((e) => e.data.to <= sizes[0]!);
    assert.equal(text(history), lines(0, 500));
    const live = seen.slice(history.length);
    const shown = text(live).split("\n").length - 1;
    assert.ok(shown >= 10 && shown < 100, `${shown} of 100 lines were shown`);
    assert.ok(text(live).startsWith(lines(500, 510)));
    assert.equal(live.reduce((sum, e) => sum + e.data.suppressed_lines, 0), 100 - shown);
  }, { logLines: 10 }),
);

Deno.test(
  "live: who comes back from an attempt before gets the log of the one that runs whole",
  withApp(async ({ core, app }) => {
    const { runId } = core.addExecuting("again");
    core.cancel(runId);
    core.retry(runId);
    core.begun(runId);
    const path = core.logFile(core.registry.resolve(runId), "stdout");
    const lines = Array.from({ length: 500 }, (_, i) => `line ${i}\n`).join("");
    Deno.writeTextFileSync(path, lines);
    const url = `${BASE}/api/runs/${runId}/logs/stdout/live`;
    const answer = await app.fetch(new Request(url, { headers: { "last-event-id": "1:3000" } }));
    const seen = await events(answer, (e) => e.data.to === lines.length);
    assert.deepEqual(seen[0]!.data, { attempt: 2 });
    const logs = seen.filter((e) => e.event === "log");
    assert.equal(logs.map((e) => e.data.text).join(""), lines);
    assert.equal(logs.reduce((sum, e) => sum + e.data.suppressed_lines, 0), 0);
  }, { logLines: 10 }),
);

Deno.test(
  "live: while a further attempt waits, the log of the one before is not told as its own",
  withApp(async ({ core, get }) => {
    const { runId } = core.addExecuting("waits");
    // An attempt that waits has no file yet, and the one before it is shown.
    const files = core.filesOf(core.registry.require(runId));
    Deno.writeTextFileSync(files.stdout(1), "the first\n");
    const own = "the second says something longer\n";
    const seen = await events(await get(`/api/runs/${runId}/logs/stdout/live`), (e) => {
      if (e.event === "log" && e.data.attempt === 1) {
        core.cancel(runId);
        core.retry(runId);
      }
      if (e.event === "attempt") {
        core.begun(runId);
        Deno.writeTextFileSync(files.stdout(2), own);
      }
      return e.id === `2:${own.length}`;
    });
    assert.deepEqual(
      seen.map((e) => e.event === "attempt" ? e.data.attempt : e.data.text),
      ["the first\n", 2, own],
    );
  }),
);

Deno.test(
  "live: no more connections than the limit, and all end when the page stops",
  withApp(async ({ app, get }) => {
    const one = await get("/api/live");
    const two = await get("/api/live");
    assert.equal((await get("/api/live")).status, 429);
    app.stop();
    await Promise.all([one.text(), two.text()]);
  }, { maxStreams: 2 }),
);

Deno.test(
  "actions: each asks the core, many at once tell which failed",
  withApp(async ({ core, app }) => {
    const token = await tokenOf(app);
    const a = core.addExecuting("a"), b = core.addExecuting("b");
    const act = async (path: string, body?: unknown) => await app.fetch(change(path, token, body));
    assert.equal((await (await act(`/api/runs/${a.runId}/pause`)).json()).run.state, "PAUSED");
    assert.equal((await (await act(`/api/runs/${a.runId}/resume`)).json()).run.state, "EXECUTING");
    assert.equal(
      (await (await act(`/api/runs/${a.runId}/throttle`, { max_rate_hz: 5 })).json()).run
        .max_rate_hz,
      5,
    );
    assert.equal((await act(`/api/runs/${a.runId}/throttle`, { max_rate_hz: "fast" })).status, 400);
    assert.equal((await act(`/api/runs/${a.runId}/delete`)).status, 409);
    assert.equal((await act(`/api/runs/${a.runId}/explode`)).status, 404);
    assert.equal((await act(`/api/runs/${a.runId}/cancel`, "[]")).status, 400);
    assert.equal((await act(`/api/runs/${a.runId}/cancel`, "x".repeat(70_000))).status, 413);
    const many = await (await act("/api/runs/actions", {
      action: "cancel",
      run_ids: [a.runId, b.runId, "ghost"],
    }))
      .json();
    assert.equal(many.done, 2);
    assert.deepEqual(many.failed.map((f: { run_id: string }) => f.run_id), ["ghost"]);
    assert.equal((await (await act(`/api/runs/${a.runId}/delete`)).json()).run, null);
    assert.equal(core.registry.get(a.runId), undefined);
    const trash = await (await app.fetch(new Request(`${BASE}/api/runs?trash=1&sort=-deleted`)))
      .json();
    assert.deepEqual(trash.runs.map((r: { run_id: string }) => r.run_id), [a.runId]);
    assert.equal((await (await act(`/api/runs/${a.runId}/restore`)).json()).run.run_id, a.runId);
    assert.equal((await act(`/api/runs/${a.runId}/restore`)).status, 404);
    assert.equal(
      (await (await act(`/api/runs/${a.runId}/delete`, { forever: true })).json()).run,
      null,
    );
    assert.equal(core.registry.known(a.runId), undefined);
  }),
);

Deno.test(
  "guard: foreign hosts, foreign origins and missing tokens are refused",
  withApp(async ({ core, app }) => {
    const { runId } = core.addExecuting("guarded");
    const token = await tokenOf(app);
    const status = async (request: Request) => (await app.fetch(request)).status;
    assert.equal(await status(new Request("http://evil.example/api/runs")), 403);
    assert.equal(
      await status(new Request(`${BASE}/api/runs`, { headers: { host: "evil.example:8055" } })),
      403,
    );
    assert.equal(await status(new Request("http://localhost:8055/api/runs")), 200);
    assert.equal(await status(new Request("http://evil.example/healthz")), 200);
    const cancel = `/api/runs/${runId}/cancel`;
    assert.equal(await status(change(cancel, "wrong")), 403);
    assert.equal(await status(change(cancel, "")), 403);
    assert.equal(await status(change(cancel, token, {}, { origin: "http://evil.example" })), 403);
    assert.equal(await status(change(cancel, token, {}, { origin: "null" })), 403);
    assert.equal(await status(change(cancel, token, {}, { "sec-fetch-site": "cross-site" })), 403);
    assert.equal(core.registry.require(runId).state, "EXECUTING");
    assert.equal(await status(change(cancel, token)), 200);
  }),
);

Deno.test(
  "guard: who may only look changes nothing and sees no secrets",
  withApp(async ({ core, app, get }) => {
    const { runId } = core.addExecuting("seen");
    core.registry.update(runId, {
      configJson:
        '{"environment":{"API_KEY":"sk-1","SEED":"1"},"x":1.0,"big":12345678901234567890}',
    });
    const token = await tokenOf(app);
    assert.equal((await app.fetch(change(`/api/runs/${runId}/cancel`, token))).status, 403);
    const { text, hidden } = await (await get(`/api/runs/${runId}/config`)).json();
    assert.equal(hidden, 1);
    assert.doesNotMatch(text, /sk-1/);
    assert.match(text, /"x": 1\.0,\n {2}"big": 12345678901234567890/);
    assert.equal((await get(`/api/runs/${runId}/config?reveal=1`)).status, 403);
    assert.match(await (await get("/")).text(), /data-read-only="true"/);
  }, { authenticate: () => ({ name: "guest", readOnly: true, admin: false }) }),
);

Deno.test(
  "again: another run belongs to who submits it; secrets are for admins, unknown fields are named",
  withApp(async ({ core, app }) => {
    const token = await tokenOf(app);
    const config = (environment: Record<string, string>) =>
      JSON.stringify({
        run_name: "x",
        entry_point: "/bin/true",
        arguments: ["--lr", "1"],
        environment,
        resources: { gpus: { requested: 0 } },
        artifacts: {},
      });
    const again = async (runId: string, body: unknown) => {
      const answer = await app.fetch(change(`/api/runs/${runId}/again`, token, body));
      return { status: answer.status, ...await answer.json() };
    };
    const { runId } = core.submit(config({ SEED: "1" }));
    const made = await again(runId, { set: { lr: "2" } });
    assert.notEqual(made.run.run_id, runId);
    const row = core.registry.require(made.run.run_id);
    assert.deepEqual(JSON.parse(row.configJson).arguments, ["--lr", "2"]);
    assert.equal(JSON.parse(row.configJson).metadata.submitted_by, "operator");
    assert.match(
      (await again(runId, { colour: "red" })).error.message,
      /^colour is unknown; .* set, an object of texts$/,
    );
    assert.equal((await again(runId, { set: { lr: 2 } })).status, 400);
    const secret = core.submit(config({ API_KEY: "sk-1" }));
    const refused = await again(secret.runId, {});
    assert.deepEqual([refused.status, refused.error.code], [403, "permission_denied"]);
  }, { authenticate: () => ({ name: "operator", readOnly: false, admin: false }) }),
);

Deno.test(
  "guard: without a credential there is no answer",
  withApp(async ({ get }) => {
    assert.equal((await get("/api/runs")).status, 401);
    assert.equal((await get("/")).status, 401);
  }, { authenticate: () => undefined }),
);

Deno.test(
  "page: strict headers, escaped values, one token per process, less than 100 kB to load",
  withApp(async ({ app, get }) => {
    const page = await get("/runs/anything");
    const csp = page.headers.get("content-security-policy")!;
    assert.match(csp, /default-src 'none'/);
    assert.doesNotMatch(csp, /unsafe/);
    assert.equal(page.headers.get("x-content-type-options"), "nosniff");
    const html = await page.text();
    assert.match(html, /content="&#60;b&#62;&#34;"/);
    assert.doesNotMatch(html, /\{\{|<b>"|\son\w+=|style=/);
    const script = await get("/assets/main.js");
    assert.match(script.headers.get("content-type")!, /javascript/);
    assert.equal(script.headers.get("x-content-type-options"), "nosniff");
    assert.equal((await get("/assets/nothing.js")).status, 404);
    assert.equal((await get("/assets/..%2Fapp.ts")).status, 404);
    const compressed = { headers: { "accept-encoding": "gzip" } };
    assert.equal((await get("/assets/ofbefore/main.js")).status, 404);
    for (const path of ["/", "/runs/anything", "/sweeps", "/wall", "/nowhere"]) {
      const visit = { headers: { accept: "text/html" } };
      const html = await (await app.fetch(new Request(`${BASE}${path}`, visit))).text();
      const names = [...html.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, name]) =>
        name!
      );
      assert.ok(names.length > 4, "scripts, styles and icon");
      const sizes = [...new Set(names)].map(async (name) => {
        const asset = await app.fetch(new Request(`${BASE}${name}`, compressed));
        assert.equal(asset.headers.get("content-encoding"), "gzip", name);
        return (await asset.arrayBuffer()).byteLength;
      });
      const shipped = (await Promise.all(sizes)).reduce((sum, bytes) => sum + bytes, html.length);
      assert.ok(shipped < 100_000, `${path} loads ${shipped} bytes`);
    }
  }, { authenticate: () => ({ name: '<b>"', readOnly: false, admin: true }) }),
);

Deno.test(
  "series of many runs: one answer in numbers, the same as each run's own; a reader may ask, bounds are named",
  withApp(async ({ core, app, get }) => {
    const runs = [0, 1, 2].map((i) => core.addExecuting(`run-${i}`).runId);
    for (const [i, runId] of runs.entries()) {
      for (let e = 0; e < 90 + i; e++) core.addEpisode(runId, 1 + i);
    }
    core.telemetry.append(
      runs[1]!,
      1,
      [],
      [],
      [1, 2].map((v) => metric({ loss: v === 1 ? NaN : v, step: v })),
    );
    core.telemetry.append(runs[2]!, 1, [], [], [metric({ alone: 7 })]);
    core.addEpisode(core.addExecuting("another").runId, 5);
    core.telemetry.append(core.add("left-out").runId, 1, [], [], [metric({ foreign: 1 })]);
    const token = await tokenOf(app);
    const post = (path: string, body: unknown) => app.fetch(change(`/api/${path}`, token, body));

    const wanted = [...runs, "01NOSUCH"];
    const listed = await (await post("series/names", { runs: wanted })).json();
    assert.deepEqual(listed, {
      names: ["episode_reward", "episode_length", "reward", "loss"],
      once: [{ name: "alone", values: [null, null, 7, null] }],
    });
    const names = ["episode_length", "loss"];
    const answer = await post("series", { runs: wanted, names, buckets: 50 });
    const got = decodeSeries(await answer.arrayBuffer(), names, wanted.length);
    for (const [r, runId] of runs.entries()) {
      const { series } =
        await (await get(`/api/runs/${runId}/series?name=episode_length&name=loss&buckets=50`))
          .json();
      const texts = (of: unknown) =>
        JSON.parse(JSON.stringify(of, (_, v) => Number.isNaN(v) ? "NaN" : v));
      assert.deepEqual(names.map((_, n) => texts(got[n]![r])), series);
    }
    assert.deepEqual(got.map((of) => of[3]!.last_x), [[], []]);
    // One of very many lines: first and last point, and some between.
    const rough = decodeSeries(
      await (await post("series", { runs, names: ["episode_length"], buckets: 4, rough: true }))
        .arrayBuffer(),
      ["episode_length"],
      runs.length,
    );
    for (const [r, { first_x, last_x }] of rough[0]!.entries()) {
      assert.deepEqual([first_x[0], last_x[0], first_x.at(-1), last_x.at(-1)], [
        1,
        1,
        90 + r,
        90 + r,
      ]);
      assert.ok(last_x.length > 40 && last_x.length <= 64, String(last_x));
    }
    const { runs: lines } = await (await post("compared", { runs: wanted })).json();
    assert.deepEqual(lines.map((r: { run_id: string }) => r.run_id), runs);

    // What a comparison begins with: the same answers one behind the other.
    const begin = await post("compared/first", {
      runs: wanted,
      charts: 2,
      buckets: 4,
      rough: true,
    });
    const messages: Uint8Array<ArrayBuffer>[] = [];
    for await (const message of sizedMessages(begin.body!)) messages.push(message.slice());
    const [comparedFirst, namesFirst, ...series] = messages;
    const read = (bytes?: Uint8Array) => JSON.parse(new TextDecoder().decode(bytes));
    // A rate falls from one answer to the next.
    const withoutRate = ({ telemetry, ...run }: RunJson) => ({
      ...run,
      telemetry: { ...telemetry, steps_per_second: 0 },
    });
    assert.deepEqual(read(comparedFirst).runs.map(withoutRate), lines.map(withoutRate));
    assert.deepEqual(read(namesFirst), listed);
    assert.deepEqual(
      series.map((bytes, n) =>
        decodeSeries(bytes.buffer, [listed.names[n]!], wanted.length)[0]!.map((c) => c.last_x)
      ),
      [0, 1].map(() => [...rough[0]!.map((c) => c.last_x), []]),
    );
    const badBegin = await post("compared/first", { runs, charts: 25 });
    assert.match(
      (await badBegin.json()).error.message,
      /^charts is 25; must be an integer from 1 to 24$/,
    );

    const refused = async (body: unknown) =>
      (await (await post("series", body)).json()).error.message;
    assert.match(await refused({ runs: [], names }), /^runs must be a list of texts/);
    assert.match(
      await refused({ runs: Array(1001).fill("x"), names }),
      /^runs has 1001 entries; at most 1000/,
    );
    assert.match(
      await refused({ runs: Array(1000).fill("x"), names, buckets: 401 }),
      /^buckets is 401; .* 1 to 400$/,
    );
    assert.equal((await post(`runs/${runs[0]}/pause`, {})).status, 403);
  }, { authenticate: () => ({ name: "guest", readOnly: true, admin: false }) }),
);

Deno.test(
  "artifacts: only recorded files inside the run's directory are handed out",
  withApp(async ({ core, get }) => {
    const row = core.addExecuting("files");
    const directory = core.detail(row).directory;
    await Deno.writeTextFile(`${directory}/model.bin`, "weights");
    await Deno.writeTextFile(`${core.directory}/outside`, "no");
    await Deno.symlink(`${core.directory}/outside`, `${directory}/link`);
    const artifact = {
      runId: row.runId,
      kind: "checkpoint",
      bytes: 7,
      sha256: "00",
      step: null,
      windowId: "",
      at: 1,
    };
    assert.ok((await new Deno.Command("mkfifo", { args: [`${directory}/pipe`] }).output()).success);
    for (const path of ["model.bin", "link", "gone.bin", "pipe"]) {
      core.registry.putArtifact({ ...artifact, path });
    }
    const found = await get(`/api/runs/${row.runId}/artifacts/model.bin`);
    assert.equal(await found.text(), "weights");
    assert.match(found.headers.get("content-disposition")!, /^attachment/);
    assert.equal(found.headers.get("x-content-type-options"), "nosniff");
    const refused = {
      link: 403,
      pipe: 403,
      "gone.bin": 404,
      "registry.db": 404,
      "..%2foutside": 404,
    };
    for (const [path, status] of Object.entries(refused)) {
      assert.equal((await get(`/api/runs/${row.runId}/artifacts/${path}`)).status, status, path);
    }
  }),
);

/** The beginning of an MP4 file, and then zeros. */
const MP4 = new Uint8Array(1000);
MP4.set(new TextEncoder().encode("....ftypisom"));

Deno.test(
  "artifacts: ranges, HEAD and conditions; only what begins as a film, sound or picture is shown, in a sandbox",
  withApp(async ({ core, app }) => {
    const row = core.addExecuting("films");
    const { directory } = core.detail(row);
    Deno.mkdirSync(`${directory}/videos`, { recursive: true });
    const artifact = {
      runId: row.runId,
      kind: "video",
      bytes: 1000,
      sha256: "",
      step: null,
      windowId: "",
      at: 1,
    };
    const files = {
      "videos/a.mp4": MP4,
      "videos/page.mp4": new TextEncoder().encode("<script>alert(1)</script>"),
    };
    for (const [path, bytes] of Object.entries(files)) {
      Deno.writeFileSync(`${directory}/${path}`, bytes);
      core.registry.putArtifact({ ...artifact, path });
    }
    const ask = async (path: string, headers: Record<string, string> = {}, method = "GET") =>
      await app.fetch(
        new Request(`${BASE}/api/runs/${row.runId}/artifacts/${path}`, { headers, method }),
      );
    const sized = async (headers: Record<string, string>) => {
      const found = await ask("videos/a.mp4", headers);
      return [
        found.status,
        found.headers.get("content-range"),
        (await found.arrayBuffer()).byteLength,
      ];
    };
    const whole = await ask("videos/a.mp4");
    const etag = whole.headers.get("etag")!;
    assert.equal(whole.headers.get("content-type"), "video/mp4");
    assert.match(whole.headers.get("content-disposition")!, /^inline/);
    assert.match(whole.headers.get("content-security-policy")!, /default-src 'none';.*sandbox$/);
    assert.equal(whole.headers.get("x-content-type-options"), "nosniff");
    assert.deepEqual(new Uint8Array(await whole.arrayBuffer()), MP4);
    assert.deepEqual(await sized({ range: "bytes=10-19" }), [206, "bytes 10-19/1000", 10]);
    assert.deepEqual(await sized({ range: "bytes=990-2000" }), [206, "bytes 990-999/1000", 10]);
    assert.deepEqual(await sized({ range: "bytes=-5" }), [206, "bytes 995-999/1000", 5]);
    assert.deepEqual((await sized({ range: "bytes=1000-" })).slice(0, 2), [416, "bytes */1000"]);
    for (const range of ["bytes=0-1,5-6", "lines=0-1", "bytes=9-3", "bytes=-"]) {
      assert.deepEqual(await sized({ range }), [200, null, 1000], range);
    }
    assert.deepEqual(await sized({ range: "bytes=0-0", "if-range": etag }), [
      206,
      "bytes 0-0/1000",
      1,
    ]);
    assert.deepEqual(await sized({ range: "bytes=0-0", "if-range": '"another"' }), [
      200,
      null,
      1000,
    ]);
    assert.equal((await ask("videos/a.mp4", { "if-none-match": etag })).status, 304);
    const head = await ask("videos/a.mp4", { range: "bytes=0-9" }, "HEAD");
    assert.deepEqual([head.status, head.headers.get("content-length"), head.body], [
      206,
      "10",
      null,
    ]);
    const disguised = await ask("videos/page.mp4");
    assert.equal(disguised.headers.get("content-type"), "application/octet-stream");
    assert.match(disguised.headers.get("content-disposition")!, /^attachment/);
    await disguised.body?.cancel();
  }),
);

Deno.test(
  "artifacts by reference: what the worker owns in its working directory is sent; no link, nothing elsewhere",
  withApp(async ({ core, get }) => {
    const cwd = `${core.directory}/work`;
    const configJson = configOf({
      command: ["/bin/true"],
      metadata: { worker: { script: "/bin/true", arguments: [], use_grpc: false, cwd } },
    });
    const row = core.addExecuting("cleanrl", { configJson });
    Deno.mkdirSync(`${cwd}/videos`, { recursive: true });
    Deno.writeFileSync(`${cwd}/videos/a.mp4`, MP4);
    Deno.writeFileSync(`${core.directory}/b.mp4`, MP4);
    Deno.writeTextFileSync(`${cwd}/model.pt`, "weights");
    Deno.symlinkSync(`${core.directory}/b.mp4`, `${cwd}/link.mp4`);
    Deno.symlinkSync(core.directory, `${cwd}/up`);
    const answers = {
      ...{
        "videos/a.mp4": 200,
        "model.pt": 200,
        "link.mp4": 403,
        "up/b.mp4": 403,
        "../b.mp4": 403,
      },
      ...{ "gone.mp4": 404, "videos": 403 },
    };
    for (const [name, status] of Object.entries(answers)) {
      const path = `${cwd}/${name}`;
      core.registry.putArtifact({
        runId: row.runId,
        path,
        kind: "video",
        bytes: 1,
        sha256: "",
        step: null,
        windowId: "",
        at: 1,
      });
      const answer = await get(`/api/runs/${row.runId}/artifacts/${encodeURIComponent(path)}`);
      await answer.body?.cancel();
      assert.equal(answer.status, status, name);
    }
    // As it is where the worker has a user of its own.
    const { directory } = core.detail(row);
    Deno.mkdirSync(directory, { recursive: true });
    Deno.chmodSync(directory, 0o1770);
    const path = `/api/runs/${row.runId}/artifacts/${encodeURIComponent(`${cwd}/videos/a.mp4`)}`;
    const status = async () => {
      const answer = await get(path);
      await answer.body?.cancel();
      return answer.status;
    };
    assert.equal(await status(), 200);
    if (Deno.uid() !== 0) return;
    const weights = `/api/runs/${row.runId}/artifacts/${encodeURIComponent(`${cwd}/model.pt`)}`;
    Deno.chownSync(`${cwd}/model.pt`, 54_322, 54_322);
    const refused = await get(weights);
    assert.equal(refused.status, 403, "a file of somebody else");
    assert.match((await refused.json()).error.hint, /copy it on the host/);
    Deno.chownSync(directory, 0, 54_321);
    assert.equal(await status(), 403, "a file of the daemon's user");
    Deno.chownSync(`${cwd}/videos/a.mp4`, 54_321, 54_321);
    assert.equal(await status(), 200);
  }),
);

Deno.test(
  "texts and histograms are found from the newest event back; a moment is the steps of an episode",
  withApp(async ({ core, get }) => {
    const { runId } = core.addExecuting("tells");
    const event = (kind: string, data: unknown) => ({
      kind,
      dataJson: JSON.stringify(data),
      tsNs: "",
    });
    core.record(runId, [
      event("text", { tag: "notes", text: "<b>", global_step: 5 }),
      event("heartbeat", {}),
      event("histogram", { tag: "w", left: [0], right: [1], count: [3] }),
    ]);
    const { events, from } = await (await get(`/api/runs/${runId}/media_events`)).json();
    assert.deepEqual(events, [
      { seq: 3, kind: "histogram", tag: "w", step: null },
      { seq: 1, kind: "text", tag: "notes", step: 5 },
    ]);
    assert.equal(from, 1);
    assert.deepEqual(
      (await (await get(`/api/runs/${runId}/media_events?before=3`)).json()).events.length,
      1,
    );
    for (let n = 0; n < 5; n++) core.addEpisode(runId, 4, undefined, 1_800_000_000_000 + n * 1000);
    const moment = await (await get(`/api/runs/${runId}/moment?episode=3`)).json();
    assert.deepEqual([moment.episode, moment.step_seq], [2, 9]);
    assert.equal(
      (await (await get(`/api/runs/${runId}/moment?at=${1_800_000_000_500}`)).json()).step_seq,
      4,
    );
  }),
);

Deno.test(
  "evaluations: their summary is shown, of other runs there is none",
  withApp(async ({ core, get }) => {
    const run = core.addExecuting("eval", { baseDir: "evals" });
    const summary = async ({ runId }: { runId: string }) =>
      await (await get(`/api/runs/${runId}/eval`)).json();
    assert.deepEqual(await summary(run), { summary: null });
    const { directory } = core.detail(run);
    await Deno.writeTextFile(
      `${directory}/eval_summary.json`,
      '{"episodes": 3, "avg_return": NaN}',
    );
    assert.deepEqual(await summary(run), { summary: { episodes: 3, avg_return: null } });
    assert.equal((await (await get(`/api/runs/${run.runId}`)).json()).base_dir, "evals");
    await Deno.remove(`${directory}/eval_summary.json`);
    await Deno.symlink(core.layout.registryDb, `${directory}/eval_summary.json`);
    assert.equal((await get(`/api/runs/${run.runId}/eval`)).status, 403);
    assert.deepEqual(await summary(core.addExecuting("train")), { summary: null });
  }),
);

Deno.test(
  "health: ready while it accepts, stores and has room; metrics in Prometheus' format",
  withApp(async ({ core, get }) => {
    core.addSteps(core.addExecuting("one").runId, 1, 1234);
    assert.equal((await get("/healthz")).status, 200);
    assert.equal((await get("/readyz")).status, 200);
    core.telemetry.writable = () => false;
    core.hostFacts = { diskAvailableBytes: 1000 };
    const unready = await get("/readyz");
    assert.equal(unready.status, 503);
    const { checks } = await unready.json();
    assert.deepEqual(
      [checks.accepting.ok, checks.registry.ok, checks.telemetry.ok, checks.disk.ok],
      [true, true, false, false],
    );
    const text = await (await get("/metrics")).text();
    for (
      const line of [
        'mosaic_runs{state="EXECUTING"} 1',
        'mosaic_gpu_slots{use="free"} 4',
        'mosaic_ingest_records_total{kind="steps"} 1234',
      ]
    ) {
      assert.ok(text.includes(`\n${line}\n`), line);
    }
  }),
);

Deno.test(
  "answers are compressed for those who accept it; each event of a live stream at once, files as they are",
  withApp(async ({ core, app, get }) => {
    core.addMany("run-", 300);
    const asked = (path: string, accepts: string) =>
      app.fetch(
        new Request(`${BASE}${path}`, {
          headers: accepts === "" ? {} : { "accept-encoding": accepts },
        }),
      );
    const plain = await (await get("/api/runs?limit=300")).text();
    const answer = await asked("/api/runs?limit=300", "gzip, br");
    assert.equal(answer.headers.get("content-encoding"), "gzip");
    const packed = await answer.bytes();
    assert.ok(packed.length * 10 < plain.length, `${packed.length} of ${plain.length} bytes`);
    const unpacked = new Response(
      new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")),
    );
    assert.equal((await unpacked.json()).runs.length, 300);
    assert.equal((await get("/api/runs")).headers.get("content-encoding"), null);
    const refused = await asked("/api/runs/none", "gzip");
    assert.deepEqual([refused.status, refused.headers.get("content-encoding")], [404, null]);
    await refused.body?.cancel();
    // The first event comes although no second one does.
    const live = await asked("/api/events/live?since=0", "gzip");
    const events = live.body!.pipeThrough(new DecompressionStream("gzip")).getReader();
    const { value } = await events.read();
    assert.match(new TextDecoder().decode(value), /^id: |^event: /);
    await events.cancel();
  }),
);
