/**
 * The file of --notify, what a message says, and what each service is sent: its own documented
 * form, as it was recorded.
 */
import assert from "node:assert/strict";
import { MosaicError } from "../../../src/base/errors.ts";
import { curvePicture } from "../../../src/observability/messages/curve_picture.ts";
import { noticeOf } from "../../../src/observability/messages/notice.ts";
import { receiversOf } from "../../../src/observability/messages/receivers.ts";
import { sendMessage } from "../../../src/observability/messages/send.ts";
import { notifyGrants } from "../../../src/permissions/notify_grants.ts";
import type { EventRow } from "../../../src/registry/row_types.ts";

const SECRETS: Record<string, string> = { "/s/bot": "123:AbC\n", "MOSAIC_TOPIC": "tk_x" };
const read = (from: { file: string } | { variable: string }) => {
  const secret = SECRETS["file" in from ? from.file : from.variable];
  if (secret === undefined) throw new Error("no such file");
  return secret;
};
const parsed = (...receivers: unknown[]) =>
  receiversOf(JSON.stringify({ receivers }), read).receivers;

Deno.test("receivers: secrets come from files and variables, a digest takes a minute unless said otherwise", () => {
  const [phone, topic, mail] = parsed(
    { telegram: { chat: -1001 }, secret_file: "/s/bot", where: "tag=paper", owner: "ann" },
    {
      name: "lab",
      ntfy: "https://ntfy.sh/runs",
      secret_env: "MOSAIC_TOPIC",
      events: ["alert"],
      digest: "1h",
    },
    {
      mail: { from: "m@lab", to: "ann@lab", smtp: "smtps://m%40lab@mail.lab" },
      digest: "off",
      picture: "loss",
    },
  );
  assert.deepEqual(phone, {
    name: "telegram",
    service: { type: "telegram", url: "https://api.telegram.org/bot{secret}", chat: "-1001" },
    secret: "123:AbC",
    kinds: ["failed", "completed", "cancelled", "alert"],
    where: "tag=paper",
    owners: ["ann"],
    digestMs: 60_000,
    picture: "",
  });
  assert.deepEqual([topic!.name, topic!.secret, topic!.kinds, topic!.digestMs], ["lab", "tk_x", [
    "alert",
  ], 3_600_000]);
  assert.deepEqual([mail!.service, mail!.digestMs, mail!.picture], [
    { type: "smtp", url: "smtps://mail.lab:465", user: "m@lab", from: "m@lab", to: ["ann@lab"] },
    0,
    "loss",
  ]);
});

Deno.test("receivers: what is wrong is named, with its field", () => {
  const slack = { slack: "https://hooks.slack.com/services/{secret}", secret_file: "/s/bot" };
  const table: [unknown, RegExp][] = [
    [{}, /^receivers\.0 names no service: give one of slack, /],
    [{ ...slack, ntfy: "https://ntfy.sh/x" }, /^receivers\.0 names slack and ntfy/],
    [
      { slack: "https://hooks.slack.com/services/T/B/x" },
      /^receivers\.0\.slack has a secret in its URL/,
    ],
    [{ telegram: { chat: "1" } }, /^receivers\.0 has no secret/],
    [{ ...slack, secret_file: "/s/none" }, /^receivers\.0\.secret_file \/s\/none: no such file/],
    [{ ...slack, secret_env: "MOSAIC_TOPIC" }, /both secret_file and secret_env/],
    [
      { ...slack, digest: "soon" },
      /^receivers\.0\.digest must be off or a duration .*, not "soon"/,
    ],
    [{ ...slack, events: ["ended"] }, /^receivers\.0\.events\.0 must be one of .*not "ended"/],
    [
      { slack: "https://hooks.slack.com/services/T/B/x", wehn: "x" },
      /^receivers\.0 has an unknown field: wehn$/,
    ],
    [
      { slack: ["https://hooks.slack.com/services/T/B/x"] },
      /^receivers\.0\.slack must be an http or https URL/,
    ],
    [{ mail: { from: "a@b", to: "c@d" } }, /^receivers\.0\.mail needs one of smtp and sendmail/],
    [
      { mail: { from: "a@b", to: "c@d", smtp: "smtp://u:pw@h" } },
      /^receivers\.0\.mail\.smtp has a password in it/,
    ],
  ];
  for (const [receiver, message] of table) {
    assert.throws(
      () => parsed(receiver),
      (error) => {
        assert.ok(error instanceof MosaicError && error.code === "invalid_argument");
        assert.match(error.message, message);
        assert.ok(
          !error.message.includes("T/B/x") && !error.message.includes(":pw@"),
          error.message,
        );
        return true;
      },
    );
  }
  assert.throws(() => parsed(slack, slack), /receivers\.1 is a second one called "slack"/);
  assert.throws(() => receiversOf("{", read), /it is no JSON/);
});

