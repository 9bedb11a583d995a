/**
 * Delivers the event log: to one URL for the whole daemon, to one per run that names
 * `metadata.webhook`, and to receivers of messages (../messages), which get several events at once.
 *
 * Each target has a cursor over the registry's events, stored in a file, so that delivery continues
 * after a restart. Delivery is in order and at least once; an event that a target rejects (4xx),
 * that fails `giveUpAfter` times, or that cannot be encoded, is skipped with a warning. A target
 * that is down does not delay other targets.
 */
import { beyondLimits } from "../../registry/event_data.ts";
import type { RunReader } from "../../registry/run_reader.ts";
import type { EventRow } from "../../registry/row_types.ts";
import type { Logger } from "../../base/log.ts";
import type { Counts, WebhookResult } from "../activity.ts";
import { messageOf } from "../../base/errors.ts";
import { supervised } from "../supervised.ts";
import { anyOf, pause } from "../../wire/http/waiting.ts";
import { readTextIfThere, writeFileAtomic } from "../../os/files/files.ts";
import { SENT_BY_DAEMON } from "../../wire/sender_headers.ts";
import type { OwnListeners } from "./own_listeners.ts";
import { isFinal, type Refusal } from "./refusal.ts";
import { formOf, MESSAGE_KINDS, messageIn } from "./messages.ts";
import { signedHeaders } from "./signature.ts";
import { outputOfUser } from "../../os/rights/user_shell.ts";
import type { WorkerUser } from "../../os/rights/worker_user.ts";

export interface WebhookOptions {
  runs: RunReader;
  log: Logger;
  /** File of the cursors. */
  stateFile: string;
  secret: string;
  /** Receives the events of all runs. */
  daemonUrl?: string;
  /** Event kinds to deliver; undefined: all except the periodic kinds. */
  daemonKinds?: readonly string[];
  /** The target in a run's config. */
  targetOfRun: (runId: string) => RunTarget | undefined;
  /** Attempts per event; the waits between them double from `firstRetryMs` to five minutes. */
  giveUpAfter?: number;
  firstRetryMs?: number;
  /** Per request. */
  timeoutMs?: number;
  /** Counts deliveries by result. */
  counts?: Counts;
  /** The daemon's own listeners, to which nothing is sent. */
  own?: Pick<OwnListeners, "of">;
  digests?: readonly Digest[];
}

/** A receiver that gets the events of some time as one message. */
export interface Digest {
  /** Unique; the cursor's key. */
  name: string;
  /** "" if it leads to no host. */
  url: string;
  kinds: readonly string[];
  /** From the first event that is wanted to the message. */
  waitMs: number;
  wants(event: EventRow): boolean;
  /**
   * @returns what sends the message, at each attempt @throws for events of which there can be none
   */
  messageOf(events: readonly EventRow[]): (signal: AbortSignal) => Promise<Refusal | undefined>;
}

export interface RunTarget {
  url: string;
  /** Event kinds; null: all except the periodic kinds. */
  events: readonly string[] | null;
  /** File with the key; null: the daemon's key. */
  secretFile: string | null;
  /** Who may read it; undefined: the daemon's user. */
  user?: WorkerUser | undefined;
}

interface Target {
  url: string;
  /** Undefined for the daemon-wide one. */
  runId?: string;
  /** The name of a digest; its `url` is "". */
  digest?: string;
  seq: number;
  /**
   * The target from the run's config, kept when the run is about to be deleted together with its
   * config.
   */
  last?: RunTarget;
}

/** Periodic kinds, every half minute per run: delivered only if named. */
const BY_NAME_ONLY = ["metrics"];

const RETRY_CAP_MS = 300_000;
const SECRET_READ_MS = 10_000;
const PAGE = 100;
/** At most so many in one message. */
const DIGEST_EVENTS = 1000;
/**
 * A run's target is removed this long after the run's end, when its last artifacts are recorded.
 */
const AFTER_END_MS = 60_000;

/**
 * The cursors; undefined if there are none, or they cannot be read: such a file is kept beside the
 * new one.
 */
