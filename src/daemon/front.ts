/**
 * The one way in over HTTP, for the page and the API alike. In order: from where a request comes (Host, Origin), how large
 * it is, who sends it, whether that one may; then the handler. What comes by the daemon's own socket comes from its user.
 */
import type { Api } from "../rpc/connect/api.ts";
import type { Peer } from "../rpc/calls.ts";
import { errorBody } from "../ui/answers.ts";
import type { PageApp } from "../ui/app.ts";
import { isBrowsers, refuseForeignChange, refuseForeignHost } from "../ui/guard.ts";
import type { HttpHandler } from "../wire/http_listener.ts";

export interface FrontOptions {
  api: Api;
  page: PageApp;
  /** The host we listen on; "" on the daemon's own socket. */
  bound: string;
  /** Calls of the API need a token, which no browser sends by itself. */
  tokens: boolean;
}

export function front({ api, page, bound, tokens }: FrontOptions): HttpHandler {
  return async (request, info) => {
    const peer = peerOf(info.remoteAddr);
    const path = pathOf(request.url);
    if (api.has(path)) {
      if (!peer.owner) {
        try {
          if (!tokens || isBrowsers(request)) refuseForeignHost(request, { bound, hosts: [] });
          if (isBrowsers(request)) refuseForeignChange(request, page.token);
        } catch (error) {
          return refused(error);
        }
      }
      return await api.answer(path, request, peer);
    }
    return await page.fetch(request, { peer: addressOf(info.remoteAddr), owner: peer.owner });
  };
}

/** Connections that nobody else can make have no names of their own. */
const OWNER: Peer = { name: "unknown", owner: true };

function peerOf(address: Deno.Addr): Peer {
  if (address.transport !== "tcp") return OWNER;
  return { name: `${address.hostname}:${address.port}`, owner: false };
}

/** Without the port: one peer may open any number of connections. */
function addressOf(address: Deno.Addr): string {
  return address.transport === "tcp" ? address.hostname : "";
}

/** Of an absolute URL, without taking the rest of it apart. */
function pathOf(url: string): string {
  const begin = url.indexOf("/", url.indexOf("//") + 2);
  const end = url.indexOf("?", begin);
  return url.slice(begin, end === -1 ? undefined : end);
}

/** In the form of a Connect error, which is close to that of the page's. */
function refused(error: unknown): Response {
  const { status, body } = errorBody(error);
  return Response.json({ ...body.error as Record<string, unknown> }, { status });
}
