/**
 * Connect's unary calls, which mosaic's own clients use: one body each way. Awaits are few, because
 * while proxies keep the daemon busy each await delays a call by some milliseconds.
 */
import type { DescMessage, DescMethod, MessageInitShape } from "@bufbuild/protobuf";
import { MosaicError } from "../../base/errors.ts";
import { joinedBytes } from "../../base/text/joined_bytes.ts";
import { requireSize, ServerCall } from "../call/calls.ts";
import { Interruption } from "../call/interruption.ts";
import type { HttpCall } from "./streams.ts";
import { wholeAnswer } from "./whole_answer.ts";
import { timeoutOf } from "./deadline.ts";
import { refusal } from "./errors.ts";
import type { Coding } from "./forms.ts";

export async function answerUnary(call: HttpCall, type: string, coding: Coding): Promise<Response> {
  const { context, method, request, peer } = call;
  const header = (name: string) => request.headers.get(name) ?? undefined;
  const interruption = new Interruption();
  const serverCall = new ServerCall(context, { method, peer, header });
  try {
    const ms = timeoutOf("connect-timeout-ms", header("connect-timeout-ms"));
    serverCall.endWithin(ms, undefined, (error) => interruption.interrupt(error));
    serverCall.enter();
    const encoding = header("content-encoding") ?? "identity";
    if (encoding !== "identity") {
      throw new MosaicError(
        "unimplemented",
        `content-encoding is "${encoding}"; the daemon accepts only identity`,
        {
          hint: "Send the request uncompressed.",
        },
      );
    }
    const body = await interruption.wait(bodyOf(request, method, context.maxMessageBytes));
    const answer = call.handler(serverCall.message(body, coding.decode), serverCall.caller);
    const message = answer instanceof Promise ? await interruption.wait(answer) : answer;
    const bytes = coding.encode(method.output, message as MessageInitShape<DescMessage>);
    const response = wholeAnswer(context, peer.name, bytes, { "content-type": type }, call);
    serverCall.succeeded();
    return response;
  } catch (error) {
    serverCall.failed(error);
    return refusal(error);
  } finally {
    serverCall.free();
  }
}

/** @throws MosaicError `resource_exhausted` for more than `most` bytes */
async function bodyOf(request: Request, method: DescMethod, most: number): Promise<Uint8Array> {
  const announced = request.headers.get("content-length");
  requireSize(method, Number(announced), most);
  if (announced !== null) return new Uint8Array(await request.arrayBuffer());
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    requireSize(method, length += chunk.length, most);
    // The runtime returns a single byte in a buffer of 64 KiB.
    chunks.push(chunk.slice());
  }
  return joinedBytes(chunks);
}
