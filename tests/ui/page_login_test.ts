import assert from "node:assert/strict";
import { pageLogin } from "../../src/ui/page_login.ts";
import type { Role } from "../../src/wire/tokens.ts";

const ORIGIN = "http://127.0.0.1:8055";

function fixture(secure = false) {
  const roles = new Map<string, Role>([["adm", "admin"], ["rd", "read"]]);
  const clock = { now: 1_000_000 };
  const holderOf = (token: string) => {
    const role = roles.get(token);
    return role && { name: role, role };
  };
  const login = pageLogin({ holderOf }, { secure, now: () => clock.now });
  const post = (
    path: string,
    token: string,
    headers: Record<string, string> = {},
    peer = "10.0.0.1",
  ) =>
    login.handle(
      new Request(`${ORIGIN}${path}`, {
        method: "POST",
        body: new URLSearchParams({ token }),
        headers: { origin: ORIGIN, ...headers },
      }),
      peer,
    );
  const cookieOf = (response: Response | undefined) =>
    response!.headers.get("set-cookie")!.split(";")[0]!;
  const who = (cookie: string) =>
    login.authenticate(new Request(`${ORIGIN}/api/runs`, { headers: { cookie } }), "10.0.0.1");
  return { roles, clock, login, post, cookieOf, who };
}

Deno.test("page: a visitor is sent to the form; programs get no redirect", async () => {
  const { login } = fixture();
  const visit = (accept: string) =>
    login.handle(new Request(`${ORIGIN}/runs/x`, { headers: { accept } }), "10.0.0.1");
  assert.equal((await visit("text/html"))?.headers.get("location"), "/login?to=%2Fruns%2Fx");
  assert.equal(await visit("application/json"), undefined);
  const form = await login.handle(new Request(`${ORIGIN}/login`), "10.0.0.1");
  assert.equal(form?.status, 200);
  assert.match(
    form!.headers.get("content-security-policy")!,
    /default-src 'none'; style-src 'sha256-/,
  );
});

Deno.test("page: a login leads where the visitor wanted to go, and nowhere outside of the page", async () => {
  const { login } = fixture();
  const formFor = async (to: string) =>
    await (await login.handle(
      new Request(`${ORIGIN}/login?to=${encodeURIComponent(to)}`),
      "10.0.0.1",
    ))!.text();
  assert.match(await formFor('/compare?runs=a"b'), /name="to" value="\/compare\?runs=a&#34;b"/);
  const hostile = [
    "//evil.example",
    "/\\evil.example",
    "https://evil.example",
    "/login?to=/",
    "javascript:x",
    "/a\nb",
    "",
  ];
  for (const to of hostile) assert.match(await formFor(to), /name="to" value="\/"/, to);
  const logIn = async (to: string) =>
    (await login.handle(
      new Request(`${ORIGIN}/login`, {
        method: "POST",
        body: new URLSearchParams({ token: "adm", to }),
      }),
      "10.0.0.1",
    ))!.headers.get("location");
  assert.deepEqual([await logIn("/runs/x?a=1"), await logIn("//evil.example")], [
    "/runs/x?a=1",
    "/",
  ]);
});

Deno.test("page: the right token opens a session whose cookie is not the token and which scripts cannot read", async () => {
  const { post, cookieOf, who } = fixture(true);
  const answer = await post("/login", "adm");
  assert.equal(answer?.status, 303);
  assert.match(
    answer!.headers.get("set-cookie")!,
    /HttpOnly; SameSite=Strict; Max-Age=\d+; Secure/,
  );
  const cookie = cookieOf(answer);
  assert.ok(!cookie.includes("adm"));
  assert.deepEqual(await who(cookie), { name: "admin", readOnly: false, admin: true });
  assert.deepEqual(await who(cookieOf(await post("/login", "rd"))), {
    name: "reader",
    readOnly: true,
    admin: false,
  });
  assert.equal(await who("mosaic_session=forged"), undefined);
});

Deno.test("page: many wrong tokens of a peer are refused for a while, and never a right one, whoever sends it", async () => {
  const { login, post, clock } = fixture();
  for (let i = 0; i < 30; i++) assert.equal((await post("/login", `guess${i}`))?.status, 401);
  const refused = await post("/login", "guess");
  assert.equal(refused?.status, 429);
  assert.ok(Number(refused!.headers.get("retry-after")) <= 60);
  assert.equal((await post("/login", "adm"))?.status, 303);
  assert.equal((await post("/login", "guess", {}, "10.0.0.2"))?.status, 401);
  assert.equal((await post("/login", "adm", {}, "10.0.0.2"))?.status, 303);
  // Tokens that programs send are counted with them.
  const ask = async (token: string, peer: string) =>
    await login.authenticate(
      new Request(`${ORIGIN}/metrics`, { headers: { authorization: `Bearer ${token}` } }),
      peer,
    );
  await assert.rejects(ask("guess", "10.0.0.1"), { code: "resource_exhausted" });
  assert.equal((await ask("rd", "10.0.0.1"))?.readOnly, true);
  assert.equal(await ask("guess", "10.0.0.3"), undefined);
  clock.now += 60_000;
  assert.equal((await post("/login", "guess"))?.status, 401);
});

Deno.test("page: wrong tokens of any number of peers are counted in bounded memory", async () => {
  const { post } = fixture();
  for (let i = 0; i < 10_000; i++) await post("/login", "guess", {}, `peer-${i}`);
  for (let i = 0; i < 30; i++) {
    assert.equal((await post("/login", "guess", {}, `late-${i}`))?.status, 401);
  }
  assert.equal((await post("/login", "guess", {}, "late"))?.status, 429);
  assert.equal((await post("/login", "guess", {}, "peer-7"))?.status, 401);
  assert.equal((await post("/login", "adm", {}, "late"))?.status, 303);
});

Deno.test("page: another site's form is refused", async () => {
  const { post } = fixture();
  assert.equal((await post("/login", "adm", { origin: "http://evil.example" }))?.status, 403);
  assert.equal((await post("/login", "adm", { "sec-fetch-site": "cross-site" }))?.status, 403);
});

Deno.test("page: a session ends by logging out, by time, and with the token that opened it", async () => {
  const { login, post, cookieOf, who, clock, roles } = fixture();
  const first = cookieOf(await post("/login", "adm"));
  await login.handle(
    new Request(`${ORIGIN}/logout`, { method: "POST", headers: { cookie: first } }),
    "10.0.0.1",
  );
  assert.equal(await who(first), undefined);
  const second = cookieOf(await post("/login", "adm"));
  clock.now += 13 * 3600_000;
  assert.equal(await who(second), undefined);
  const third = cookieOf(await post("/login", "adm"));
  roles.delete("adm");
  assert.equal(await who(third), undefined);
});

Deno.test("page: programs may send the token as a bearer", async () => {
  const { login } = fixture();
  const ask = (token: string) =>
    login.authenticate(
      new Request(`${ORIGIN}/metrics`, { headers: { authorization: `Bearer ${token}` } }),
      "10.0.0.1",
    );
  assert.equal((await ask("rd"))?.readOnly, true);
  assert.equal(await ask("x"), undefined);
});
