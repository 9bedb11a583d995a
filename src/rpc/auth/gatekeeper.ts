/**
 * Decides for each call and each message whether its sender is authorized: by the table, the
 * tokens, the runs' session tokens.
 */
import { MosaicError } from "../../base/errors.ts";
import type { RunReader } from "../../registry/run_reader.ts";
import { type Holder, mayDo, notOwn, sameToken, type TokenFile } from "../../wire/tokens.ts";
import { tokenHash, workerToken } from "../../base/session_tokens.ts";
import { ruleOf } from "./access.ts";

/** The caller. A session is a run's own token: its proxy's, or its worker's. */
export type Principal =
  | { type: "anybody" }
  | ({ type: "role" } & Holder)
  | { type: "session"; runId: string };

export interface Gatekeeper {
  /**
   * Checks a credential by the headers alone, so that nothing of a stranger's message is read.
   * @param path `/package.Service/Method`
   * @param token the text after "Bearer "; "" without a credential
   * @throws MosaicError `unauthenticated` without a valid credential, `permission_denied` if it
   * does not suffice
   */
  enter(path: string, token: string): Principal;
  /**
   * Whose credential it is, for the audit log: a token's name, `run ID` for a session, or "nobody".
   */
  nameOf(token: string): string;
  /**
   * Checks each message of the call. @throws MosaicError `permission_denied` for a run that the
   * credential does not cover
   */
  admit(principal: Principal, path: string, message: unknown): void;
  /**
   * For requests outside of the table that act for a run, as its worker does. @throws as `enter`
   */
  requireOwnRun(runId: string, token: string): void;
}

/**
 * Whose runs and sweeps are. `alone`: an owner who sees only their own. @throws MosaicError `not_found`,
 * `invalid_argument` (ambiguous)
 */
export interface Owners {
  /** @param where in which runs the call looks for `ref` */
  ofRun(ref: string, where: "list" | "trash" | "both", alone: string | undefined): string;
  ofSweep(ref: string, alone: string | undefined): string;
}

export function gatekeeper(
  runs: Pick<RunReader, "get" | "sessionTokens" | "pastAttempt">,
  tokens: Pick<TokenFile, "holderOf">,
  owners: Owners,
): Gatekeeper {
  const sessions = new Sessions(runs);
  return {
    enter(path, token) {
      const rule = ruleOf(path);
      if (rule === undefined) throw new MosaicError("permission_denied", `nobody may call ${path}`);
      if (rule.needs === "open") return { type: "anybody" };
      const holder = tokens.holderOf(token);
      if (holder !== undefined) {
        const needs = holder.own ? rule.ofOwn ?? rule.needs : rule.needs;
        if (mayDo(holder.role, needs)) return { type: "role", ...holder };
        throw new MosaicError(
          "permission_denied",
          `${
            path.slice(path.lastIndexOf("/") + 1)
          } needs the role ${rule.needs}; the token ${holder.name} has the role ${holder.role}`,
        );
      }
      const session = rule.session === undefined || token === "" ? undefined : sessions.of(token);
      if (session === undefined && rule.session !== undefined) refuseStale(runs, token);
      if (session === undefined || (session.ofWorker && rule.worker !== true)) {
        throw unauthenticated(token === "");
      }
      return { type: "session", runId: session.runId };
    },

    nameOf(token) {
      const session = token === "" ? undefined : sessions.of(token);
      return tokens.holderOf(token)?.name ??
        (session === undefined ? "nobody" : `run ${session.runId}`);
    },

    admit(principal, path, message) {
      if (principal.type === "role" && principal.own) requireOwn(principal, path, message, owners);
      if (principal.type !== "session") return;
      const runId = ruleOf(path)!.session!(message);
      // A message without a run belongs to the run named before.
      if (runId === undefined || runId === principal.runId) return;
      throw new MosaicError(
        "permission_denied",
        `the session token of run ${principal.runId} is for that run only`,
      );
    },

    requireOwnRun(runId, token) {
      if (tokens.holderOf(token)?.role === "admin") return;
      const session = token === "" ? undefined : sessions.of(token);
      // An unknown run gets the same answer as a wrong token, so that ids cannot be probed.
      if (session?.runId !== runId) throw unauthenticated(token === "");
    },
  };
}

/**
 * For a token that may change only what it has submitted. A call that names neither a run nor a
 * sweep is refused, so that a new method is closed to such tokens until it names one. @throws
 * MosaicError `permission_denied`
 */
function requireOwn(
  { name, alone }: Holder,
  path: string,
  message: unknown,
  owners: Owners,
): void {
  const needs = ruleOf(path)!.needs;
  if (needs === "open" || needs === "read" || needs === "submit") return;
  const { run, runId, sweep, forever } = message as {
    run?: string;
    runId?: string;
    sweep?: string;
    forever?: boolean;
  };
  const where = path.endsWith("/RestoreRun") ? "trash" : forever ? "both" : "list";
  const ref = run ?? runId;
  const owner = ref !== undefined
    ? owners.ofRun(ref, where, alone ? name : undefined)
    : sweep !== undefined
    ? owners.ofSweep(sweep, alone ? name : undefined)
    : undefined;
  if (owner !== name) throw notOwn(name, ref === undefined ? "sweep" : "run", owner);
}

interface Session {
  runId: string;
  ofWorker: boolean;
  /** The run's session token, from which the worker's is derived. */
  token: string;
}

/**
 * The tokens of the runs that have processes, by their hashes: the time of a search reveals nothing
 * about a token.
 */
class Sessions {
  readonly #runs: Pick<RunReader, "get" | "sessionTokens">;
  #byHash = new Map<string, Session>();

  constructor(runs: Pick<RunReader, "get" | "sessionTokens">) {
    this.#runs = runs;
  }

  of(token: string): Session | undefined {
    const hash = tokenHash(token);
    const known = this.#byHash.get(hash);
    if (
      known !== undefined && sameToken(this.#runs.get(known.runId)?.sessionToken ?? "", known.token)
    ) return known;
    this.#list();
    return this.#byHash.get(hash);
  }

  #list(): void {
    const before = new Map(
      [...this.#byHash].map(([hash, session]) => [`${session.ofWorker} ${session.token}`, hash]),
    );
    this.#byHash = new Map();
    for (const { runId, token } of this.#runs.sessionTokens()) {
      for (const ofWorker of [false, true]) {
        const hash = before.get(`${ofWorker} ${token}`) ??
          tokenHash(ofWorker ? workerToken(token) : token);
        this.#byHash.set(hash, { runId, ofWorker, token });
      }
    }
  }
}

/**
 * Distinguished from a mistyped or rotated token: a proxy whose attempt is over ends its worker.
 * @throws `failed_precondition`
 */
function refuseStale(runs: Pick<RunReader, "pastAttempt">, token: string): void {
  const past = token === "" ? undefined : runs.pastAttempt(token);
  if (past === undefined) return;
  throw new MosaicError(
    "failed_precondition",
    `attempt ${past.attempt} of run ${past.runId} has ended, and this token belongs to it`,
  );
}

function unauthenticated(missing: boolean): MosaicError {
  return new MosaicError(
    "unauthenticated",
    missing ? "this daemon requires a token" : "the token is not one of this daemon's",
    {
      hint:
        'Set MOSAIC_TOKEN to a token that the daemon\'s user has given you ("mosaic token create" makes one, "mosaic token show" prints the standard ones).',
    },
  );
}
