/**
 * A token that sees only its own runs: every call and every route is walked with another person's
 * run, by id, and nothing of that person comes back.
 */
import assert from "node:assert/strict";
import type { Core } from "../../src/dispatch/core/core.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { ruleOf } from "../../src/rpc/auth/access.ts";
import { type ApiOptions, pageApi } from "../../src/ui/api/api.ts";
import { createToken, mayDo, readTokens } from "../../src/wire/tokens.ts";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { methodPath } from "../../src/wire/method_path.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { hasCode } from "../registry/fixture.ts";

/** What is bob's has "zebra" in its name. */
const BOBS = /zebra/i;

async function people(daemon: TestDaemon) {
  const { tokensFile } = daemon.layout;
  const clientOf = (token: string) => new MosaicClient(daemon.http, { token });
  const bob = clientOf(createToken(tokensFile, { name: "zebra-bob", role: "operate", own: true }));
  const token = createToken(tokensFile, { name: "ada", role: "operate", alone: true });
  const ada = clientOf(token);
  const admin = clientOf(readTokens(tokensFile)!.admin);
  const script =
    `print('{"event":"metrics","payload":{"zebra_metric":1,"global_step":1}}', flush=True)\n` +
    `open(__import__("os").environ["MOSAIC_RUN_DIR"] + "/zebra.txt", "w").write("x")\n` +
    `import time; time.sleep(600)`;
  const submit = async (client: MosaicClient, name: string) => {
    const configJson = configOf({ name, command: ["python3", "-c", script, "--zebra_flag", "1"] });
    return (await client.unary(TrainerService.method.submitRun, { configJson })).runId;
  };
  const bobs = await submit(bob, "zebra-run");
  await bob.unary(Mosaic.method.editRun, { run: bobs, addTags: ["zebra-tag"] });
  const config = JSON.parse(configOf({ command: ["true"] }));
  const parts = [{ axes: [{ name: "zebra_axis", values: [1] }] }];
  const specJson = JSON.stringify({
    ...{ name: "zebra-sweep", config, pass: "flags", parts, budget: {} },
  });
  await bob.unary(Mosaic.method.createSweep, { specJson });
  const configJson = configOf({ name: "adas", command: ["sleep", "600"] });
  const { runId: adas } = await ada.unary(TrainerService.method.submitRun, { configJson });
  const columns = await until(async () => {
    const found = await admin.unary(Mosaic.method.listColumns, {});
    return found.metrics.includes("zebra_metric") ? found : undefined;
  }, { what: "bob's metric to be known" });
  assert.ok(columns.parameters.includes("zebra_flag"));
  return {
    ...{ ada, bob, admin, token, bobs, adas },
    [Symbol.dispose]() {
      for (const client of [ada, bob, admin]) client.close();
    },
  };
}

const textOf = (value: unknown) =>
  JSON.stringify(value, (_, v) => typeof v === "bigint" ? String(v) : v);

Deno.test("own only: no call of the API says anything of others' runs", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  using all = await people(daemon);
  const { ada, bobs } = all;
  /** Of each call, what names another's run or sweep. */
  const named = {
    ...{
      run: bobs,
      runId: bobs,
      within: bobs,
      sweep: "zebra-sweep",
      artifact: `${bobs}:zebra.txt`,
    },
    ...{ kind: "metrics", stream: "stdout", name: "zebra_metric", aliases: [] as string[] },
    ...{ action: "pause", trials: 10, limit: 10, maxRateHz: 1, patterns: ["/tmp/x"] },
  };
  const walked: string[] = [];
  for (const service of [TrainerService, Mosaic]) {
    for (const method of service.methods) {
      const rule = ruleOf(methodPath(method))!;
      const isForWorkers = rule.session !== undefined;
      const needs = rule.ofOwn ?? rule.needs;
      if (isForWorkers || needs === "open" || !mayDo("operate", needs)) continue;
      if (["WatchRuns", "SubmitRun", "CreateSweep"].includes(method.name)) continue;
      walked.push(method.name);
      const fields = Object.fromEntries(
        Object.entries(named).filter(([field]) =>
          method.input.fields.some(({ localName }) => localName === field)
        ),
      );
      const isAbout = ["run", "runId", "within", "sweep", "artifact"].some((f) => f in fields);
      // Without what names a run, a call answers about all of them.
      const also = ["ListRuns", "ListNamedArtifacts", "StreamEvents"].includes(method.name);
      for (const request of also ? [fields, {}] : [fields]) {
        try {
          const answer = method.methodKind === "server_streaming"
            ? await Array.fromAsync(ada.stream(method as never, request as never))
            : await ada.unary(method as never, request as never);
          assert.doesNotMatch(textOf(answer), BOBS, method.name);
          assert.ok(!textOf(answer).includes(bobs), method.name);
          assert.ok(request !== fields || !isAbout, method.name);
        } catch (error) {
          if (!(error instanceof MosaicError)) throw error;
          assert.match(error.code, /^(not_found|permission_denied)$/, `${method.name}: ${error}`);
          const said = error.message.replaceAll(bobs, "").replaceAll("zebra-sweep", "");
          assert.doesNotMatch(said.replaceAll("zebra.txt", ""), BOBS, method.name);
        }
      }
    }
  }
  assert.ok(walked.length > 35, String(walked));
});

