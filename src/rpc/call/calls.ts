/**
 * The beginning and end of every call, over each protocol: checks its caller, its messages and the
 * bounds on streams, ends it early if necessary, and records its result.
 */
import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { boundReached } from "../../base/load_limits.ts";
import { type ErrorCode, messageOf, MosaicError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { Ingest } from "../../gen/mosaic/v1/ingest_pb.ts";
import type { Counts } from "../../observability/activity.ts";
import type { Audit, AuditEntry } from "../../wire/audit.ts";
import { methodPath } from "../../wire/method_path.ts";
import { refuseSentByDaemon, requireProgram } from "../../wire/sender_headers.ts";
import { ruleOf } from "../auth/access.ts";
import type { Gatekeeper, Principal } from "../auth/gatekeeper.ts";
import { requireBounds } from "./field_bounds.ts";
import type { Caller } from "./handlers.ts";
import type { Peer } from "./peer.ts";
import type { StreamBounds, StreamPlace } from "./stream_bounds.ts";

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
  /**
   * The id of the run that a request names, for the audit log: a name may be another run's later.
   */
  runIdOf: (run: string) => string;
  /** How calls ended, by `package.Service/Method CODE`. */
  calls: Counts;
}

/** A call before it is checked. */
export interface CallStart {
  method: DescMethod;
  peer: Peer;
  header(name: string): string | undefined;
}

const ANYBODY: Principal = { type: "anybody" };
const OWNER = { type: "role", role: "admin", name: "owner" } as const satisfies Principal;
const AGAIN = "Try again when it runs.";

/**
 * A proxy's call. Proxies are counted separately: there is one per run, and viewers must not use up
 * its place.
 */
export function isIngest(method: DescMethod): boolean {
  return method.parent.typeName === Ingest.typeName;
}

/** The text after "Bearer "; "" without a credential. */
export function bearerOf(authorization: string | undefined): string {
  return /^Bearer (\S+)$/i.exec(authorization ?? "")?.[1] ?? "";
}

/**
 * Checks the caller by the call's headers, before its message is read. A credential shows what the
 * caller wants; a uid does not. @throws MosaicError `unauthenticated`, `permission_denied`
 */
export function principalOf(
  context: CallContext,
  { path, peer, header }: Pick<Caller, "path" | "peer" | "header">,
): Principal {
  const { gatekeeper, audit } = context;
  const token = bearerOf(header("authorization"));
  try {
    refuseSentByDaemon(header);
    if (gatekeeper !== undefined && !peer.owner) return gatekeeper.enter(path, token);
    if (changesSomething(path)) requireProgram(header);
    return gatekeeper === undefined ? ANYBODY : OWNER;
  } catch (error) {
    if (error instanceof MosaicError) {
      const { code: outcome, message } = error;
      const who = peer.owner ? OWNER.name : gatekeeper?.nameOf(token) ?? "anybody";
      audit?.refused({ who, ...actionOf(path, peer), outcome, message });
    }
    throw error;
  }
}

let ownUid: number | null | undefined;

/** The services of the daemon ask first, at its start: later the process may not read its uid. */
function daemonsUser(): number | null {
  return ownUid === undefined ? ownUid = Deno.uid() : ownUid;
}

/**
 * Tells whose a run is that a caller submits: a token's name, or "uid:N"; "" if neither is known. A
 * caller on the daemon's own socket, or with a certificate, counts as the daemon's user.
 */
export function submitters(
  own: number | null = daemonsUser(),
): (caller: Pick<Caller, "principal" | "peer">) => string {
  return ({ principal, peer }) => {
    if (principal.type === "role" && principal !== OWNER) return principal.name;
    const uid = peer.uid ?? (peer.owner ? own : null);
    return uid === null ? "" : `uid:${uid}`;
  };
}

function actionOf(
  path: string,
  { name, uid }: Peer,
): Pick<AuditEntry, "action" | "address" | "uid"> {
  // Without the package.
  return { action: path.replace(/^.*\./, ""), address: name, uid };
}

function changesSomething(path: string): boolean {
  const needs = ruleOf(path)?.needs ?? "open";
  return needs !== "open" && needs !== "read";
}

/**
 * Writes a call that could change something to the audit log. Workers make many calls: only their
 * refused ones are written.
 */
function writeAudit(
  { audit }: CallContext,
  caller: Caller,
  outcome: string,
  message?: string,
): void {
  const { path, peer, principal, run } = caller;
  const rule = ruleOf(path);
  if (audit === undefined || rule === undefined || !changesSomething(path)) return;
  if (principal.type === "session") {
    if (outcome !== "permission_denied") return;
    return audit.refused({
      who: `run ${principal.runId}`,
      ...actionOf(path, peer),
      run,
      outcome,
      message,
    });
  }
  // Records that runs publish are in their telemetry.
  if (rule.session !== undefined) return;
  audit.did({
    who: principal.type === "role" ? principal.name : "anybody",
    ...actionOf(path, peer),
    run,
    outcome,
    message,
  });
}

/** One call at the server, from its arrival to its end. */
export class ServerCall {
  readonly caller: Caller;
  readonly #context: CallContext;
  readonly #method: DescMethod;
  readonly #abort = new AbortController();
  readonly #stop = () =>
    this.end(new MosaicError("unavailable", "the daemon is stopping", { hint: AGAIN }));
  readonly #deadlines: ReturnType<typeof setTimeout>[] = [];
  #place: StreamPlace | undefined;

