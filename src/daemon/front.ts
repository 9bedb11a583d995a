/**
 * The HTTP handler for the page and the API. Checks, in this order: Host and Origin, size of the body, authentication,
 * authorisation. Requests on the daemon's Unix socket come from the daemon's user.
 */
import type { Api } from "../rpc/connect/api.ts";
import type { Peer } from "../rpc/calls.ts";
import { MLFLOW_BODY, type MlflowApi } from "../rpc/mlflow/api.ts";
import { errorBody } from "../ui/answers.ts";
import type { PageApp } from "../ui/app.ts";
import { textOf } from "../ui/request.ts";
import { isBrowsers, refuseForeignChange, refuseForeignHost } from "../ui/guard.ts";
import type { HttpHandler } from "../wire/http_listener.ts";

export interface FrontOptions {
  api: Api;
  mlflow: MlflowApi;
  page: PageApp;
  /** Host of the listener; "" for the daemon's Unix socket. */
  bound: string;
  /** API calls need a token, which a browser does not send by itself. */
  tokens: boolean;
}

export function front({ api, mlflow, page, bound, tokens }: FrontOptions): HttpHandler {
  return async (request, info) => {
    const peer = peerOf(info.remoteAddr);
    const path = pathOf(request.url);
    const isMlflow = path.startsWith("/mlflow/");
    if (isMlflow || api.has(path)) {
      if (!peer.owner) {
        try {
          if (!tokens || isBrowsers(request)) refuseForeignHost(request, { bound, hosts: [] });
          if (isBrowsers(request)) refuseForeignChange(request, page.token);
        } catch (error) {
          return refused(error);
        }
      }
      if (isMlflow) return await mlflow.answer(request, path, () => textOf(request, MLFLOW_BODY));
      return await api.answer(path, request, peer);
    }
    return await page.fetch(request, { peer: addressOf(info.remoteAddr), owner: peer.owner });
  };
}

/** A peer on the Unix socket, which only the daemon's user can open. */
const OWNER: Peer = { name: "unknown", owner: true };

function peerOf(address: Deno.Addr): Peer {
  if (address.transport !== "tcp") return OWNER;
  return { name: `${address.hostname}:${address.port}`, owner: false };
}

/** Without the port: one peer may open any number of connections. */
function addressOf(address: Deno.Addr): string {
  return address.transport === "tcp" ? address.hostname : "";
}

/** The path of an absolute URL, without parsing the whole URL. */
function pathOf(url: string): string {
  const begin = url.indexOf("/", url.indexOf("//") + 2);
  const end = url.indexOf("?", begin);
  return url.slice(begin, end === -1 ? undefined : end);
}

/** The error as a Connect error response. */
function refused(error: unknown): Response {
  const { status, body } = errorBody(error);
  return Response.json({ ...body.error as Record<string, unknown> }, { status });
}