Deno.test("own only: an owner finds their own by name and @last, streams have only theirs", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  using all = await people(daemon);
  const { ada, bob, admin, bobs, adas } = all;
  const { runs } = await ada.unary(Mosaic.method.listRuns, {});
  assert.deepEqual(runs.map(({ runId }) => runId), [adas]);
  // Bob's is newer, and has the name of ada's.
  const { runId: newer } = await bob.unary(TrainerService.method.submitRun, {
    configJson: configOf({ name: "adas", command: ["sleep", "600"] }),
  });
  for (const run of ["@last", "adas"]) {
    assert.equal((await ada.unary(Mosaic.method.getRun, { run })).runId, adas);
  }
  const after = JSON.stringify({
    ...JSON.parse(configOf({ command: ["true"] })),
    metadata: { ...JSON.parse(configOf({ command: ["true"] })).metadata, queue: { after: [bobs] } },
  });
  await assert.rejects(
    ada.unary(TrainerService.method.submitRun, { configJson: after }),
    hasCode("not_found"),
  );
  const seen: string[] = [];
  for await (const { runId } of ada.stream(TrainerService.method.watchRuns, {})) {
    seen.push(runId);
    if (seen.length === 1) {
      await bob.unary(Mosaic.method.cancelRun, { run: newer, graceSeconds: 0 });
      await ada.unary(Mosaic.method.cancelRun, { run: adas, graceSeconds: 0 });
    }
    const { state } = await ada.unary(Mosaic.method.getRun, { run: adas });
    if (state === "CANCELLED") break;
  }
  assert.deepEqual([...new Set(seen)], [adas]);
  await untilState(daemon, newer, "CANCELLED");

  // One's own may be deleted, and brought back; nobody else's, also by a name that both have.
  await ada.unary(Mosaic.method.deleteRun, { run: "adas" });
  await admin.unary(Mosaic.method.deleteRun, { run: newer });
  const restored = await ada.unary(Mosaic.method.restoreRun, { run: "adas" });
  assert.equal(restored.runId, adas);
  await assert.rejects(
    ada.unary(Mosaic.method.restoreRun, { run: newer }),
    hasCode("not_found"),
  );
  await assert.rejects(
    ada.unary(Mosaic.method.deleteRun, { run: bobs, forever: true }),
    hasCode("not_found"),
  );
});

Deno.test("own only: no route of the page says anything of others' runs", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  using all = await people(daemon);
  const { token, bobs, adas } = all;
  const headers: Record<string, string> = { authorization: `Bearer ${token}` };
  const page = `http://${daemon.http}`;
  const session = await (await fetch(`${page}/api/session`, { headers })).json();
  headers["x-mosaic-token"] = session.token;
  const values: Record<string, string> = {
    ...{ id: bobs, kind: "events", seq: "1", stream: "stdout", path: "zebra.txt" },
    action: "cancel",
  };
  const of = `run=${bobs}&id=${bobs}&ids=${bobs}&of=${bobs}&name=zebra_metric`;
  const posted = { runs: [bobs], run_ids: [bobs], names: ["zebra_metric"], action: "cancel" };
  let walked = 0;
  // The routes themselves; nothing is called on this core.
  const { routes } = pageApi({ runs: {} } as unknown as Core, {} as ApiOptions);
  for (const { method, path } of routes.filter(({ method }) => method !== "ALL")) {
    const place = path.replace(/^\/sweeps\/:id/, "/sweeps/zebra-sweep").replace(
      /:(\w+)(\{[^}]*\})?/g,
      (_, name: string) => values[name]!,
    );
    for (const query of place.includes(bobs) || method === "POST" ? [""] : ["", `?${of}`]) {
      const aborted = new AbortController();
      const answer = await fetch(`${page}/api${place}${query}`, {
        ...{ method, headers, signal: aborted.signal },
        ...(method === "POST" && { body: JSON.stringify(posted) }),
      });
      walked++;
      let text = "";
      if (place.endsWith("/live")) {
        // Streams of all runs go on; their first part has what is there now.
        const { value } = await answer.body!.getReader().read();
        text = new TextDecoder().decode(value);
        aborted.abort();
      } else text = await answer.text();
      const what = `${method} ${place}${query} ${answer.status} ${text.slice(0, 300)}`;
      if (place.includes(bobs) || place.includes("zebra-sweep")) {
        assert.ok([403, 404].includes(answer.status), what);
      }
      // A refusal repeats what was asked for.
      const said = answer.ok ? text : text.replaceAll(/zebra-sweep|zebra\.txt/g, "");
      assert.doesNotMatch(said, BOBS, what);
    }
  }
  assert.ok(walked > 40, String(walked));
  const list = await (await fetch(`${page}/api/runs`, { headers })).json();
  assert.deepEqual(list.runs.map((run: { run_id: string }) => run.run_id), [adas]);
  assert.equal((await fetch(`${page}/metrics`, { headers })).status, 403);
});

Deno.test("own only: is for the roles that submit", () => {
  const file = `${Deno.makeTempDirSync()}/tokens.json`;
  for (const role of ["read", "admin"] as const) {
    assert.throws(
      () => createToken(file, { name: "a", role, alone: true }),
      hasCode("invalid_argument", /cannot be limited to seeing its own/),
    );
  }
  createToken(file, { name: "b", role: "submit", alone: true });
  createToken(file, { name: "c", role: "operate", alone: true });
  assert.deepEqual(readTokens(file)!.named.map(({ own, alone }) => [own, alone]), [
    [undefined, true],
    [true, true],
  ]);
});
