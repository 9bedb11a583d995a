/**
 * The daemon's API for its callers: typed calls, errors as MosaicError. Implemented by client.ts,
 * and by src/mcp/http.ts within a daemon.
 */
import type {
  DescMessage,
  DescMethodServerStreaming,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";

export interface DaemonApi {
  unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options?: { signal?: AbortSignal; deadlineMs?: number },
  ): Promise<MessageShape<O>>;
  /** Ends when the daemon ends the stream or `signal` aborts; throws when the connection breaks. */
  stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    signal: AbortSignal,
  ): AsyncIterable<MessageShape<O>>;
  close(): void;
}

/** Where the daemon is: `target`, else $MOSAIC_TARGET, else daemon.json in the state directory. */
export interface ConnectionFlags {
  target?: string;
  stateDir?: string;
}
