/**
 * The checks of every call, whichever protocol carries it: who calls, whether it is allowed, how many streams there are; and
 * how it ended.
 */
import { create, type DescMessage, type DescMethod, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { boundReached } from "../base/load_limits.ts";
import { type ErrorCode, messageOf, MosaicError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { Ingest } from "../gen/mosaic/v1/mosaic_pb.ts";
import type { Counts } from "../observability/activity.ts";
import type { Audit, AuditEntry } from "../wire/audit.ts";
import { methodPath } from "../wire/method_path.ts";
import { ruleOf } from "./auth/access.ts";
import type { Gatekeeper, Principal } from "./auth/gatekeeper.ts";
import type { Caller } from "./handlers.ts";
import type { StreamBounds, StreamPlace } from "./stream_bounds.ts";

/** Bound on every message: a proxy's batch may have a single record of nearly this size. */
export const MAX_MESSAGE_BYTES = 64 << 20;

export interface CallContext {
  log: Logger;
  /** Aborted when the server stops. */
  stopping: AbortSignal;
  streams: StreamBounds;
  /** Most bytes of one request. */
  maxMessageBytes: number;
  /** Decides who may call; without one, anybody who can connect. */
  gatekeeper?: Gatekeeper;
  audit?: Audit | undefined;
  /** How calls ended, by `package.Service/Method CODE`. */
  calls: Counts;
}

/** What is known of the peer before it sends a credential. */
export interface User {
  /** It is the daemon's user, known by the socket or the connection, or has shown a certificate: no token is required. */
  owner: boolean;
  /** Its user on this machine, if known. */
  uid?: number | undefined;
}

/** Who is at the other end of a connection. */
export interface Peer extends User {
  /** One for each connection; the same for all connections of a Unix socket. */
  name: string;
}

/** What a call brings with it. */
export interface Arriving {
  method: DescMethod;
  peer: Peer;
  header(name: string): string | undefined;
  /** Aborted when the client went away, its deadline passed, or the server stops. */
  signal: AbortSignal;
}

/** A call that has arrived; `enter` lets it continue, `free` ends it. */
export interface Arrival {
  caller: Caller;
  /** @throws MosaicError if the caller may not make this call at all, or there are too many. */
  enter(): void;
  free(): void;
}

const ANYBODY: Principal = { type: "anybody" };
const OWNER: Principal = { type: "role", role: "admin", name: "owner" };

/** Proxies are counted apart, because there is one per run and any number of viewers must not keep it out. */
export function isProxys(method: DescMethod): boolean {
  return method.parent.typeName === Ingest.typeName;
}

/** The text after "Bearer "; "" without a credential. */
export function bearerOf(authorization: string | undefined): string {
  return /^Bearer (\S+)$/i.exec(authorization ?? "")?.[1] ?? "";
}

/** @throws MosaicError `unauthenticated`, `permission_denied` by the call's headers alone, before any of its message is taken */
export function principalOf(
  context: CallContext,
  arriving: Omit<Arriving, "signal" | "method"> & { path: string },
): Principal {
  const { path, peer } = arriving;
  if (context.gatekeeper === undefined) return ANYBODY;
  if (peer.owner) return OWNER;
  try {
    return context.gatekeeper.enter(path, bearerOf(arriving.header("authorization")));
  } catch (error) {
    if (error instanceof MosaicError) {
      context.audit?.refused({ who: "nobody", ...actionOf(path, peer), outcome: error.code, message: error.message });
    }
    throw error;
  }
}

function actionOf(path: string, { name, uid }: Peer): Pick<AuditEntry, "action" | "address" | "uid"> {
  // Without the package.
  return { action: path.replace(/^.*\./, ""), address: name === "unknown" ? "unix" : name, uid };
}

/** Enters a call that could change something; calls of workers, which are many, only if they are refused. */
function enterAudit({ audit }: CallContext, caller: Caller, outcome: string, message?: string): void {
  const { path, peer, principal, run } = caller;
  const rule = ruleOf(path);
  if (audit === undefined || rule === undefined || rule.needs === "open" || rule.needs === "read") return;
  if (principal.type === "session") {
    if (outcome !== "permission_denied") return;
    return audit.refused({ who: `run ${principal.runId}`, ...actionOf(path, peer), run, outcome, message });
  }
  // What runs publish is in their telemetry.
  if (rule.session !== undefined) return;
  audit.did({
    who: principal.type === "role" ? principal.name : "anybody",
    ...actionOf(path, peer),
    run,
    outcome,
    message,
  });
}

export function arrivalOf(context: CallContext, arriving: Arriving): Arrival {
  const { method, peer } = arriving;
  let place: StreamPlace | undefined;
  const caller: Caller = {
    path: methodPath(method),
    header: arriving.header,
    peer,
    principal: ANYBODY,
    entered: false,
    signal: arriving.signal,
    follows: (runId) => place?.follows(runId),
  };
  return {
    caller,
    enter() {
      caller.principal = principalOf(context, { ...arriving, path: caller.path });
      caller.entered = true;
      if (isProxys(method) || method.methodKind === "unary") return;
      const { streams } = context;
      const needsNothing = ruleOf(caller.path)?.needs === "open";
      place = needsNothing ? streams.openToAnybody(peer.name) : streams.open(peer.name);
    },
    free: () => place?.leave(),
  };
}

/** The message, if its sender may send it. */
function admitted<M>(context: CallContext, message: M, caller: Caller): M {
  const { runId, run } = message as { runId?: unknown; run?: unknown };
  for (const named of [runId, run]) if (typeof named === "string" && named !== "") caller.run = named;
  context.gatekeeper?.admit(caller.principal, caller.path, message);
  return message;
}

/** @throws MosaicError `resource_exhausted` */
export function requireSize({ name }: DescMethod, bytes: number, most: number): void {
  if (bytes <= most) return;
  throw boundReached("maxMessageBytes", most, `the request of ${name} has ${bytes} bytes`, "Send less at once");
}

/** The same, encoded. @throws MosaicError `resource_exhausted`, `invalid_argument`, and why it is not allowed */
export function requestOf(
  context: CallContext,
  method: DescMethod,
  bytes: Uint8Array,
  caller: Caller,
  decoded: (schema: DescMessage, bytes: Uint8Array) => MessageShape<DescMessage> = decode,
): MessageShape<DescMessage> {
  if (!isProxys(method)) requireSize(method, bytes.length, context.maxMessageBytes);
  return admitted(context, decoded(method.input, bytes), caller);
}

export function decode<I extends DescMessage>(schema: I, bytes: Uint8Array): MessageShape<I> {
  try {
    return fromBinary(schema, bytes, { readUnknownFields: false });
  } catch (error) {
    throw new MosaicError("invalid_argument", `not a ${schema.typeName} message: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

export function encode(schema: DescMessage, message: unknown): Uint8Array<ArrayBuffer> {
  return toBinary(schema, create(schema, message as MessageInitShape<DescMessage>)) as Uint8Array<ArrayBuffer>;
}

export function stopped(): MosaicError {
  return new MosaicError("unavailable", "the daemon is stopping", { hint: "Try again when it runs." });
}

export function count(
  context: CallContext,
  caller: Caller,
  code: ErrorCode | "ok" | "cancelled",
  message?: string,
): void {
  context.calls.add(`${caller.path.slice(1)} ${code}`);
  // A call that was refused at its start was entered there.
  if (caller.entered) enterAudit(context, caller, code, message);
}

export function report(context: CallContext, caller: Caller, error: unknown): void {
  count(context, caller, error instanceof MosaicError ? error.code : "internal", messageOf(error));
  if (error instanceof MosaicError && error.code !== "internal") {
    context.log.debug({ rpc: caller.path, code: error.code, cause: causeText(error) }, error.message);
  } else {
    context.log.error({
      rpc: caller.path,
      err: error instanceof Error ? error.stack : String(error),
      cause: causeText(error),
    }, "a call failed");
  }
}

function causeText(error: unknown): string | undefined {
  return error instanceof Error && error.cause !== undefined ? messageOf(error.cause) : undefined;
}
