/**
 * Checks of every request before it reaches a route, in this order: Host (DNS rebinding), body
 * size, authentication, authorisation. Requests that change something also need our Origin, the
 * page's CSRF token and a role. Every answer gets the security headers.
 */
import type { MiddlewareHandler } from "hono";
import { MosaicError } from "../../base/errors.ts";
import type { Audit } from "../../wire/audit.ts";
import { type BodyLimits, checkLength, hostsOf, originOf } from "./request.ts";
import { type Authenticate, type Identity, LOCAL_OWNER } from "./viewer.ts";

/** Who sent a request. */
export interface RequestPeer {
  /** The sender's address. */
  peer: string;
  /** It came from the daemon's user, who needs no credential. */
  owner: boolean;
  /** The sender's user on this machine, if known. */
  uid?: number | undefined;
  /** It came by the daemon's Unix socket, which browsers cannot open. */
  bySocket: boolean;
}

export interface PageEnv {
  /** `identity`: already known, by the application that hands the request on. */
  Bindings: RequestPeer & { identity?: Identity };
  Variables: { identity: Identity };
}

/** No inline script or style, nothing from other hosts, no frames around the page. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "media-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "::1"];
const WILDCARDS = ["0.0.0.0", "::"];

function normalizedHost(hostname: string): string {
  return hostname.toLowerCase().replace(/^\[|\]$/g, "").replace(/\.$/, "");
}

function isAddress(hostname: string): boolean {
  return hostname.includes(":") || /^\d+\.\d+\.\d+\.\d+$/.test(hostname);
}

/**
 * Whether a request may name `hostname` as its host when the page listens on `bound`.
 *
 * DNS rebinding needs a name that an attacker controls, so any literal address is accepted when the
 * page listens on all.
 */
function isOwnHost(hostname: string, bound: string, extra: readonly string[] = []): boolean {
  const name = normalizedHost(hostname);
  const own = normalizedHost(bound);
  if (LOOPBACK_NAMES.includes(name) || name.endsWith(".localhost")) return true;
  if (name === own || extra.some((e) => normalizedHost(e) === name)) return true;
  if (!WILDCARDS.includes(own)) return false;
  return isAddress(name) || name === Deno.hostname().toLowerCase();
}

/**
 * @throws MosaicError `permission_denied` if a browser may have been directed here by a foreign
 * name (DNS rebinding)
 */
export function refuseForeignHost(
  request: Request,
  { bound, hosts }: Pick<GuardOptions, "bound" | "hosts">,
): void {
  const foreign = hostsOf(request).find(({ name }) => !isOwnHost(name, bound, hosts))?.name;
  if (foreign === undefined) return;
  throw new MosaicError(
    "permission_denied",
    `nothing is served here under the host name "${foreign}"`,
    {
      hint: "Use the address that the daemon printed.",
    },
  );
}

/** Browsers state the origin of every request that can change something; programs do not. */
export function isFromBrowser(request: Request): boolean {
  return request.headers.has("origin") || request.headers.has("sec-fetch-site");
}

/**
 * @throws MosaicError `permission_denied` for a request that the page itself did not send (CSRF)
 */
export function refuseForeignChange(request: Request, token: string): void {
  const { headers } = request;
  const origin = originOf(request);
  const site = headers.get("sec-fetch-site");
  const foreignOrigin = origin !== undefined && origin !== hostsOf(request)[0]!.host;
  if (foreignOrigin || (site !== null && site !== "same-origin")) {
    throw new MosaicError(
      "permission_denied",
      `another site requested a change (${origin ?? site})`,
    );
  }
  if (!sameText(headers.get("x-mosaic-token") ?? "", token)) {
    throw new MosaicError(
      "permission_denied",
      "the header x-mosaic-token is missing or from an earlier daemon",
      {
        hint:
          "Reload the page; programs use the command line or the API (docs/reference/wire.md) instead.",
      },
    );
  }
}

/** Takes the same time wherever the texts differ. */
function sameText(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < b.length; i++) difference |= (a.charCodeAt(i) || 0) ^ b.charCodeAt(i);
  return difference === 0;
}

export interface GuardOptions {
  /** The host that the page listens on. */
  bound: string;
  /** Further names of the page's host. */
  hosts: readonly string[];
  token: string;
  authenticate: Authenticate | undefined;
  /** Answers requests of logging in and out, which need no authentication. */
  logIn: ((request: Request, peer: string) => Promise<Response | undefined>) | undefined;
  body: BodyLimits;
  audit: Audit | undefined;
}

/** POST requests that change nothing: the role read is enough. */
const READS = [
  "/api/series",
  "/api/series/names",
  "/api/compared",
  "/api/compared/first",
  "/api/report",
];
/** Paths without authentication: probes carry no credential and learn nothing. */
const OPEN_PATHS = ["/healthz", "/readyz"];
export const isOpenPath = (path: string) => OPEN_PATHS.includes(path);

const SAFE_HEADERS = {
  "content-security-policy": CONTENT_SECURITY_POLICY,
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), microphone=(), geolocation=()",
};

/** For every answer, including downloads, streams and refusals. */
export const safeHeaders: MiddlewareHandler<PageEnv> = async (c, next) => {
  await next();
  for (const [name, value] of Object.entries(SAFE_HEADERS)) {
    // The login form has its own policy, which is as strict and allows the form to be sent.
    if (!c.res.headers.has(name)) c.res.headers.set(name, value);
  }
};

/** The sender's part of an entry in the audit log. */
export function requestedBy(
  { peer, uid }: RequestPeer,
): { address: string; uid: number | undefined } {
  return { address: peer || "unix", uid };
}

export function guard(options: GuardOptions): MiddlewareHandler<PageEnv> {
  return async (c, next) => {
    const request = c.req.raw;
    const { peer, owner, bySocket } = c.env;
    checkLength(request, options.body);
    if (isOpenPath(c.req.path)) {
      hostsOf(request);
      return await next();
    }
    const changes = !["GET", "HEAD"].includes(c.req.method);
    if (!bySocket) {
      refuseForeignHost(request, options);
      originOf(request);
      const entry = owner ? undefined : await options.logIn?.(request, peer);
      if (entry !== undefined) return entry;
    }
    const identity = owner || options.authenticate === undefined
      ? LOCAL_OWNER
      : await options.authenticate(request, peer);
    const refuse = (who: string, error: MosaicError): MosaicError => {
      const { code: outcome, message } = error;
      options.audit?.refused({
        who,
        ...requestedBy(c.env),
        action: `page ${c.req.path}`,
        outcome,
        message,
      });
      return error;
    };
    if (identity === undefined) {
      throw refuse(
        "nobody",
        new MosaicError("unauthenticated", "this page needs a valid credential"),
      );
    }
    if (changes && !bySocket) refuseForeignChange(request, options.token);
    if (changes && identity.readOnly && !READS.includes(c.req.path)) {
      const message = `${identity.name} may read runs but not change them`;
      throw refuse(identity.name, new MosaicError("permission_denied", message));
    }
    c.set("identity", identity);
    await next();
  };
}
