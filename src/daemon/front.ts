/**
 * The HTTP handler for the page and the API. Checks, in this order: that no daemon has sent the
 * request, Host and Origin, size of the body, authentication, authorisation. Requests on the
 * daemon's Unix socket come from the daemon's user; with `userOf`, so may its other connections on
 * loopback. That shows who calls, not what the person wants: a browser of the same user also sends
 * requests of foreign pages.
 */
import { type HttpApi, isCallPath } from "../rpc/connect/http_api.ts";
import { type Peer, UNIX_PEER, type User } from "../rpc/call/peer.ts";
import { isMlflowCall, MLFLOW_BODY, type MlflowApi } from "../mlflow/tracking_api.ts";
import { MosaicError } from "../base/errors.ts";
import { MCP_PATH } from "../mcp/path.ts";
import { URL_BYTES } from "../base/field_limits.ts";
import { errorBody } from "../ui/http/answers.ts";
import type { PageApp } from "../ui/app.ts";
import { textOf } from "../ui/http/request.ts";
import {
  isFromBrowser,
  isOpenPath,
  refuseForeignChange,
  refuseForeignHost,
} from "../ui/http/guard.ts";
import type { Ends, HttpHandler } from "../wire/http/http_listener.ts";
import { refuseSentByDaemon } from "../wire/sender_headers.ts";

export interface FrontOptions {
  api: HttpApi;
  mlflow: MlflowApi;
  page: PageApp;
  /** Host of the TCP listener; "" without one. */
  bound: string;
  /** The peer on a Unix socket; default: the daemon's user. */
  socketPeer?: Peer;
  /** API calls need a token, which a browser does not send by itself. */
  tokens: boolean;
  /** The user of a TCP connection's peer: the daemon's own user needs no token. */
  userOf?: ((connection: Ends) => Promise<User>) | undefined;
}

export function front(
  { api, mlflow, page, bound, socketPeer = SOCKET_PEER, tokens, userOf }: FrontOptions,
): HttpHandler {
  return async (request, connection) => {
    const { remoteAddr } = connection;
    const path = pathOf(request.url);
    const isMlflow = isMlflowCall(path);
    const isMcp = path === MCP_PATH;
    try {
      refuseSentByDaemon((name) => request.headers.get(name) ?? undefined);
      if (request.url.length > URL_BYTES) {
        throw new MosaicError(
          "invalid_argument",
          `the address has ${request.url.length} bytes; the bound is ${URL_BYTES} bytes`,
        );
      }
    } catch (error) {
      return refused(error);
    }
    const peer = remoteAddr.transport === "tcp"
      ? await tcpPeer(request, path, connection, userOf)
      : socketPeer;
    const bySocket = peer === SOCKET_PEER;
    if (isMlflow || isMcp || isCallPath(path)) {
      try {
        if (!bySocket && (peer.owner || !tokens || isFromBrowser(request))) {
          refuseForeignHost(request, { bound, hosts: [] });
        }
        if (!bySocket && isFromBrowser(request)) refuseForeignChange(request, page.token);
      } catch (error) {
        return refused(error);
      }
      if (isMlflow) {
        return await mlflow.answer(request, path, peer.owner, () => textOf(request, MLFLOW_BODY));
      }
      if (isMcp) return await answerTools(request, (of, call) => api.answer(of, call, peer));
      return await api.answer(path, request, peer);
    }
    const address = bySocket ? "" : addressOf(remoteAddr, peer);
    return await page.fetch(request, { peer: address, owner: peer.owner, uid: peer.uid, bySocket });
  };
}

/** Tools for agents. */
async function answerTools(
  request: Request,
  answer: (path: string, call: Request) => Response | Promise<Response>,
) {
  try {
    const { answerMcp, MCP_BODY, requireReader } = await import("../mcp/http.ts");
    await requireReader(request, answer);
    return await answerMcp(
      request,
      request.method === "POST" ? await textOf(request, MCP_BODY) : "",
      answer,
    );
  } catch (error) {
    return refused(error);
  }
}

/** Only the daemon's user can open the daemon's own Unix socket. */
const SOCKET_PEER: Peer = { name: UNIX_PEER, owner: true };
/**
 * A peer on the group's socket (`--group-socket`) is not identified by that, and may be a browser
 * behind a forwarded port.
 */
export const GROUP_PEER: Peer = { name: "group", owner: false };

/** The connection's user is looked up only for a request that needs it and has no credential. */
async function tcpPeer(
  request: Request,
  path: string,
  connection: Ends,
  userOf: FrontOptions["userOf"],
): Promise<Peer> {
  const { hostname, port } = connection.remoteAddr as Deno.NetAddr;
  const needsNone = isOpenPath(path) || request.headers.has("authorization");
  const user = needsNone ? undefined : await userOf?.(connection);
  return { name: `${hostname}:${port}`, owner: false, ...user };
}

/** Without the port, because one peer may open any number of connections. */
function addressOf(address: Deno.Addr, peer: Peer): string {
  return address.transport === "tcp" ? address.hostname : peer.name;
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
