/**
 * Connect's unary calls, which mosaic's own clients use: one body in, one body out, with as few awaits as possible. Beside
 * busy proxies each await costs a call some milliseconds.
 */
import type { DescMessage, DescMethod, MessageInitShape } from "@bufbuild/protobuf";
import { MosaicError } from "../../base/errors.ts";
import { arrivalOf, type CallContext, count, type Peer, report, requestOf, requireSize } from "../calls.ts";
import type { AnyHandler } from "../handlers.ts";
import { Interruption } from "../interruption.ts";
import type { StreamOptions } from "./streams.ts";
import { wholeAnswer } from "./whole_answer.ts";
import { startDeadline } from "./deadline.ts";
import { refusal } from "./errors.ts";
import type { UnaryForm } from "./forms.ts";

export async function answerUnary(
  context: CallContext,
  method: DescMethod,
  handler: AnyHandler,
  request: Request,
  peer: Peer,
  { type, coding }: UnaryForm,
  options: StreamOptions,
): Promise<Response> {
  const header = (name: string) => request.headers.get(name) ?? undefined;
  const gone = new AbortController();
  const abort = () => gone.abort();
  const interruption = new Interruption();
  const { caller, enter, free } = arrivalOf(context, { method, peer, header, signal: gone.signal });
  let endDeadline: (() => void) | undefined;
  context.stopping.addEventListener("abort", abort, { once: true });
  if (context.stopping.aborted) abort();
  try {
    endDeadline = startDeadline("connect-timeout-ms", header("connect-timeout-ms"), (error) => {
      interruption.interrupt(error);
      abort();
    });
    enter();
    const encoding = header("content-encoding") ?? "identity";
    if (encoding !== "identity") {
      throw new MosaicError("unimplemented", `content-encoding is "${encoding}": requests are not compressed`);
    }
    const body = await interruption.wait(bodyOf(request, method, context.maxMessageBytes));
    const answer = handler(requestOf(context, method, body, caller, coding.decode), caller);
    const message = answer instanceof Promise ? await interruption.wait(answer) : answer;
    const bytes = coding.encode(method.output, message as MessageInitShape<DescMessage>);
    const response = wholeAnswer(
      context,
      caller.peer.name,
      bytes,
      { headers: new Headers({ "content-type": type }) },
      options,
    );
    count(context, caller, "ok");
    return response;
  } catch (error) {
    report(context, caller, error);
    return refusal(error);
  } finally {
    endDeadline?.();
    context.stopping.removeEventListener("abort", abort);
    free();
  }
}

/** @throws MosaicError `resource_exhausted` for more than `most` bytes */
async function bodyOf(request: Request, method: DescMethod, most: number): Promise<Uint8Array> {
  const told = request.headers.get("content-length");
  requireSize(method, Number(told), most);
  if (told !== null) return new Uint8Array(await request.arrayBuffer());
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    requireSize(method, length += chunk.length, most);
    // The runtime returns a single byte in a buffer of 64 KiB.
    chunks.push(chunk.slice());
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}
