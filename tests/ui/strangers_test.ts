/**
 * What a stranger sends to the port of the page, byte by byte: it is refused before anybody is
 * known, and costs nothing.
 */
import assert from "node:assert/strict";
import { pageLogin } from "../../src/ui/page_login.ts";
import { type BodyLimits, textOf } from "../../src/ui/http/request.ts";
import { createApp } from "../../src/ui/app.ts";
import { listenHttp } from "../../src/wire/http/http_listener.ts";
import { PlayedEngine } from "../harness/played_engine.ts";

type Send = (text: string) => Promise<void>;
/** Writes to a connection until it is answered. */
type Talk = (send: Send, answered: () => boolean) => Promise<void>;

/** A page behind a token, and a way to speak to it in bytes. */
async function withPage(
  work: (page: {
    core: PlayedEngine;
    port: number;
    /** Opens a connection, lets `talk` write to it, and gives the answer's head and body. */
    ask: (...talk: (string | Talk)[]) => Promise<string>;
  }) => Promise<void>,
  options: { guarded?: boolean; body?: Partial<BodyLimits> } = {},
): Promise<void> {
  await using core = new PlayedEngine();
  const login = pageLogin({
    holderOf: (token) => token === "adm" ? { name: "admin", role: "admin" } : undefined,
  }, {
    secure: false,
    ...(options.body === undefined ? {} : { form: options.body }),
  });
  const hostname = "127.0.0.1";
  const page = createApp(core, {
    log: core.log,
    bound: hostname,
    ...(options.guarded === false ? {} : { authenticate: login.authenticate, logIn: login.handle }),
    ...(options.body === undefined ? {} : { body: options.body }),
  });
  const server = listenHttp({
    address: { hostname, port: 0 },
    log: core.log,
    handler: (request) => page.fetch(request, { peer: hostname, owner: false, bySocket: false }),
  });
  const port = Number(server.address.split(":")[1]);
  try {
    await work({
      core,
      port,
      async ask(...talk) {
        using connection = await Deno.connect({ hostname: "127.0.0.1", port });
        const encoder = new TextEncoder();
        const send: Send = async (text) => {
          const bytes = encoder.encode(text);
          for (let done = 0; done < bytes.length;) {
            done += await connection.write(bytes.subarray(done));
          }
        };
        let answered = false;
        // It may be answered, and closed, before all is sent.
        const sending = (async () => {
          for (const part of talk) {
            await (typeof part === "string" ? send(part) : part(send, () => answered));
          }
        })().catch(() => {});
        const answer = await answerOf(connection);
        answered = true;
        await sending;
        return answer;
      },
    });
  } finally {
    page.stop();
    await server.stop();
  }
}

/** Until the connection closes, or the announced length is there. */
async function answerOf(connection: Deno.Conn): Promise<string> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(65536);
  let text = "";
  for (;;) {
    const n = await connection.read(buffer).catch(() => null);
    if (n === null) return text;
    text += decoder.decode(buffer.subarray(0, n), { stream: true });
    const end = text.indexOf("\r\n\r\n");
    const length = Number(/^content-length: (\d+)/im.exec(text)?.[1] ?? NaN);
    if (end >= 0 && text.length >= end + 4 + length) return text;
  }
}

const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0);
const head = (path: string, port: number, ...headers: string[]) =>
  [`POST ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, ...headers, "", ""].join("\r\n");
const CHUNKED = "Transfer-Encoding: chunked";

/**
 * Sends chunks until there is an answer: a server that wants the whole body gets no end of it
 * before this bound.
 */
const MOST = 64 << 20;
function endless(told: (sent: number) => void): Talk {
  const chunk = `10000\r\n${"a".repeat(0x10000)}\r\n`;
  return async (send, answered) => {
    let sent = 0;
    for (; sent < MOST && !answered(); sent += 0x10000) await send(chunk);
    told(sent);
    if (!answered()) await send("0\r\n\r\n");
  };
}

Deno.test("strangers: a body without end is refused by 413, before anybody is known and before it has ended", async () => {
  await withPage(async ({ port, ask }) => {
    for (
      const path of ["/login", "/logout", "/api/runs/actions", "/api/runs/x/cancel", "/nothing"]
    ) {
      let sent = 0;
      const answer = await ask(head(path, port, CHUNKED), endless((n) => sent = n));
      assert.ok(
        [401, 404, 413, 303].includes(statusOf(answer)),
        `${path}: ${answer.slice(0, 200)}`,
      );
      if (path === "/login") {
        assert.equal(statusOf(answer), 413);
        assert.match(answer, /longer than 4096 bytes/);
      }
      assert.ok(sent < MOST, `${path}: no answer before ${sent} bytes`);
      const announced = await ask(head(path, port, "Content-Length: 10000000"));
      assert.equal(statusOf(announced), 413, path);
    }
  });
  await withPage(async ({ core, port, ask }) => {
    const { runId } = core.addExecuting("one");
    const { token } = await (await fetch(`http://127.0.0.1:${port}/api/session`)).json();
    for (const path of [`/api/runs/${runId}/pause`, "/api/runs/actions"]) {
      let sent = 0;
      const answer = await ask(
        head(path, port, CHUNKED, `x-mosaic-token: ${token}`),
        endless((n) => sent = n),
      );
      assert.equal(statusOf(answer), 413, answer.slice(0, 300));
      assert.match(answer, /content_too_large.*longer than 65536 bytes/);
      assert.ok(sent < MOST, `${path}: no answer before ${sent} bytes`);
    }
    assert.equal(core.registry.require(runId).state, "EXECUTING");
  }, { guarded: false });
});

