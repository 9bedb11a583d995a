/**
 * The checks of every call, whichever protocol carries it: who calls, whether it is allowed, how many streams there are; and
 * how it ended.
 */
import { create, type DescMessage, type DescMethod, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { boundReached } from "../base/load_limits.ts";
import { type ErrorCode, messageOf, MosaicError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { Ingest } from "../gen/mosaic/v1/ingest_pb.ts";
import type { Counts } from "../observability/activity.ts";
import type { Audit, AuditEntry } from "../wire/audit.ts";
import { methodPath } from "../wire/method_path.ts";
import { ruleOf } from "./auth/access.ts";
import type { Gatekeeper, Principal } from "./auth/gatekeeper.ts";
import type { Caller } from "./handlers.ts";
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
}

const ANYBODY: Principal = { type: "anybody" };
const OWNER: Principal = { type: "role", role: "admin", name: "owner" };
const AGAIN = "Try again when it runs.";

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
  { path, peer, header }: Pick<Caller, "path" | "peer" | "header">,
): Principal {
  if (context.gatekeeper === undefined) return ANYBODY;
  if (peer.owner) return OWNER;
  try {
    return context.gatekeeper.enter(path, bearerOf(header("authorization")));
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

/** A call that has come in: who makes it, what ends it early, and how it ended. */
export class Arrival {
  readonly caller: Caller;
  readonly #context: CallContext;
  readonly #method: DescMethod;
  readonly #early = new AbortController();
  readonly #stop = () => this.end(new MosaicError("unavailable", "the daemon is stopping", { hint: AGAIN }));
  readonly #deadlines: ReturnType<typeof setTimeout>[] = [];
  #place: StreamPlace | undefined;

  constructor(context: CallContext, { method, peer, header }: Arriving) {
    this.#context = context;
    this.#method = method;
    this.caller = {
      path: methodPath(method),
      header,
      peer,
      principal: ANYBODY,
      entered: false,
      signal: this.#early.signal,
      follows: (runId) => this.#place?.follows(runId),
    };
    context.stopping.addEventListener("abort", this.#stop, { once: true });
    if (context.stopping.aborted) this.#stop();
  }

  /** Aborts its signal: the client has gone, or (with the reason) the call must not go on. */
  end(why?: MosaicError): void {
    this.#early.abort(why);
  }

  /**
   * Ends it in so many milliseconds, where that is not undefined.
   * @param passed called besides @returns what prevents it
   */
  endWithin(
    ms: number | undefined,
    what = `the call took longer than its ${ms} ms`,
    passed: (why: MosaicError) => void = () => {},
  ): () => void {
    if (ms === undefined) return () => {};
    const timer = setTimeout(() => {
      const why = new MosaicError("deadline_exceeded", what);
      passed(why);
      this.end(why);
    }, ms);
    this.#deadlines.push(timer);
    return () => clearTimeout(timer);
  }

  /** @throws MosaicError when the caller may not make this call at all, or there are too many. */
  enter(): void {
    const { caller } = this;
    caller.principal = principalOf(this.#context, caller);
    caller.entered = true;
    if (isProxys(this.#method) || this.#method.methodKind === "unary") return;
    const { streams } = this.#context;
    const needsNothing = ruleOf(caller.path)?.needs === "open";
    this.#place = needsNothing ? streams.openToAnybody(caller.peer.name) : streams.open(caller.peer.name);
  }

  /** One of its messages. @throws MosaicError `resource_exhausted`, `invalid_argument`, and what forbids it */
  message(bytes: Uint8Array, decoded = decode): MessageShape<DescMessage> {
    if (!isProxys(this.#method)) requireSize(this.#method, bytes.length, this.#context.maxMessageBytes);
    const message = decoded(this.#method.input, bytes);
    const { runId, run } = message as { runId?: unknown; run?: unknown };
    for (const named of [runId, run]) if (typeof named === "string" && named !== "") this.caller.run = named;
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

  /** A stream is over. @param error where it failed @returns what its client is told; undefined: that it is done, or nothing to one that has gone */
  over(error?: unknown): unknown {
    const { aborted, reason } = this.caller.signal;
    const why = reason instanceof MosaicError ? reason : error;
    if (aborted && why !== reason) return void this.#count("cancelled");
    if (why === undefined) this.succeeded();
    else this.failed(why);
    return why;
  }

  /** It holds nothing any more. */
  free(): void {
    this.#context.stopping.removeEventListener("abort", this.#stop);
    for (const timer of this.#deadlines) clearTimeout(timer);
    this.#place?.leave();
  }

  #count(code: ErrorCode | "ok" | "cancelled", message?: string): void {
    this.#context.calls.add(`${this.caller.path.slice(1)} ${code}`);
    // Whoever was refused at the entrance is entered there.
    if (this.caller.entered) enterAudit(this.#context, this.caller, code, message);
  }
}

/** @throws MosaicError `resource_exhausted` */
export function requireSize({ name }: DescMethod, bytes: number, most: number): void {
  if (bytes <= most) return;
  throw boundReached("maxMessageBytes", most, `the request of ${name} has ${bytes} bytes`, "Send less at once");
}

export function decode(schema: DescMessage, bytes: Uint8Array): MessageShape<DescMessage> {
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

function causeText(error: unknown): string | undefined {
  return error instanceof Error && error.cause !== undefined ? messageOf(error.cause) : undefined;
}