  constructor(context: CallContext, { method, peer, header }: CallStart) {
    this.#context = context;
    this.#method = method;
    this.caller = {
      path: methodPath(method),
      header,
      peer,
      principal: ANYBODY,
      entered: false,
      signal: this.#abort.signal,
      follows: (runId) => this.#place?.follows(runId),
    };
    context.stopping.addEventListener("abort", this.#stop, { once: true });
    if (context.stopping.aborted) this.#stop();
  }

  /** Ends the call early. @param reason undefined: the client has disconnected */
  end(reason?: MosaicError): void {
    this.#abort.abort(reason);
  }

  /**
   * Sets a deadline.
   * @param ms undefined: none
   * @param message of the error
   * @param onDeadline called with the error, before the call ends
   * @returns cancels the deadline
   */
  endWithin(
    ms: number | undefined,
    message = `the call took longer than its ${ms} ms`,
    onDeadline: (error: MosaicError) => void = () => {},
  ): () => void {
    if (ms === undefined) return () => {};
    const timer = setTimeout(() => {
      const error = new MosaicError("deadline_exceeded", message);
      onDeadline(error);
      this.end(error);
    }, ms);
    this.#deadlines.push(timer);
    return () => clearTimeout(timer);
  }

  /**
   * Checks the caller, and counts the stream. @throws MosaicError if the caller may not make this
   * call, or too many streams are open
   */
  enter(): void {
    const { caller } = this;
    caller.principal = principalOf(this.#context, caller);
    caller.entered = true;
    if (isIngest(this.#method) || this.#method.methodKind === "unary") return;
    const { streams } = this.#context;
    const isOpen = ruleOf(caller.path)?.needs === "open";
    this.#place = isOpen ? streams.openToAnybody(caller.peer.name) : streams.open(caller.peer.name);
  }

  /**
   * Decodes and checks one of its messages. @throws MosaicError `resource_exhausted` if it is too
   * large, `invalid_argument` if it cannot be decoded or a field is beyond its bound,
   * `permission_denied` if the caller may not send it
   */
  message(bytes: Uint8Array, decoded = decode): MessageShape<DescMessage> {
    if (!isIngest(this.#method)) {
      requireSize(this.#method, bytes.length, this.#context.maxMessageBytes);
    }
    const message = decoded(this.#method.input, bytes);
    requireBounds(this.#method.input, message);
    const { runId, run } = message as { runId?: unknown; run?: unknown };
    const { audit, runIdOf } = this.#context;
    if (audit !== undefined && changesSomething(this.caller.path)) {
      for (const name of [runId, run]) {
        if (typeof name === "string" && name !== "") this.caller.run = runIdOf(name);
      }
    }
    this.#context.gatekeeper?.admit(this.caller.principal, this.caller.path, message);
    return message;
  }

  succeeded(): void {
    this.#count("ok");
  }

  failed(error: unknown): void {
    const { log } = this.#context;
    const rpc = this.caller.path;
    this.#count(error instanceof MosaicError ? error.code : "internal", messageOf(error));
    if (error instanceof MosaicError && error.code !== "internal") {
      log.debug({ rpc, code: error.code, cause: causeText(error) }, error.message);
    } else {
      const err = error instanceof Error ? error.stack : String(error);
      log.error({ rpc, err, cause: causeText(error) }, "a call failed");
    }
  }

  /**
   * Records the end of a stream.
   * @param thrown the handler's error, if it failed
   * @returns the error for the client; undefined if the stream succeeded, or the client has
   * disconnected
   */
  streamEnded(thrown?: unknown): unknown {
    const { aborted, reason } = this.caller.signal;
    const error = reason instanceof MosaicError ? reason : thrown;
    if (aborted && error !== reason) return void this.#count("cancelled");
    if (error === undefined) this.succeeded();
    else this.failed(error);
    return error;
  }

  /** Releases its timers, its listener and its place among the streams. */
  free(): void {
    this.#context.stopping.removeEventListener("abort", this.#stop);
    for (const timer of this.#deadlines) clearTimeout(timer);
    this.#place?.leave();
  }

  #count(code: ErrorCode | "ok" | "cancelled", message?: string): void {
    this.#context.calls.add(`${this.caller.path.slice(1)} ${code}`);
    // `principalOf` has already written a refusal of the caller.
    if (this.caller.entered) writeAudit(this.#context, this.caller, code, message);
  }
}

/** @throws MosaicError `resource_exhausted` */
export function requireSize({ name }: DescMethod, bytes: number, most: number): void {
  if (bytes <= most) return;
  throw boundReached(
    "maxMessageBytes",
    most,
    `the request of ${name} has ${bytes} bytes`,
    "Send less at once",
  );
}

export function decode(schema: DescMessage, bytes: Uint8Array): MessageShape<DescMessage> {
  try {
    return fromBinary(schema, bytes, { readUnknownFields: false });
  } catch (error) {
    throw new MosaicError(
      "invalid_argument",
      `not a ${schema.typeName} message: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  }
}

export function encode(schema: DescMessage, message: unknown): Uint8Array<ArrayBuffer> {
  return toBinary(schema, create(schema, message as MessageInitShape<DescMessage>)) as Uint8Array<
    ArrayBuffer
  >;
}

function causeText(error: unknown): string | undefined {
  return error instanceof Error && error.cause !== undefined ? messageOf(error.cause) : undefined;
}