Deno.test("receivers: the daemon's permissions are their hosts, secrets' files and variables", () => {
  const file = {
    receivers: [
      { slack: "https://hooks.slack.com/services/{secret}", secret_file: "/s/slack" },
      { telegram: { chat: 1 }, secret_env: "BOT" },
      { mail: { smtp: "smtp://u@mail.lab", from: "", to: "" } },
      { mail: { smtp: "smtps://mail.lab:2465", from: "", to: "" } },
      { http: { url: "http://chat.lab:8080/x" } },
      { mail: { sendmail: "/usr/sbin/sendmail" } },
      { ntfy: 3 },
    ],
  };
  assert.deepEqual(notifyGrants(JSON.stringify(file)), {
    net: [
      "hooks.slack.com:443",
      "api.telegram.org:443",
      "mail.lab:587",
      "mail.lab:2465",
      "chat.lab:8080",
    ],
    read: ["/s/slack"],
    env: ["BOT"],
  });
  assert.deepEqual(notifyGrants(undefined), { net: [], read: [], env: [] });
  assert.deepEqual(notifyGrants('{"receivers": 3}'), { net: [], read: [], env: [] });
});

const event = (i: number, kind: string, data: unknown = {}): EventRow => ({
  ...{
    seq: i,
    at: i,
    runId: `R${i}`,
    runName: `lr-${i}`,
    kind,
    attempt: 1,
    dataJson: JSON.stringify(data),
  },
});

Deno.test("messages: one event is told with its hint, result and link; forty trials are one line each way", () => {
  const facts = { tags: ["sweep:lr"], hint: "Use a smaller batch.", result: "12m, reward 480" };
  assert.deepEqual(
    noticeOf([event(1, "failed", { reason: "oom_gpu" })], "https://m.lab", () => facts),
    {
      title: "lr-1 failed",
      text:
        "lr-1 failed: oom_gpu (run R1)\nUse a smaller batch.\n12m, reward 480\nhttps://m.lab/runs/R1",
      urgent: true,
    },
  );
  const events = Array.from(
    { length: 40 },
    (_, i) => event(i, i < 38 ? "failed" : "completed", { reason: "exit_code_1" }),
  );
  events[39] = event(39, "completed");
  const { title, text } = noticeOf(events, "", () => facts);
  assert.equal(title, "38 failed, 2 completed");
  assert.deepEqual(text.split("\n"), [
    "38 failed, 2 completed:",
    "38 × sweep lr: failed: exit_code_1 (lr-0, lr-1, lr-2, lr-3, lr-4 and 33 more)",
    "1 × sweep lr: completed: exit_code_1 (lr-38)",
    "1 × sweep lr: completed (lr-39)",
  ]);
  const long = Array.from(
    { length: 40 },
    (_, i) => event(i, "failed", { reason: `r${i}`.repeat(200) }),
  );
  const cut = noticeOf(long, "https://m.lab", () => undefined).text;
  assert.ok(cut.length <= 1000 && cut.endsWith("\nhttps://m.lab/"), cut);
});

interface Request {
  path: string;
  headers: Headers;
  body: Uint8Array;
}

/** A service that records requests. */
async function recorded(
  answer: () => Response,
  act: (url: string) => Promise<void>,
): Promise<Request[]> {
  const got: Request[] = [];
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      got.push({
        path: new URL(request.url).pathname,
        headers: request.headers,
        body: await request.bytes(),
      });
      return answer();
    },
  );
  await act(`http://127.0.0.1:${server.addr.port}`);
  return got;
}

const NOTICE = { title: "Übung failed", text: "Übung failed: <b>\n@everyone", urgent: true };
const PICTURE = curvePicture("loss", [{ name: "a", points: [{ x: 0, y: 1 }, { x: 1, y: 0 }] }])!;
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const fields = async ({ headers, body }: Request) =>
  await new Response(new Uint8Array(body), {
    headers: { "content-type": headers.get("content-type")! },
  }).formData();

