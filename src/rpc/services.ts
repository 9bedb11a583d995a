/** The services of all listeners, on one core and with one set of bounds. */
import type { Core } from "../dispatch/core/core.ts";
import { ownCore } from "../dispatch/own/own_core.ts";
import { MosaicError } from "../base/errors.ts";
import { type Bounds, STANDARD_BOUNDS } from "../base/load_limits.ts";
import type { Logger } from "../base/log.ts";
import { TrainerService } from "../gen/gymgui/trainer_pb.ts";
import { Ingest } from "../gen/mosaic/v1/ingest_pb.ts";
import { Mosaic } from "../gen/mosaic/v1/mosaic_pb.ts";
import type { Audit } from "../wire/audit.ts";
import type { Gatekeeper } from "./auth/gatekeeper.ts";
import type { CallContext } from "./call/calls.ts";
import { isOver } from "./records/cursors.ts";
import { HttpApi } from "./connect/http_api.ts";
import type { StreamOptions } from "./connect/streams.ts";
import { Credits } from "./call/credits.ts";
import type { AnyHandler, Caller, Handlers } from "./call/handlers.ts";
import { ingestHandlers } from "./ingest/ingest_service.ts";
import { mosaicHandlers } from "./mosaic/mosaic_service.ts";
import { StreamBounds } from "./call/stream_bounds.ts";
import { trainerHandlers } from "./original/trainer_service.ts";

export interface ServicesOptions {
  log: Logger;
  bounds?: Partial<Bounds>;
  /** Who may call what; without one, anybody who can connect may do everything. */
  gatekeeper?: Gatekeeper;
  audit?: Audit;
  /** Whether the daemon can do its work now; default: whether telemetry can be written. */
  ready?: () => boolean;
}

export interface Services {
  context: CallContext;
  bounds: Bounds;
  trainer: Handlers<typeof TrainerService>;
  mosaic: Handlers<typeof Mosaic>;
  ingest: Handlers<typeof Ingest>;
  healthy: () => boolean;
  /** Where clients of the original find the daemon; set once it listens. */
  address: string;
  /** Ends all streams (`unavailable`). */
  stop(): void;
}

export function servicesOf(core: Core, options: ServicesOptions): Services {
  const bounds = { ...STANDARD_BOUNDS, ...options.bounds };
  const stopping = new AbortController();
  const ready = options.ready ?? (() => core.records.writable());
  const healthy = () => !stopping.signal.aborted && ready();
  const credits = new Credits();
  const services: Services = {
    context: {
      log: options.log,
      stopping: stopping.signal,
      streams: new StreamBounds(bounds, (runId) => isOver(core, runId)),
      maxMessageBytes: bounds.maxMessageBytes,
      gatekeeper: options.gatekeeper,
      audit: options.audit,
      runIdOf: (run) => idOrText(core, run),
      calls: core.activity.rpcCalls,
    },
    bounds,
    trainer: byCaller(
      core,
      (seen) => trainerHandlers(seen, { address: () => services.address, healthy }, credits),
    ),
    mosaic: byCaller(core, (seen) => mosaicHandlers(seen, bounds)),
    ingest: ingestHandlers(core, bounds),
    healthy,
    address: "",
    stop: () => stopping.abort(),
  };
  return services;
}

/**
 * The handlers of a service; a token that sees only its own runs has some of its own, made at its
 * first call, on a core that has no other runs.
 */
function byCaller<H extends object>(core: Core, make: (seen: Core) => H): H {
  const all = make(core);
  const own = new Map<string, H>();
  const of = ({ principal }: Caller): H => {
    if (principal.type !== "role" || !principal.alone) return all;
    const { name } = principal;
    if (!own.has(name)) own.set(name, make(ownCore(core, name)));
    return own.get(name)!;
  };
  // The last argument of every handler is its caller.
  const handlers = Object.keys(all).map((name): [string, AnyHandler] => [
    name,
    (...args) => (of(args.at(-1) as Caller) as Record<string, AnyHandler>)[name]!(...args),
  ]);
  return Object.fromEntries(handlers) as H;
}

/**
 * A name that no run has, or several have, is refused later; the audit log then has it as it was
 * sent.
 */
function idOrText(core: Core, run: string): string {
  try {
    return core.runs.resolve(run).runId;
  } catch (error) {
    if (error instanceof MosaicError) return run;
    throw error;
  }
}

export function apiOf(services: Services, options: Partial<StreamOptions> = {}): HttpApi {
  const { context, trainer, mosaic, ingest } = services;
  return new HttpApi(context, options).add(TrainerService, trainer).add(Mosaic, mosaic).add(
    Ingest,
    ingest,
  );
}
