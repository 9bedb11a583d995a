/** `mosaic top` */
import type { Command } from "commander";
import { messageOf } from "../../../base/errors.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context, TakenTerminal } from "../../link/context.ts";
import { connectionFlags, connectionOptions } from "../../verb/flags.ts";
import { hostJsonOf } from "../../../runs/fields/host_json.ts";
import { runDetailJsonOf, runJsonOf } from "../../../runs/fields/run_json.ts";
import { anyOf, pause } from "../../../wire/http/waiting.ts";
import { isTransient, Link } from "../../link/daemon_link.ts";
import { type Action, INITIAL, onKey, type TopState } from "../../top/model.ts";
import { noTerminal } from "../../top/terminal.ts";
import { draw, runRows, runsOnScreen } from "../../top/screen.ts";

const POLL_MS = 1000;
const MOST_RUNS = 500;
const CURVE_POINTS = 64;

export function define(command: Command, context: Context): void {
  command.description(
    "Shows runs, their curves, GPUs and the host full-screen, live. Keys: ↑ ↓ select, enter shows details, p pauses and " +
      "resumes, c cancels, r retries, a switches between all and live runs, s sorts by the next column, ? shows all keys, " +
      "q quits.",
  );
  connectionOptions(command)
    .addHelpText(
      "after",
      manual({
        examples: [["mosaic top", "show this host"]],
        exits: {
          0: "ended by q",
          2: "standard input or output is not a terminal (mosaic list --watch needs none)",
          3: "daemon unreachable at the start",
          129: "ended by SIGHUP; the terminal is restored",
          130: "ended by SIGINT; the terminal is restored",
          143: "ended by SIGTERM; the terminal is restored",
        },
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      if (!context.terminal.isTty) throw noTerminal();
      using link = await Link.open(context, connectionFlags(flags));
      // Before taking the screen: an unreachable daemon is reported as by any other verb.
      await link.unary(link.methods.getHost, {});
      await new Top(link, context).run();
    });
}

class Top {
  readonly #link: Link;
  readonly #context: Context;
  readonly #stop = new AbortController();
  #terminal: TakenTerminal | undefined;
  #state: TopState = INITIAL;
  /** Aborted after an action, so that the next poll shows its effect at once. */
  #wake = new AbortController();

  constructor(link: Link, context: Context) {
    this.#link = link;
    this.#context = context;
  }

  async run(): Promise<void> {
    this.#terminal = await this.#context.takeTerminal(() => this.#draw());
    try {
      const polling = this.#poll();
      for await (const key of this.#terminal.keys) {
        const page = runRows(this.#context.terminal);
        const { state, action } = onKey(this.#state, key, this.#context.now(), page);
        this.#state = state;
        this.#draw();
        if (action?.type === "quit") break;
        if (action !== undefined) await this.#do(action);
      }
      this.#stop.abort();
      await polling;
    } finally {
      this.#stop.abort();
      this.#terminal.giveBack();
    }
  }

  #set(change: Partial<TopState>): void {
    this.#state = { ...this.#state, ...change };
    this.#draw();
  }

  #draw(): void {
    if (this.#stop.signal.aborted) return;
    this.#terminal?.show(draw(this.#state, this.#context.now(), this.#context.terminal));
  }

  async #poll(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#refresh();
      } catch (error) {
        // Show the error and keep polling: a restarting daemon comes back.
        this.#set({
          trouble: isTransient(error) ? `the daemon does not answer` : messageOf(error),
        });
      }
      this.#wake = new AbortController();
      using either = anyOf(this.#stop.signal, this.#wake.signal);
      await pause(POLL_MS, either.signal);
    }
  }

  async #refresh(): Promise<void> {
    const { signal } = this.#stop;
    const host = hostJsonOf(await this.#link.unary(this.#link.methods.getHost, {}, signal));
    const { runs } = await this.#link.unary(
      this.#link.methods.listRuns,
      { limit: MOST_RUNS },
      signal,
    );
    const state = { ...this.#state, host, runs: runs.map(runJsonOf) };
    const now = this.#context.now();
    const curves = new Map<string, number[]>();
    for (const run of runsOnScreen(state, now, this.#context.terminal)) {
      const known = this.#state.curves.get(run.run_id);
      // The curve of an ended run does not change.
      curves.set(
        run.run_id,
        run.outcome !== null && known !== undefined ? known : await this.#curve(run.run_id),
      );
    }
    const { detail } = this.#state;
    if (typeof detail === "object") await this.#detail(detail.run_id);
    this.#set({ host, runs: state.runs, curves, seenAt: now, trouble: undefined });
  }

  async #curve(run: string): Promise<number[]> {
    const { buckets } = await this.#link.unary(
      this.#link.methods.getSeries,
      { run, name: "episode_reward", buckets: CURVE_POINTS },
      this.#stop.signal,
    );
    return buckets.map((b) => b.mean);
  }

  async #detail(run: string): Promise<void> {
    const detail = runDetailJsonOf(
      await this.#link.unary(this.#link.methods.getRun, { run }, this.#stop.signal),
    );
    // A key may have closed the details in the meantime.
    if (this.#state.detail !== undefined) this.#set({ detail });
  }

  async #do(action: Exclude<Action, { type: "quit" }>): Promise<void> {
    const { run } = action;
    const { signal } = this.#stop;
    try {
      switch (action.type) {
        case "detail":
          return await this.#detail(run);
        case "cancel":
          await this.#link.unary(this.#link.methods.cancelRun, { run }, signal);
          break;
        case "pause":
          await this.#link.unary(this.#link.methods.pauseRun, { run }, signal);
          break;
        case "resume":
          await this.#link.unary(this.#link.methods.resumeRun, { run }, signal);
          break;
        case "retry":
          await this.#link.unary(this.#link.methods.retryRun, { run }, signal);
          break;
      }
      this.#set({ message: `${action.type} requested` });
    } catch (error) {
      this.#set({
        message: messageOf(error),
        detail: action.type === "detail" ? undefined : this.#state.detail,
      });
    }
    this.#wake.abort();
  }
}
