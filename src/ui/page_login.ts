/**
 * Login to the status page: a form takes the token once and sets a cookie. The cookie is the random
 * id of a session in the daemon's memory, never the token; it is HttpOnly (scripts cannot read it)
 * and SameSite (other sites cannot send it).
 */
import { nodeCrypto } from "../base/node_modules.ts";
import { MosaicError } from "../base/errors.ts";
import { RequestRefused } from "./http/answers.ts";
import { type BodyLimits, hostsOf, originOf, textOf } from "./http/request.ts";
import type { Authenticate, Identity } from "./http/viewer.ts";
import { type Holder, mayDo, type TokenFile } from "../wire/tokens.ts";

const COOKIE = "mosaic_session";
const SESSION_MS = 12 * 3600_000;
/** Beyond this, the oldest session is logged out. */
const MAX_SESSIONS = 1000;
/** Bounds of the form's body, whatever was pasted into it. */
const FORM_LIMITS: BodyLimits = { maxBytes: 4096, withinMs: 15_000 };
/**
 * Wrong tokens per minute and peer: 256 bits cannot be guessed, but repeated tries are not answered
 * without limit.
 */
const WRONG_A_MINUTE = 30;
/** Peers whose wrong tokens are counted per minute; further peers share one count. */
const MAX_PEERS = 10_000;

function identityOf({ name, role, own = false, alone = false }: Holder): Identity {
  return {
    name: name === "read" ? "reader" : name,
    readOnly: !mayDo(role, "operate"),
    admin: role === "admin",
    ...(own && { own }),
    ...(alone && { alone }),
  };
}

export interface PageLogin {
  authenticate: Authenticate;
  /** Answers requests of logging in and out; undefined for all others. */
  handle(request: Request, peer: string): Promise<Response | undefined>;
}

interface Session {
  /** Checked again at each request: rotating a token ends the sessions that it opened. */
  token: string;
  until: number;
}

