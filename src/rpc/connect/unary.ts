/**
 * Unary calls in Connect's binary form, as mosaic's own clients make them: a body in, a body out, and nothing awaited
 * in between that need not be. Beside busy proxies each thing awaited costs a call some milliseconds.
 */
import type { DescMethod } from "@bufbuild/protobuf";
import { arrivalOf, type CallContext, count, encode, type Peer, report, requestOf, requireSize } from "../calls.ts";
import type { AnyHandler } from "../handlers.ts";
import { Interruption } from "../interruption.ts";
import type { StreamOptions } from "./streams.ts";
import { wholeAnswer } from "./whole_answer.ts";
import { startDeadline } from "./deadline.ts";
import { refusal } from "./errors.ts";

const TYPE = "application/proto";

/** Whether the call is of this form, and says how large it is; all others go through the library. */
export function isPlain(request: Request): boolean {
  const { headers } = request;
  return request.method === "POST" && headers.get("content-type") === TYPE && headers.has("content-length") &&
    !headers.has("content-encoding");
}

export async function answerUnary(
  context: CallContext,
  method: DescMethod,
  handler: AnyHandler,
  request: Request,
  peer: Peer,
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
    endDeadline = startDeadline(header("connect-timeout-ms"), (error) => {
      interruption.interrupt(error);
      abort();
    });
    enter();
    requireSize(method, Number(header("content-length")), context.maxMessageBytes);
    const message = requestOf(
      context,
      method,
      new Uint8Array(await interruption.wait(request.arrayBuffer())),
      caller,
    );
    const answer = handler(message, caller);
    const bytes = encode(method.output, answer instanceof Promise ? await interruption.wait(answer) : answer);
    const response = wholeAnswer(
      context,
      caller.peer.name,
      bytes,
      { headers: new Headers({ "content-type": TYPE }) },
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
