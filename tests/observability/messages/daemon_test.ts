/** Messages of a real daemon, under its own permissions if the executable is tested. */
import assert from "node:assert/strict";
import { Counts } from "../../../src/observability/activity.ts";
import { Webhooks } from "../../../src/observability/webhooks/webhooks.ts";
import { createLogger } from "../../../src/base/log.ts";
import { readTextIfThere } from "../../../src/os/files/files.ts";
import { Registry } from "../../../src/registry/registry.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { newRun } from "../../registry/fixture.ts";
import { runVerb } from "../../cli/verb.ts";
import { smtpServer } from "./smtp.ts";

const SECRET = "987654:a-secret-of-a-bot";

Deno.test("messages of a daemon: by rules, one for all of an hour, also after a restart, with the curve, and without secrets", async () => {
  const chat: { path: string; form: FormData }[] = [];
  const service = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const type = request.headers.get("content-type") ?? "";
    const form = type.startsWith("multipart/form-data") ? await request.formData() : new FormData();
    chat.push({ path: new URL(request.url).pathname, form });
    return Response.json({ ok: true });
  });
  const smtp = await smtpServer({ users: { mosaic: "letter-box" } });
  const directory = Deno.makeTempDirSync();
  const file = `${directory}/notify.json`;
  const password = `${directory}/password`;
  Deno.writeTextFileSync(password, "letter-box\n");
  const write = (digest: string) =>
    Deno.writeTextFileSync(
      file,
      JSON.stringify({
        page: "https://mosaic.lab",
        receivers: [
          {
            ...{ name: "phone", events: ["failed"], digest, picture: "loss" },
            telegram: { chat: "7", api: `http://127.0.0.1:${service.addr.port}` },
            secret_env: "MOSAIC_TEST_BOT",
          },
          {
            ...{
              name: "mail",
              digest: "off",
              where: "tags=paper and metric.loss<0.5",
              secret_file: password,
            },
            mail: {
              from: "m@lab.example",
              to: "ann@lab.example",
              smtp: `smtp://mosaic@127.0.0.1:${smtp.port}`,
            },
          },
          {
            name: "nobody",
            digest: "off",
            owner: "nobody",
            secret_file: password,
            http: { url: "http://127.0.0.1:9/" },
          },
        ],
      }),
    );
  const worker = (loss: number, exit: number) => {
    const line = `{\\"loss\\": $i.${loss}, \\"step\\": $((3 - i))}`;
    return ["/bin/sh", "-c", `for i in 2 1 0; do echo "${line}"; done; exit ${exit}`];
  };
  try {
    write("1h");
    await using daemon = await TestDaemon.start({
      args: ["--notify", file],
      env: { MOSAIC_TEST_BOT: SECRET },
    });
    const paper = { metadata: { tags: ["paper"] } };
    const runs = [
      await submit(daemon, configOf({ name: "low", command: worker(1, 3), ...paper })),
      await submit(daemon, configOf({ name: "high", command: worker(9, 3), ...paper })),
      await submit(daemon, configOf({ name: "other", command: worker(1, 3) })),
    ];
    for (const run of runs) await untilState(daemon, run, "FAULTED");
    const good = await submit(daemon, configOf({ name: "good", command: worker(2, 0), ...paper }));
    await untilState(daemon, good, "TERMINATED");
    await until(() => smtp.mails.some(({ text }) => text.includes("good completed")), {
      what: "the second mail",
      state: () => smtp.mails,
    });
    assert.deepEqual(smtp.mails.map(({ text }) => /^Subject: (.*)\r$/m.exec(text)?.[1]), [
      "mosaic: low failed",
      "mosaic: good completed",
    ]);
    assert.match(smtp.mails[0]!.text, new RegExp(`https://mosaic.lab/runs/${runs[0]}`));
    assert.equal(chat.length, 0);

    write("off");
    await daemon.stop();
    await daemon.restart();
    await until(() => chat.length > 0, { what: "the message" });
    const [{ path, form }] = chat as [{ path: string; form: FormData }];
    assert.equal(path, `/bot${SECRET}/sendPhoto`);
    const caption = (form.get("caption") as string).replaceAll("\r\n", "\n");
    // In the order of their ends.
    const [, named] = /^3 failed:\n3 × failed: exit_code_3 \((.*)\)\nhttps:\/\/mosaic\.lab\/$/.exec(
      caption,
    )!;
    assert.deepEqual(named!.split(", ").toSorted(), ["high", "low", "other"]);
    const picture = await (form.get("photo") as File).bytes();
    assert.deepEqual(
      picture.slice(0, 8),
      Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a),
    );
    assert.equal(chat.length, 1);

    const tested = await runVerb(daemon, ["notify", "test", "-o", "json"]);
    const results: { receiver: string; error: string | null }[] = JSON.parse(tested.out);
    assert.deepEqual([tested.code, results.map(({ receiver }) => receiver)], [1, [
      "phone",
      "mail",
      "nobody",
    ]]);
    assert.deepEqual([results[0]!.error, results[1]!.error], [null, null]);
    assert.ok(results[2]!.error);
    assert.equal((await runVerb(daemon, ["notify", "test", "mail"])).code, 0);
    const unknown = await runVerb(daemon, ["notify", "test", "mial"]);
    assert.deepEqual(
      [unknown.code, /Did you mean "?mail/.test(unknown.err)],
      [4, true],
      unknown.err,
    );
    const said = daemon.output() + (readTextIfThere(daemon.layout.daemonLog) ?? "") +
      readTextIfThere(daemon.layout.webhooksFile);
    for (const secret of [SECRET, "letter-box"]) assert.ok(!said.includes(secret), said);
  } finally {
    await smtp.close();
    await service.shutdown();
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("messages: a sweep of forty trials that fail is one message, and none goes to the daemon itself", async () => {
  const directory = Deno.makeTempDirSync();
  const registry = Registry.open(`${directory}/registry.db`);
  const options = {
    runs: registry,
    log: createLogger({ level: "error" }),
    stateFile: `${directory}/webhooks.json`,
    secret: "",
    targetOfRun: () => undefined,
    firstRetryMs: 1,
  };
  const sent: number[] = [];
  let refusals = 2;
  const digest = {
    ...{ name: "phone", url: "http://phone.lab/", kinds: ["failed"], waitMs: 1, wants: () => true },
    messageOf: (events: readonly unknown[]) => () => {
      if (refusals-- > 0) return Promise.resolve({ why: "later", final: false });
      sent.push(events.length);
      return Promise.resolve(undefined);
    },
  };
  try {
    // Its cursor begins where the log ends now.
    await new Webhooks({ ...options, digests: [digest] }).close();
    for (let i = 0; i < 40; i++) {
      const runId = `01HZZZZZZZZZZZZZZZZZZZZZ${String(i).padStart(2, "0")}`;
      registry.insert(newRun(i, { runId, name: `trial ${i}`, digest: runId }));
      registry.appendEvent(runId, "failed", { reason: "exit_code_1" });
    }
    const webhooks = new Webhooks({ ...options, digests: [digest] });
    await until(() => sent.length > 0, { what: "the message" });
    await webhooks.close();
    const again = new Webhooks({ ...options, digests: [digest] });
    await again.close();
    assert.deepEqual(sent, [40]);

    const counts = new Counts(["refused"]);
    registry.appendEvent("01HZZZZZZZZZZZZZZZZZZZZZ00", "failed", {});
    const own = {
      of: (url: string) => Promise.resolve(url === digest.url ? "127.0.0.1:8055" : undefined),
    };
    const refusing = new Webhooks({ ...options, digests: [digest], own, counts });
    await until(
      () => counts.entries().some(([result, count]) => result === "refused" && count > 0),
      {
        what: "the refusal",
      },
    );
    await refusing.close();
    assert.deepEqual(sent, [40]);
  } finally {
    registry.close();
    Deno.removeSync(directory, { recursive: true });
  }
});