Deno.test("strangers: a body that does not come is answered by 408, and its connection closed", async () => {
  const body = { withinMs: 100 };
  await withPage(async ({ port, ask }) => {
    const form = "Content-Type: application/x-www-form-urlencoded";
    for (const rest of [[form, "Content-Length: 9"], [form, CHUNKED]]) {
      const answer = await ask(head("/login", port, ...rest), "");
      assert.equal(statusOf(answer), 408, answer);
      assert.match(answer, /longer than 0\.1 s/);
      assert.match(answer, /^connection: close/im);
    }
  }, { body });
  await withPage(async ({ core, port, ask }) => {
    const { runId } = core.addExecuting("one");
    const { token } = await (await fetch(`http://127.0.0.1:${port}/api/session`)).json();
    const path = `/api/runs/${runId}/pause`;
    const answer = await ask(
      head(path, port, "Content-Length: 9", `x-mosaic-token: ${token}`),
      "{",
    );
    assert.equal(statusOf(answer), 408, answer);
    assert.match(answer, /request_timeout/);
  }, { guarded: false, body });
});

Deno.test("strangers: a Host or an Origin that is none is the sender's mistake, not a defect", async () => {
  for (const guarded of [true, false]) {
    await withPage(async ({ port, ask }) => {
      const get = (path: string, ...headers: string[]) =>
        ask([`GET ${path} HTTP/1.1`, ...headers, "", ""].join("\r\n"));
      for (const path of ["/", "/login", "/api/runs", "/healthz", "/nothing"]) {
        for (
          const host of [
            "127.0.0.1:99999",
            "127.0.0.1:x",
            "a b",
            "user@127.0.0.1",
            "127.0.0.1/x",
            "[::1",
            "",
          ]
        ) {
          const answer = await get(path, `Host: ${host}`);
          assert.equal(statusOf(answer), 400, `${path} ${host}: ${answer}`);
        }
      }
      const own = `Host: 127.0.0.1:${port}`;
      for (const path of ["/login", "/api/runs"]) {
        assert.equal(statusOf(await get(path, own, "Origin: x")), 400);
        const post = await ask(head(path, port, "Origin: x", "Content-Length: 0"));
        assert.equal(statusOf(post), 400, post);
        assert.match(post, /Origin/);
      }
      assert.equal(statusOf(await get("/login", "Host: evil.example")), 403);
      assert.equal(statusOf(await get("/healthz", own)), 200);
    }, { guarded });
  }
});

Deno.test("strangers: logging in works over the wire, with the form's own policy, beside one who guesses", async () => {
  await withPage(async ({ port, ask }) => {
    const logIn = (token: string) =>
      ask(
        head(
          "/login",
          port,
          `Origin: http://127.0.0.1:${port}`,
          `Content-Length: ${6 + token.length}`,
        ),
        `token=${token}`,
      );
    for (let i = 0; i < 30; i++) assert.equal(statusOf(await logIn("guess")), 401);
    assert.equal(statusOf(await logIn("guess")), 429);
    const answer = await logIn("adm");
    assert.equal(statusOf(answer), 303, answer);
    assert.match(answer, /set-cookie: mosaic_session=/i);
    const form = await ask(`GET /login HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
    assert.match(form, /content-security-policy: [^\r]*form-action 'self'/i);
  });
});

Deno.test("guard: a body that comes in many small pieces is held as the text that it is, not as its pieces", async () => {
  // As the runtime hands them over: each in a buffer of its own, which is much larger.
  const buffers = 400;
  let sent = 0;
  let most = 0;
  const { external } = Deno.memoryUsage();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      // As pieces come: not before the last was looked at.
      await new Promise((resolve) => setImmediate(resolve));
      most = Math.max(most, Deno.memoryUsage().external - external);
      if (sent++ === buffers) return controller.close();
      controller.enqueue(new Uint8Array(1 << 20).fill(97).subarray(0, 1));
    },
  }, { highWaterMark: 0 });
  const request = new Request("http://localhost/", { method: "POST", body });
  assert.equal(await textOf(request, { maxBytes: 1000, withinMs: 60_000 }), "a".repeat(buffers));
  assert.ok(most < 200 << 20, `${most >> 20} MiB`);
});
