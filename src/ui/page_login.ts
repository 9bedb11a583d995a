/**
 * The status page behind a token: a form takes it once, a cookie stands for it from then on. The cookie is a random name
 * of a session in the daemon's memory, never the token; scripts of the page cannot read it, other sites cannot send it.
 */
import { randomBytes } from "node:crypto";
import type { Authenticate, Identity } from "./identity.ts";
import type { Role, TokenFile } from "../wire/tokens.ts";

const COOKIE = "mosaic_session";
const SESSION_MS = 12 * 3600_000;
/** More than a person has browsers; beyond, the oldest is logged out. */
const MAX_SESSIONS = 1000;
const MAX_FORM_BYTES = 4096;
/** Wrong tokens a minute, over all who try: 256 bits are not guessed, but trying costs the daemon time. */
const WRONG_A_MINUTE = 30;

const IDENTITIES: Record<Role, Identity> = {
  admin: { name: "admin", readOnly: false },
  read: { name: "reader", readOnly: true },
};

export interface PageLogin {
  authenticate: Authenticate;
  /** Answers what belongs to logging in and out; undefined for everything else. */
  handle(request: Request): Promise<Response | undefined>;
}

interface Session {
  /** Looked up again at each request: a rotated token ends the sessions that it opened. */
  token: string;
  until: number;
}

/** @param secure the page speaks HTTPS, so the cookie may demand it. */
export function pageLogin(
  tokens: Pick<TokenFile, "roleOf">,
  options: { secure: boolean; now?: () => number },
): PageLogin {
  const now = options.now ?? Date.now;
  const sessions = new Map<string, Session>();
  let wrong = { minute: 0, count: 0 };

  const roleOf = (request: Request): Role | undefined => {
    const bearer = /^Bearer (\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
    if (bearer !== undefined) return tokens.roleOf(bearer);
    const id = cookieOf(request);
    const session = id === undefined ? undefined : sessions.get(id);
    if (session === undefined) return undefined;
    const role = session.until > now() ? tokens.roleOf(session.token) : undefined;
    if (role === undefined) sessions.delete(id!);
    return role;
  };

  const open = (token: string): string => {
    if (sessions.size >= MAX_SESSIONS) sessions.delete(sessions.keys().next().value!);
    const id = randomBytes(32).toString("base64url");
    sessions.set(id, { token, until: now() + SESSION_MS });
    return id;
  };

  const cookie = (value: string, seconds: number) =>
    `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${options.secure ? "; Secure" : ""}`;

  const tooMany = (): boolean => {
    const minute = Math.floor(now() / 60_000);
    if (wrong.minute !== minute) wrong = { minute, count: 0 };
    return wrong.count >= WRONG_A_MINUTE;
  };

  const logIn = async (request: Request): Promise<Response> => {
    if (isForeign(request)) return form(403, "This form was sent by another site.");
    if (tooMany()) return form(429, "Too many wrong tokens; wait a minute.");
    const token = await tokenOf(request);
    if (token === undefined || tokens.roleOf(token) === undefined) {
      wrong.count++;
      return form(401, "That is not one of this daemon's tokens.");
    }
    return new Response(null, {
      status: 303,
      headers: { location: "/", "set-cookie": cookie(open(token), SESSION_MS / 1000), "cache-control": "no-store" },
    });
  };

  return {
    authenticate(request) {
      const role = roleOf(request);
      return role === undefined ? undefined : IDENTITIES[role];
    },
    async handle(request) {
      const { pathname } = new URL(request.url);
      if (pathname === "/login") return request.method === "POST" ? await logIn(request) : form(200, "");
      if (pathname === "/logout" && request.method === "POST" && !isForeign(request)) {
        sessions.delete(cookieOf(request) ?? "");
        return new Response(null, { status: 303, headers: { location: "/login", "set-cookie": cookie("", 0) } });
      }
      const isVisit = request.method === "GET" && (request.headers.get("accept") ?? "").includes("text/html");
      if (!isVisit || roleOf(request) !== undefined) return undefined;
      return new Response(null, { status: 303, headers: { location: "/login", "cache-control": "no-store" } });
    },
  };
}

function cookieOf(request: Request): string | undefined {
  for (const part of (request.headers.get("cookie") ?? "").split(";")) {
    const [name, value] = part.trim().split("=");
    if (name === COOKIE && value) return value;
  }
  return undefined;
}

function isForeign(request: Request): boolean {
  const site = request.headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin" && site !== "none") return true;
  const origin = request.headers.get("origin");
  return origin !== null && origin !== "null" && new URL(origin).host !== new URL(request.url).host;
}

async function tokenOf(request: Request): Promise<string | undefined> {
  if (Number(request.headers.get("content-length") ?? "0") > MAX_FORM_BYTES) return undefined;
  const text = await request.text();
  return text.length > MAX_FORM_BYTES ? undefined : new URLSearchParams(text).get("token")?.trim();
}

function form(status: number, problem: string): Response {
  const said = problem === "" ? "" : `<p role="alert">${problem}</p>`;
  const body = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>mosaic: log in</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head><body><main><h1>mosaic</h1>${said}
<form method="post" action="/login"><label>Token <input name="token" type="password" autocomplete="current-password"
 required autofocus></label> <button>Log in</button></form>
<p><code>mosaic token show</code> prints it on the daemon's machine.</p></main></body></html>`;
  return new Response(body, {
    status,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "cache-control": "no-store",
      "content-security-policy": "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    },
  });
}
