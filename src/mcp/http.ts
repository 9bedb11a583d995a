/**
 * Tools over HTTP, on the page's server at /mcp: each request is served alone (the protocol's
 * stateless form). What a tool asks of the daemon is a call by the request's sender, with the
 * sender's credential, so it has the sender's role.
 */
import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { TrainerService } from "../gen/gymgui/trainer_pb.ts";
import {
  envelope,
  errorOfAnswer,
  messagesOf,
  STREAM_TYPE,
  UNARY_TYPE,
} from "../wire/http/connect.ts";
import { methodPath } from "../wire/method_path.ts";
import type { ToolApi } from "./tool.ts";
import { mcpServer } from "./tool_server.ts";

/** The text of a config is the largest that a tool takes. */
export const MCP_BODY = { maxBytes: 1 << 20, withinMs: 30_000 };

/** Answers a call of the daemon's API as if it had come over HTTP. */
export type Answer = (path: string, request: Request) => Response | Promise<Response>;

/**
 * Offers tools that change something only where the address asks for them: /mcp?changes.
 * @param body the request's, checked for its size
 */
export async function answerMcp(request: Request, body: string, answer: Answer): Promise<Response> {
  const changes = new URL(request.url).searchParams.has("changes") && isProgram(request);
  // Each handler counts its own streams only, and no tool tells of changes by itself. The mode
  // "json" writes a line of text to standard error for each request.
  const handler = createMcpHandler(() => mcpServer(inProcess(request, answer), changes), {
    maxSubscriptions: 0,
  });
  return await handler.fetch(
    new Request(request.url, {
      method: request.method,
      headers: request.headers,
      ...(body === "" ? {} : { body }),
    }),
  );
}

/**
 * Before anything of the request is read: a stranger has no use of tools. @throws MosaicError
 * `unauthenticated`
 */
export async function requireReader(request: Request, answer: Answer): Promise<void> {
  await inProcess(request, answer).unary(TrainerService.method.getHealth, {});
}

/**
 * A caller without a credential is known by its user alone, and a user's programs also carry what
 * others have written (forms, webhooks). None of these sends this header, which a client of the
 * protocol sends with each call of a tool.
 */
function isProgram(request: Request): boolean {
  return request.headers.has("authorization") || request.headers.has("mcp-protocol-version");
}

function inProcess(request: Request, answer: Answer): ToolApi {
  const authorization = request.headers.get("authorization");
  const post = async (method: DescMethod, body: Uint8Array<ArrayBuffer>, type: string) => {
    const path = methodPath(method);
    const headers = new Headers({ "content-type": type, "connect-protocol-version": "1" });
    if (authorization !== null) headers.set("authorization", authorization);
    const answered = await answer(
      path,
      new Request(new URL(path, request.url), { method: "POST", headers, body }),
    );
    if (answered.status === 200) return answered;
    const bytes = new Uint8Array(await answered.arrayBuffer());
    throw errorOfAnswer(
      answered.status,
      bytes,
      (name) => answered.headers.get(name) ?? undefined,
      "this daemon",
    );
  };
  return {
    async unary(method, message) {
      const answered = await post(method, bytesOf(method.input, message), UNARY_TYPE);
      return fromBinary(method.output, new Uint8Array(await answered.arrayBuffer()));
    },
    async *stream(method, message) {
      const answered = await post(method, envelope(bytesOf(method.input, message)), STREAM_TYPE);
      for await (const bytes of messagesOf(answered.body!)) yield fromBinary(method.output, bytes);
    },
  };
}

function bytesOf<I extends DescMessage>(
  schema: I,
  message: MessageInitShape<I>,
): Uint8Array<ArrayBuffer> {
  return toBinary(schema, create(schema, message)) as Uint8Array<ArrayBuffer>;
}
