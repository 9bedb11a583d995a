/** Messages in the forms of chats. */
import assert from "node:assert/strict";
import { formOf, messageIn } from "../../../src/observability/webhooks/messages.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";

Deno.test("messages: the form by the service's address, or by the fragment", () => {
  const table: [string, string][] = [
    ["https://hooks.slack.com/services/T/B/x", "slack"],
    ["https://discord.com/api/webhooks/1/x", "discord"],
    ["https://prod-1.westeurope.logic.azure.com:443/workflows/x", "teams"],
    ["https://ntfy.sh/topic", "ntfy"],
    ["https://example.com/hook#ntfy", "ntfy"],
    ["https://hooks.slack.com/services/T/B/x#signed", "signed"],
    ["https://example.com/hooks.slack.com/", "signed"],
    ["https://example.com/hook#other", "signed"],
  ];
  for (const [url, form] of table) assert.equal(formOf(url), form, url);
});

Deno.test("messages: a name calls nobody and ends no markup", () => {
  const event = {
    ...{
      seq: 1,
      at: 0,
      runId: "R",
      runName: "<!channel> @everyone\n&",
      kind: "alert" as const,
      attempt: 2,
    },
    dataJson: '{"alert":"low","what":"loss is NaN"}',
  };
  const text = "<!channel> @everyone & alert: low: loss is NaN (attempt 2, run R)";
  assert.deepEqual(JSON.parse(messageIn("slack", event).body), {
    text: text.replace("&", "&amp;").replace("<!channel>", "&lt;!channel&gt;"),
  });
  assert.deepEqual(JSON.parse(messageIn("discord", event).body), {
    content: text,
    allowed_mentions: { parse: [] },
  });
  assert.equal(
    JSON.parse(messageIn("teams", event).body).attachments[0].content.body[0].text,
    text,
  );
  assert.equal(messageIn("ntfy", event).body, text);
  assert.equal(messageIn("ntfy", event).headers.priority, "high");
});

Deno.test("messages: a daemon tells a chat of the end of a run, and of nothing else", async () => {
  const got: { url: string; type: string | null; body: string; signature: string | null }[] = [];
  const receiver = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const { url, headers } = request;
      got.push({
        url,
        type: headers.get("content-type"),
        body: await request.text(),
        signature: headers.get("webhook-signature"),
      });
      return new Response("ok");
    },
  );
  try {
    const chat = `http://127.0.0.1:${receiver.addr.port}/hook#slack`;
    await using daemon = await TestDaemon.start({ args: ["--webhook", chat] });
    const run = await submit(
      daemon,
      configOf({ name: "cart", command: ["/bin/sh", "-c", "exit 3"] }),
    );
    await untilState(daemon, run, "FAULTED");
    await until(() => got.length > 0, { what: "the message" });
    const again = await submit(daemon, configOf({ name: "good", command: ["/bin/true"] }));
    await untilState(daemon, again, "TERMINATED");
    await until(() => got.length > 1, { what: "the second message" });
    assert.deepEqual(got.map(({ body }) => JSON.parse(body)), [
      { text: `cart failed: exit_code_3 (run ${run})` },
      { text: `good completed (run ${again})` },
    ]);
    assert.deepEqual([got[0]!.type, got[0]!.signature, new URL(got[0]!.url).pathname], [
      "application/json",
      null,
      "/hook",
    ]);
  } finally {
    await receiver.shutdown();
  }
});
