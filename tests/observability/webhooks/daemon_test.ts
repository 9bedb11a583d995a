/**
 * Webhooks of a real daemon: one for all runs, one that a run names, signatures that a receiver can
 * check.
 */
import assert from "node:assert/strict";
import { createHmac, timingSafeEqual } from "node:crypto";
import { Buffer } from "node:buffer";
import { newSecret } from "../../../src/observability/webhooks/signature.ts";
import { configOf, countingWorker } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";

/** As docs/reference/observability.md shows it to those who write receivers. */
function isAuthentic(secret: string, headers: Headers, body: string, nowSeconds: number): boolean {
  const id = headers.get("webhook-id") ?? "";
  const timestamp = headers.get("webhook-timestamp") ?? "";
  if (Math.abs(nowSeconds - Number(timestamp)) > 300) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest();
  return (headers.get("webhook-signature") ?? "").split(" ").some((signature) => {
    const given = Buffer.from(signature.replace(/^v1,/, ""), "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

interface Delivery {
  path: string;
  headers: Headers;
  body: string;
}

Deno.test("webhooks of a daemon: all events to the one, chosen ones to a run's own, each signed with its key", async () => {
  const got: Delivery[] = [];
  const receiver = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      got.push({
        path: new URL(request.url).pathname,
        headers: request.headers,
        body: await request.text(),
      });
      return new Response();
    },
  );
  const url = (path: string) => `http://127.0.0.1:${receiver.addr.port}${path}`;
  const kinds = (path: string) =>
    got.filter((d) => d.path === path).map((d) => JSON.parse(d.body).type);
  try {
    await using daemon = await TestDaemon.start({ args: ["--webhook", url("/all")] });
    const secretFile = `${daemon.stateDir}/own.secret`;
    const ownSecret = newSecret();
    Deno.writeTextFileSync(secretFile, `${ownSecret}\n`, { mode: 0o600 });
    const plain = await submit(
      daemon,
      configOf({ name: "plain", command: countingWorker({ steps: 1 }) }),
    );
    const own = await submit(
      daemon,
      configOf({
        name: "own",
        command: countingWorker({ steps: 1, exit: 3 }),
        metadata: {
          webhook: { url: url("/own"), events: ["queued", "failed"], secret_file: secretFile },
        },
      }),
    );
    await untilState(daemon, plain, "TERMINATED");
    await untilState(daemon, own, "FAULTED");
    await until(
      () => kinds("/all").filter((k) => k === "run.completed" || k === "run.failed").length === 2,
      {
        what: "the ends of both runs to arrive",
        state: () => kinds("/all"),
      },
    );
    await until(() => kinds("/own").includes("run.failed"), {
      what: "the run's own",
      state: () => kinds("/own"),
    });
    assert.deepEqual(kinds("/own"), ["run.queued", "run.failed"]);

    const path = `${daemon.layout.trainer}/webhook.secret`;
    assert.equal(Deno.statSync(path).mode! & 0o777, 0o600);
    const secret = Deno.readTextFileSync(path).trim();
    const now = Date.now() / 1000;
    for (const delivery of got) {
      const key = delivery.path === "/all" ? secret : ownSecret;
      assert.ok(isAuthentic(key, delivery.headers, delivery.body, now), delivery.body);
      assert.ok(
        !isAuthentic(key, delivery.headers, `${delivery.body} `, now),
        "a changed body must not pass",
      );
      assert.ok(!isAuthentic(newSecret(), delivery.headers, delivery.body, now));
      assert.ok(
        !isAuthentic(key, delivery.headers, delivery.body, now + 3600),
        "an old delivery must not pass",
      );
    }
    const failed = JSON.parse(got.findLast((d) => d.path === "/own")!.body);
    assert.deepEqual([failed.data.run_id, failed.data.run_name, failed.data.reason], [
      own,
      "own",
      "exit_code_3",
    ]);
    const seqs = got.filter((d) => d.path === "/all").map((d) => JSON.parse(d.body).data.seq);
    assert.deepEqual(seqs, seqs.toSorted((a, b) => a - b));

    const text = await (await fetch(`http://${daemon.http}/metrics`)).text();
    const delivered = Number(
      /^mosaic_webhook_deliveries_total\{result="delivered"\} (\d+)$/m.exec(text)?.[1],
    );
    assert.ok(delivered >= 4, text);
  } finally {
    await receiver.shutdown();
  }
});
