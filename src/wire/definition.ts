/**
 * protobuf-es services as grpc-js definitions. Messages cross grpc-js as bytes and are coded by
 * src/rpc/call/calls.ts: so the sender knows each message's size (the gate needs it) and the
 * receiver decides when to decode.
 */
import type { DescMethod, DescService } from "@bufbuild/protobuf";
import {
  logVerbosity,
  type MethodDefinition,
  type ServiceDefinition,
  setLogVerbosity,
} from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import { methodPath } from "./method_path.ts";

// The library would write to stderr, not to mosaic's log; callers report every failure.
setLogVerbosity(logVerbosity.NONE);

export type RawMethod = MethodDefinition<Buffer, Buffer>;

const same = (bytes: Buffer) => bytes;

function rawMethod(method: DescMethod): RawMethod {
  return {
    path: methodPath(method),
    requestStream: method.methodKind === "client_streaming" ||
      method.methodKind === "bidi_streaming",
    responseStream: method.methodKind === "server_streaming" ||
      method.methodKind === "bidi_streaming",
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
}

/**
 * The definition for `Server.addService`, with the method's local names as keys, like the handlers.
 */
export function rawService(service: DescService): ServiceDefinition {
  return Object.fromEntries(service.methods.map((method) => [method.localName, rawMethod(method)]));
}

/** A view of the bytes as the Buffer that grpc-js requires, without a copy. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
}
