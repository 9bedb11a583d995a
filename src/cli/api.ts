/** The daemon as the verbs see it: typed calls, errors as MosaicError. src/client/client.ts is the real one. */
import type {
  DescMessage,
  DescMethodServerStreaming,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";

export interface Api {
  unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options?: { signal?: AbortSignal; deadlineMs?: number },
  ): Promise<MessageShape<O>>;
  /** Ends with the daemon's stream; throws when it breaks; aborting ends it quietly. */
  stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    signal: AbortSignal,
  ): AsyncIterable<MessageShape<O>>;
  close(): void;
}

/** How a daemon is found: `target`, else $MOSAIC_TARGET, else daemon.json in the state directory. */
export interface ConnectionFlags {
  target?: string;
  stateDir?: string;
}
