/** How far a long command is: one line on standard error, redrawn in place. */
import { type OnProgress, progressLine } from "../../base/text/progress_text.ts";
import { cut, escapeControl } from "../text/text.ts";
import type { Context } from "./context.ts";
import type { Output } from "./output.ts";

/** A command that ends sooner shows nothing. */
const SILENT_MS = 1000;
const REDRAW_MS = 200;

/**
 * Shows nothing unless standard error is a terminal. What the command prints meanwhile must go
 * through `context`, which clears the line first.
 */
export class Progress implements Disposable {
  readonly context: Context;
  readonly #caller: Context;
  readonly #beganAt: number;
  #step = { name: "", beganAt: 0, done: 0 };
  #drawnAt = -Infinity;
  #drawn = false;

  constructor(caller: Context) {
    this.#caller = caller;
    this.#beganAt = caller.now();
    // Everything else remains the caller's, also what changes, such as the terminal's size.
    this.context = Object.create(caller, {
      out: { value: this.#clearing(caller.out) },
      err: { value: this.#clearing(caller.err) },
    }) as Context;
  }

  readonly report: OnProgress = (step) => {
    if (!this.#caller.errIsTty) return;
    const now = this.#caller.now();
    // Some things are read twice: then the rate is that of the second time.
    const again = step.name !== this.#step.name || step.done < this.#step.done;
    this.#step = { name: step.name, done: step.done, beganAt: again ? now : this.#step.beganAt };
    if (now - this.#beganAt < SILENT_MS || now - this.#drawnAt < REDRAW_MS) return;
    const line = escapeControl(progressLine(step, now - this.#step.beganAt));
    this.#caller.err.move("line");
    this.#caller.err.write(cut(line, this.#caller.terminal.width - 1));
    [this.#drawnAt, this.#drawn] = [now, true];
  };

  [Symbol.dispose](): void {
    this.#clear();
  }

  #clear(): void {
    if (this.#drawn) this.#caller.err.move("line");
    this.#drawn = false;
  }

  #clearing(output: Output): Output {
    return {
      write: (text) => (this.#clear(), output.write(text)),
      writeBytes: (bytes) => (this.#clear(), output.writeBytes(bytes)),
      move: (to) => (this.#clear(), output.move(to)),
    };
  }
}