Deno.test("services: each gets its own form, with the picture where it takes one", async () => {
  const got = await recorded(() => new Response("ok"), async (url) => {
    const secret = { secret_file: "/s/bot" };
    const receivers = parsed(
      { telegram: { chat: "@lab", api: url }, ...secret },
      { name: "discord", discord: `${url}/api/webhooks/{secret}`, ...secret },
      { name: "ntfy", ntfy: `${url}/topic`, secret_env: "MOSAIC_TOPIC" },
      { name: "slack", slack: `${url}/services/{secret}`, ...secret },
      {
        name: "other",
        http: {
          url: `${url}/messages`,
          headers: { Authorization: "Bearer {secret}", Title: "{title}" },
          body: { message: ["{text}", 1], title: "mosaic: {title} {braces}" },
        },
        ...secret,
      },
      { name: "plain", http: { url: `${url}/plain` } },
    );
    for (const receiver of receivers) {
      for (const picture of [undefined, PICTURE]) {
        assert.equal(
          await sendMessage(receiver, NOTICE, picture, AbortSignal.timeout(10_000)),
          undefined,
        );
      }
    }
  });
  const [telegram, photo, discord, attached, ntfy, shown, slack, , other, , plain] = got as [
    Request,
    ...Request[],
  ];
  // https://core.telegram.org/bots/api#sendmessage and #sendphoto
  assert.equal(telegram.path, "/bot123:AbC/sendMessage");
  assert.deepEqual(JSON.parse(text(telegram.body)), {
    ...{ chat_id: "@lab", text: NOTICE.text, link_preview_options: { is_disabled: true } },
  });
  assert.equal(photo!.path, "/bot123:AbC/sendPhoto");
  const photoForm = await fields(photo!);
  assert.deepEqual([photoForm.get("chat_id"), photoForm.get("caption")], [
    ...["@lab", NOTICE.text.replace("\n", "\r\n")],
  ]);
  assert.deepEqual(await (photoForm.get("photo") as File).bytes(), PICTURE);
  // https://docs.discord.com/developers/reference#uploading-files
  assert.equal(discord!.path, "/api/webhooks/123:AbC");
  const content = { content: NOTICE.text, allowed_mentions: { parse: [] } };
  assert.deepEqual(JSON.parse(text(discord!.body)), content);
  const attachedForm = await fields(attached!);
  assert.deepEqual(JSON.parse(attachedForm.get("payload_json") as string), content);
  assert.deepEqual(await (attachedForm.get("files[0]") as File).bytes(), PICTURE);
  // https://docs.ntfy.sh/publish: headers in RFC 2047, the picture as the body
  const encoded = (value: string) => `=?UTF-8?B?${new TextEncoder().encode(value).toBase64()}?=`;
  assert.deepEqual([
    ntfy!.headers.get("title"),
    ntfy!.headers.get("authorization"),
    text(ntfy!.body),
  ], [
    ...[encoded(NOTICE.title), "Bearer tk_x", NOTICE.text],
  ]);
  assert.deepEqual(shown!.body, PICTURE);
  assert.deepEqual([
    shown!.headers.get("filename"),
    shown!.headers.get("message"),
    shown!.headers.get("priority"),
  ], [
    ...["curve.png", encoded(NOTICE.text.replace("\n", "\\n")), "high"],
  ]);
  assert.deepEqual(JSON.parse(text(slack!.body)), { text: "Übung failed: &lt;b&gt;\n@everyone" });
  assert.deepEqual(JSON.parse(text(other!.body)), {
    ...{ message: [NOTICE.text, 1], title: "mosaic: Übung failed {braces}" },
  });
  assert.deepEqual([
    other!.headers.get("authorization"),
    other!.headers.get("title"),
    other!.headers.get("content-type"),
  ], [
    ...["Bearer 123:AbC", encoded(NOTICE.title), "application/json"],
  ]);
  assert.equal(text(plain!.body), NOTICE.text);
});

Deno.test("services: a refusal is told with the service's words, and never with the secret", async () => {
  // A port on which nobody listens.
  let closed = 0;
  await recorded(
    () => new Response(),
    (url) => Promise.resolve(void (closed = Number(new URL(url).port))),
  );
  const [bot] = parsed({
    telegram: { chat: "1", api: `http://127.0.0.1:${closed}` },
    secret_file: "/s/bot",
  });
  await assert.rejects(
    sendMessage(bot!, NOTICE, undefined, AbortSignal.timeout(10_000)),
    (error: Error) =>
      !error.message.includes("123:AbC") &&
      error.message.includes(`127.0.0.1:${closed}/bot••••••••`),
  );
  await recorded(
    () => new Response('{"description":"chat not found for 123:AbC"}', { status: 400 }),
    async (api) => {
      const [bot] = parsed({ telegram: { chat: "1", api }, secret_file: "/s/bot" });
      const refusal = await sendMessage(bot!, NOTICE, undefined, AbortSignal.timeout(10_000));
      assert.deepEqual(refusal, {
        why: 'HTTP 400: {"description":"chat not found for ••••••••"}',
        final: true,
      });
    },
  );
});
