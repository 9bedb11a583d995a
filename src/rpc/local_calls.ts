/** Calls the daemon's own methods from inside the daemon. */
import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { yieldToOthers } from "../base/sleep.ts";
import { Mosaic } from "../gen/mosaic/v1/mosaic_pb.ts";
import { methodPath } from "../wire/method_path.ts";
import type { Caller, Handlers } from "./handlers.ts";

/** With the permission to read: secrets are hidden. */
export function readingCalls(handlers: Handlers<typeof Mosaic>) {
  return {
    methods: Mosaic.method,
    /** @throws MosaicError as the method does */
    async unary<I extends DescMessage, O extends DescMessage>(
      method: DescMethodUnary<I, O>,
      request: MessageInitShape<I>,
    ): Promise<MessageShape<O>> {
      // Reads are synchronous: other work runs between two of them.
      await yieldToOthers();
      const caller: Caller = {
        path: methodPath(method),
        header: () => undefined,
        peer: { name: "the page", owner: false },
        principal: { type: "role", role: "read", name: "the page" },
        entered: true,
        signal: new AbortController().signal,
        follows() {},
      };
      const handler = handlers[method.localName as keyof typeof handlers] as unknown as (
        request: MessageShape<I>,
        caller: Caller,
      ) => MessageInitShape<O> | Promise<MessageInitShape<O>>;
      return create(method.output, await handler(create(method.input, request), caller));
    },
  };
}