/** @param secure the page uses HTTPS, so the cookie can require it. */
export function pageLogin(
  tokens: Pick<TokenFile, "holderOf">,
  options: { secure: boolean; now?: () => number; form?: Partial<BodyLimits> },
): PageLogin {
  const now = options.now ?? Date.now;
  const sessions = new Map<string, Session>();
  const formLimits = { ...FORM_LIMITS, ...options.form };
  let wrong = { minute: 0, counts: new Map<string, number>() };

  const holderOf = (request: Request): Holder | undefined => {
    const bearer = /^Bearer (\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
    if (bearer !== undefined) return tokens.holderOf(bearer);
    const id = cookieOf(request);
    const session = id === undefined ? undefined : sessions.get(id);
    if (session === undefined) return undefined;
    const holder = session.until > now() ? tokens.holderOf(session.token) : undefined;
    if (holder === undefined) sessions.delete(id!);
    return holder;
  };

  const open = (token: string): string => {
    if (sessions.size >= MAX_SESSIONS) sessions.delete(sessions.keys().next().value!);
    const id = nodeCrypto().randomBytes(32).toString("base64url");
    sessions.set(id, { token, until: now() + SESSION_MS });
    return id;
  };

  const cookie = (value: string, seconds: number) =>
    `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${
      options.secure ? "; Secure" : ""
    }`;

  /**
   * Counts a wrong token of the peer, and returns whether it has sent too many. Not called for a
   * right token.
   */
  const tooManyWrong = (peer: string): boolean => {
    const minute = Math.floor(now() / 60_000);
    if (wrong.minute !== minute) wrong = { minute, counts: new Map() };
    const { counts } = wrong;
    const who = counts.has(peer) || counts.size < MAX_PEERS ? peer : "";
    const count = (counts.get(who) ?? 0) + 1;
    counts.set(who, count);
    return count > WRONG_A_MINUTE;
  };
  const untilNextMinute = () => 60_000 - now() % 60_000;

  const logIn = async (request: Request, peer: string): Promise<Response> => {
    if (isForeign(request)) return form(403, "This form was sent by another site.", "/");
    let token: string | undefined;
    let to = "/";
    try {
      const fields = new URLSearchParams(await textOf(request, formLimits));
      token = fields.get("token")?.trim();
      to = ownPath(fields.get("to"));
    } catch (error) {
      if (!(error instanceof RequestRefused)) throw error;
      const answer = form(error.status, `The form was not read: ${error.message}.`, "/");
      // Cancel the rest, so that it does not hold the connection.
      answer.headers.set("connection", "close");
      return answer;
    }
    if (token === undefined || tokens.holderOf(token) === undefined) {
      if (!tooManyWrong(peer)) return form(401, "That is not one of this daemon's tokens.", to);
      const answer = form(
        429,
        "That is not one of this daemon's tokens; too many wrong ones came from your address.",
        to,
      );
      answer.headers.set("retry-after", String(Math.ceil(untilNextMinute() / 1000)));
      return answer;
    }
    return new Response(null, {
      status: 303,
      headers: {
        location: to,
        "set-cookie": cookie(open(token), SESSION_MS / 1000),
        "cache-control": "no-store",
      },
    });
  };

  return {
    authenticate(request, peer) {
      const holder = holderOf(request);
      if (holder !== undefined) return identityOf(holder);
      if (request.headers.has("authorization") && tooManyWrong(peer)) {
        throw new MosaicError(
          "resource_exhausted",
          "too many wrong tokens came from this address",
          {
            retryAfterMs: untilNextMinute(),
          },
        );
      }
      return undefined;
    },
    async handle(request, peer) {
      const { pathname, search, searchParams } = new URL(request.url);
      if (pathname === "/login") {
        return request.method === "POST"
          ? await logIn(request, peer)
          : form(200, "", ownPath(searchParams.get("to")));
      }
      if (pathname === "/logout" && request.method === "POST" && !isForeign(request)) {
        sessions.delete(cookieOf(request) ?? "");
        return new Response(null, {
          status: 303,
          headers: { location: "/login", "set-cookie": cookie("", 0) },
        });
      }
      const isVisit = request.method === "GET" &&
        (request.headers.get("accept") ?? "").includes("text/html");
      if (!isVisit || holderOf(request) !== undefined) return undefined;
      const to = `${pathname}${search}`;
      const location = to === "/" ? "/login" : `/login?to=${encodeURIComponent(to)}`;
      return new Response(null, {
        status: 303,
        headers: { location, "cache-control": "no-store" },
      });
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
  const origin = originOf(request);
  return origin !== undefined && origin !== "null" && origin !== hostsOf(request)[0]!.host;
}

/** Longer addresses are not kept through the login. */
const MOST_ADDRESS = 2000;

/** The address that a visitor wanted, if it is a path of this page; no other site's. */
function ownPath(wanted: string | null): string {
  const isOwn = wanted !== null && wanted.length <= MOST_ADDRESS &&
    /^\/(?![/\\])[\x21-\x7e]*$/.test(wanted);
  return isOwn && !wanted.startsWith("/login") ? wanted : "/";
}

const STYLE =
  `:root{color-scheme:light dark}body{margin:0;min-height:100vh;display:grid;place-items:center;
font:15px/1.5 system-ui,sans-serif;background:light-dark(#f6f7f9,#0e1116);color:light-dark(#1a1e24,#e4e8ee)}
main{width:min(360px,calc(100vw - 32px));box-sizing:border-box;padding:28px;border:1px solid light-dark(#dfe3e8,#28303a);
border-radius:12px;background:light-dark(#fff,#151a21)}h1{margin:0 0 16px;font-size:22px}
label,form{display:grid;gap:6px}form{gap:14px}input,button{font:inherit;padding:9px 12px;border-radius:7px}
input{border:1px solid light-dark(#8a93a0,#6b7686);background:transparent;color:inherit}
button{border:0;background:light-dark(#1a5fc4,#7db2ff);color:light-dark(#fff,#0b1a30);font-weight:600;cursor:pointer}
:focus-visible{outline:2px solid light-dark(#1a5fc4,#7db2ff);outline-offset:2px}
[role=alert]{margin:0 0 14px;color:light-dark(#b42318,#ff8a80)}main>p:last-child{margin:16px 0 0;font-size:13px;
color:light-dark(#596270,#9aa5b4)}`;
let styleHash: string | undefined;

const escaped = (text: string) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/** @param to where a login leads */
function form(status: number, problem: string, to: string): Response {
  styleHash ??= nodeCrypto().createHash("sha256").update(STYLE).digest("base64");
  const alertHtml = problem === "" ? "" : `<p role="alert">${escaped(problem)}</p>`;
  const body =
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>mosaic: log in</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>${STYLE}</style></head>
<body><main><h1>mosaic</h1>${alertHtml}
<form method="post" action="/login"><input type="hidden" name="to" value="${
      escaped(to)
    }"><label>Token <input name="token" type="password" autocomplete="current-password"
 required autofocus></label> <button>Log in</button></form>
<p><code>mosaic token show</code> prints it on the daemon's machine.</p></main></body></html>`;
  return new Response(body, {
    status,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "cache-control": "no-store",
      "content-security-policy":
        `default-src 'none'; style-src 'sha256-${styleHash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    },
  });
}