function savedState(
  { stateFile, log }: WebhookOptions,
): { seen: number; targets: Target[] } | undefined {
  try {
    const text = readTextIfThere(stateFile);
    if (text === undefined) return undefined;
    const { seen, targets } = JSON.parse(text) as { seen: unknown; targets: unknown };
    const isTarget = (one: Partial<Target> | null) =>
      typeof one?.url === "string" && Number.isSafeInteger(one.seq);
    if (Number.isSafeInteger(seen) && Array.isArray(targets) && targets.every(isTarget)) {
      return { seen: seen as number, targets };
    }
    throw new Error("it has no cursors");
  } catch (error) {
    const aside = `${stateFile}.damaged-${Date.now()}`;
    try {
      Deno.renameSync(stateFile, aside);
    } catch {
      // The file stays until a cursor is saved.
    }
    log.error(
      { path: stateFile, kept_as: aside, error: messageOf(error) },
      "webhook cursors cannot be read: only new events will be delivered",
    );
    return undefined;
  }
}

export class Webhooks {
  readonly #options: WebhookOptions;
  readonly #targets = new Map<string, Target>();
  readonly #stop = new AbortController();
  readonly #work: Promise<void>[] = [];
  #seen: number;

  constructor(options: WebhookOptions) {
    this.#options = options;
    const saved = savedState(options);
    this.#seen = saved?.seen ?? options.runs.eventHead();
    const { digests = [] } = options;
    for (const target of saved?.targets ?? []) {
      const isKnown = target.digest === undefined
        ? target.runId !== undefined || target.url === options.daemonUrl
        : digests.some(({ name }) => name === target.digest);
      if (isKnown) this.#add(target);
    }
    for (const { name } of digests) {
      const target: Target = { url: "", digest: name, seq: this.#seen };
      if (!this.#targets.has(this.#key(target))) this.#add(target);
    }
    if (options.daemonUrl !== undefined && !this.#targets.has(options.daemonUrl)) {
      this.#add({ url: options.daemonUrl, seq: this.#seen });
    }
    this.#work.push(this.#supervised("webhooks", () => this.#discover()));
  }

  /** Resolves after the current requests; the rest is delivered after the next start. */
  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#work);
    this.#save();
  }

  #supervised(what: string, loop: () => Promise<void>): Promise<void> {
    const { log, firstRetryMs } = this.#options;
    return supervised(what, loop, { log, signal: this.#stop.signal, firstWaitMs: firstRetryMs });
  }

  #key(target: Target): string {
    if (target.digest !== undefined) return `digest ${target.digest}`;
    return target.runId === undefined ? target.url : `${target.runId} ${target.url}`;
  }

  #add(target: Target): void {
    this.#targets.set(this.#key(target), target);
    const digest = this.#options.digests?.find(({ name }) => name === target.digest);
    this.#work.push(
      this.#supervised(
        "webhook",
        () => digest ? this.#digestAll(target, digest) : this.#deliverAll(target),
      ),
    );
  }

  /** The run will be deleted with its config: keep its target until its last event is delivered. */
  runWillGo(runId: string): void {
    const last = this.#options.targetOfRun(runId);
    if (last === undefined) return;
    const target: Target = { url: last.url, runId, seq: this.#options.runs.eventHead() };
    const known = this.#targets.get(this.#key(target));
    (known ?? target).last = last;
    if (known === undefined) this.#add(target);
    this.#save();
  }

  #save(): void {
    const state = { seen: this.#seen, targets: [...this.#targets.values()] };
    try {
      writeFileAtomic(this.#options.stateFile, JSON.stringify(state));
    } catch (error) {
      this.#options.log.warn(
        { error: messageOf(error) },
        "webhook cursors not saved; a restart repeats deliveries",
      );
    }
  }

  /** Reads the event log for runs whose config names a URL. */
  async #discover(): Promise<void> {
    const { runs, targetOfRun } = this.#options;
    while (!this.#stop.signal.aborted) {
      for (const event of runs.eventsSince(this.#seen, { limit: PAGE })) {
        // A run is submitted, or gets another attempt after its target was removed.
        if (event.kind === "queued") {
          const url = targetOfRun(event.runId)?.url;
          const target = url === undefined
            ? undefined
            : { url, runId: event.runId, seq: event.seq - 1 };
          if (target !== undefined && !this.#targets.has(this.#key(target))) this.#add(target);
        }
        this.#seen = event.seq;
      }
      if (this.#seen < runs.eventHead()) continue;
      await runs.waitEventsBeyond(this.#seen, this.#stop.signal);
    }
  }

  async #deliverAll(target: Target): Promise<void> {
    const { runs } = this.#options;
    const stop = this.#stop.signal;
    while (!stop.aborted) {
      const page = runs.eventsSince(target.seq, { runId: target.runId, limit: PAGE });
      for (const event of page) {
        if (!await this.#deliver(target, event)) return;
        target.seq = event.seq;
      }
      if (page.length > 0) {
        this.#save();
        continue;
      }
      if (target.runId !== undefined && this.#isOver(target.runId, target.last !== undefined)) {
        this.#targets.delete(this.#key(target));
        this.#save();
        return;
      }
      await runs.waitEventsBeyond(Math.max(target.seq, runs.eventHead()), stop);
    }
  }

  async #digestAll(target: Target, digest: Digest): Promise<void> {
    const { runs } = this.#options;
    const stop = this.#stop.signal;
    const read = () => {
      // Before it is read: an event that comes meanwhile is after it.
      const head = runs.eventHead();
      const events = runs.eventsSince(target.seq, { kinds: digest.kinds, limit: DIGEST_EVENTS });
      const end = events.length < DIGEST_EVENTS
        ? Math.max(head, events.at(-1)?.seq ?? 0)
        : events.at(-1)!.seq;
      return { events: events.filter((event) => digest.wants(event)), end };
    };
    while (!stop.aborted) {
      const { events: [first], end } = read();
      if (first === undefined) {
        target.seq = Math.max(target.seq, end);
        await runs.waitEventsBeyond(target.seq, stop);
        continue;
      }
      // At most that: the clock may have been set back.
      await pause(
        Math.max(0, Math.min(first.at + digest.waitMs - Date.now(), digest.waitMs)),
        stop,
      );
      if (stop.aborted) return;
      const gathered = read();
      // A run may fit a filter no longer, or be deleted.
      if (gathered.events.length > 0 && !await this.#digest(digest, gathered.events)) return;
      target.seq = gathered.end;
      this.#save();
    }
  }

  /** False if the daemon stops before the message was delivered. */
  async #digest(digest: Digest, events: readonly EventRow[]): Promise<boolean> {
    const which = {
      receiver: digest.name,
      events: events.length,
      runs: new Set(events.map((e) => e.runId)).size,
    };
    const skipped = (why: string, result: WebhookResult = "given_up"): true => {
      this.#options.counts?.add(result);
      this.#options.log.warn({ ...which, why: why.slice(0, 500) }, "message: not sent");
      return true;
    };
    let send: ReturnType<Digest["messageOf"]>;
    try {
      send = digest.messageOf(events);
    } catch (error) {
      return skipped(messageOf(error), "not_encodable");
    }
    return await this.#attempts({ url: digest.url, which, skipped, send });
  }

  #isOver(runId: string, beingDeleted: boolean): boolean {
    const row = this.#options.runs.get(runId);
    if (row === undefined) return true;
    return !beingDeleted && row.finishedAt !== null && Date.now() - row.finishedAt > AFTER_END_MS;
  }

  /** Undefined if the event is not to be sent: its kind is not wanted, or it cannot be signed. */
  async #terms(target: Target, event: EventRow): Promise<{ secret: string } | undefined> {
    const { targetOfRun, daemonKinds, secret, log } = this.#options;
    const own = target.runId === undefined ? undefined : targetOfRun(target.runId) ?? target.last;
    if (target.runId !== undefined && own === undefined) return undefined;
    const kinds = own === undefined ? daemonKinds : own.events;
    const usual = formOf(target.url) === "signed"
      ? !BY_NAME_ONLY.includes(event.kind)
      : MESSAGE_KINDS.includes(event.kind);
    if (!(kinds?.includes(event.kind) ?? usual)) return undefined;
    if (own === undefined || own.secretFile === null) return { secret };
    try {
      return { secret: await secretIn(own.secretFile, own.user) };
    } catch (error) {
      log.warn(
        { run_id: event.runId, event: event.kind, error: messageOf(error) },
        "webhook: no key, event skipped",
      );
      return undefined;
    }
  }

  /** False if the daemon stops before the event was delivered. */
  async #deliver(target: Target, event: EventRow): Promise<boolean> {
    const { log, counts } = this.#options;
    const skipped = (why: string, result: WebhookResult = "given_up"): true => {
      counts?.add(result);
      log.warn(
        { run_id: event.runId, event: event.kind, seq: event.seq, why: why.slice(0, 500) },
        "webhook: event skipped",
      );
      return true;
    };
    let request: { body: string; headers: () => Record<string, string> };
    try {
      const terms = await this.#terms(target, event);
      if (terms === undefined) return true;
      const form = formOf(target.url);
      const message = form === "signed" ? undefined : messageIn(form, event);
      const body = message?.body ?? bodyOf(event);
      const headers = () =>
        message?.headers ??
          signedHeaders(terms.secret, `event-${event.seq}`, Math.floor(Date.now() / 1000), body);
      // A key that is none is found here, before the first attempt.
      headers();
      request = { body, headers };
    } catch (error) {
      return skipped(messageOf(error), "not_encodable");
    }
    return await this.#attempts({
      url: target.url,
      which: { run_id: event.runId, seq: event.seq },
      skipped,
      send: async (signal) => {
        const response = await fetch(target.url, {
          method: "POST",
          headers: { ...request.headers(), ...SENT_BY_DAEMON },
          body: request.body,
          // Followed, a redirect would lead past the check of the address.
          redirect: "manual",
          signal,
        });
        await response.body?.cancel();
        return response.ok
          ? undefined
          : { why: `HTTP ${response.status}`, final: isFinal(response.status) };
      },
    });
  }

  /** Tries until it is sent or given up. @returns false if the daemon stops before */
  async #attempts({ url, which, skipped, send }: {
    /** "" if it leads to no host. */
    url: string;
    /** For the log. */
    which: Record<string, unknown>;
    skipped: (why: string, result?: WebhookResult) => true;
    send: (signal: AbortSignal) => Promise<Refusal | undefined>;
  }): Promise<boolean> {
    const { log, counts, own, giveUpAfter = 12, firstRetryMs = 1000, timeoutMs = 10_000 } =
      this.#options;
    for (let attempt = 1;; attempt++) {
      let why: string;
      try {
        const self = url === "" ? undefined : await own?.of(url);
        if (self !== undefined) return skipped(`${url} is this daemon itself (${self})`, "refused");
        using limit = anyOf(this.#stop.signal, AbortSignal.timeout(timeoutMs));
        const refusal = await send(limit.signal);
        if (refusal === undefined) {
          counts?.add("delivered");
          return true;
        }
        why = refusal.why;
        if (refusal.final) attempt = giveUpAfter;
      } catch (error) {
        if (this.#stop.signal.aborted) return false;
        why = messageOf(error);
      }
      if (attempt >= giveUpAfter) return skipped(why);
      counts?.add("retried");
      const wait = Math.min(RETRY_CAP_MS, firstRetryMs * 2 ** (attempt - 1));
      log.debug({ ...which, why, retry_ms: wait }, "webhook: delivery failed");
      await pause(wait, this.#stop.signal);
      if (this.#stop.signal.aborted) return false;
    }
  }
}

/** @throws for data that is no JSON object, or beyond what a receiver can be expected to read */
function bodyOf({ seq, runId, runName, attempt, kind, at, dataJson }: EventRow): string {
  const leftOut = beyondLimits(dataJson);
  if (leftOut !== undefined) throw new Error(`the event's data ${leftOut}`);
  const whose = { seq, run_id: runId, run_name: runName, attempt };
  return JSON.stringify({
    type: `run.${kind}`,
    timestamp: new Date(at).toISOString(),
    // First for readability, and last because a worker may use these names for its own fields.
    data: { ...whose, ...JSON.parse(dataJson), ...whose },
  });
}

/**
 * The file's first line or lines; a FIFO keeps nobody waiting. @throws if the user cannot read such
 * a file
 */
async function secretIn(path: string, user: WorkerUser | undefined): Promise<string> {
  const text = await outputOfUser(
    user,
    SECRET_READ_MS,
    '[ -f "$0" ] && exec head -c 65536 <"$0"',
    path,
  );
  if (text !== undefined) return text.trim();
  const whose = user === undefined ? "the daemon's user" : `user ${user.name || user.uid}`;
  throw new Error(
    `${path} is no regular file that ${whose} can read; correct metadata.webhook.secret_file`,
  );
}
