/** A run's log files: follow, scroll back, search. Lines are addressed by their byte offset. */
import { afterReturns, colored } from "../parts/ansi.ts";
import { logOf, runPath } from "../parts/api.ts";
import type { LogChunk, LogMatches } from "../../api/run_log.ts";
import { attempt } from "../parts/dialog.tsx";
import { fill, h, setText } from "../parts/dom.ts";
import { moment, whole } from "../parts/format.ts";
import { bytes } from "../../../base/text/format.ts";

const MOST_LINES = 4000;
const TAIL_BYTES = 64 * 1024;
/** If the log is further ahead than this, the view jumps to its end and says so. */
const JUMP_BYTES = 1024 * 1024;
const LONGEST_LINE = 4000;
/** Number of parts that are read backwards to find a first line to show. */
const MOST_EARLIER_READS = 16;

const STREAMS = [
  ["both", "All", "Both, in the order in which they were written"],
  ["stdout", "stdout", "Standard output"],
  ["stderr", "stderr", "Standard error"],
] as const;

/** Whether a line is telemetry, which other views show. */
function isTelemetry(line: string): boolean {
  if (!line.startsWith("{")) return false;
  return /"(type|event_type|event)"\s*:/.test(line.slice(0, 400)) ||
    /"(type|event_type|event)"\s*:/.test(line.slice(-400));
}

export class Logs {
  #stream = "both";
  #from = 0;
  #to = 0;
  #attempt = 0;
  /** An earlier attempt, whose log no longer grows; 0: the newest. */
  #chosen = 0;
  /** Size of the log when it was last read. */
  #seen = 0;
  #rest = h("div", { class: "unfinished" });
  #hidden = 0;
  #busy = false;
  #generation = 0;
  #lines = h("div", {
    class: "log-lines",
    tabIndex: 0,
    role: "log",
    "aria-label": "Log",
    "aria-live": "off",
  });
  #attempts = h("select", {
    "aria-label": "Attempt",
    hidden: true,
    onchange: () => {
      const { value, options } = this.#attempts;
      this.#chosen = Number(value) === options.length ? 0 : Number(value);
      this.#found.hidden = true;
      this.#restart();
    },
  });
  #state = h("span", { class: "sub" });
  #follow = h("input", { type: "checkbox", checked: true });
  #plain = h("input", { type: "checkbox", checked: true, onchange: () => this.#restart() });
  #earlier = h("button", { type: "button", onclick: () => this.#scrollBack() }, "Earlier lines");
  #search = h("input", {
    type: "search",
    placeholder: "Search the whole log",
    "aria-label": "Search the whole log",
  });
  #empty = h("p", { class: "empty", hidden: true });
  #found = h("div", { class: "found", hidden: true });

  readonly element: HTMLElement;
  #streams: HTMLElement;
  #download = h("a", { class: "button", download: "" }, "Download");

  constructor(readonly runId: string) {
    const streams = this.#streams = h(
      "div",
      { class: "segments", role: "group", "aria-label": "Stream" },
      STREAMS.map(([stream, name, title]) =>
        h("button", {
          ...{ type: "button", title, "data-stream": stream },
          "aria-pressed": String(stream === this.#stream),
          onclick: () => this.#choose(stream),
        }, name)
      ),
    );
    this.element = h(
      "div",
      { class: "logs" },
      h(
        "form",
        {
          class: "log-tools",
          onsubmit: (event: Event) => {
            event.preventDefault();
            attempt(() => this.#find(0, true));
          },
        },
        streams,
        this.#attempts,
        h("label", {}, this.#follow, " Follow"),
        h("label", {}, this.#plain, " Hide telemetry"),
        this.#earlier,
        this.#state,
        h("span", { class: "grow" }),
        this.#search,
        h("button", { type: "submit" }, "Search"),
        this.#download,
      ),
      this.#found,
      this.#empty,
      this.#lines,
    );
    this.#lines.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = this.#lines;
      if (scrollTop + clientHeight < scrollHeight - 40) this.#follow.checked = false;
    }, { passive: true });
    this.#follow.addEventListener("change", () => this.#toEnd());
    this.#restart();
  }

  #choose(stream: string): void {
    this.#stream = stream;
    for (const b of this.#streams.children) {
      b.setAttribute("aria-pressed", String((b as HTMLElement).dataset.stream === stream));
    }
    this.#restart();
  }

  #restart() {
    this.#generation++;
    this.#hidden = 0;
    this.#lines.replaceChildren();
    const of = this.#chosen === 0 ? "" : `&attempt=${this.#chosen}`;
    this.#download.href = `${runPath(this.runId, `/logs/${this.#stream}`)}?download=1${of}`;
    attempt(() => this.#open(-TAIL_BYTES));
  }

  async #open(from: number): Promise<void> {
    const mine = this.#generation;
    this.#busy = true;
    try {
      const chunk = await this.#get({ from });
      if (mine !== this.#generation) return;
      this.#attempt = chunk.attempt;
      this.#from = chunk.from;
      this.#take(chunk);
      // In a worker's telemetry the few other lines may be far back.
      for (
        let i = 0;
        i < MOST_EARLIER_READS && from < 0 && this.#from > 0 && !this.#lines.hasChildNodes();
        i++
      ) {
        await this.#loadEarlier();
        if (mine !== this.#generation) return;
      }
    } finally {
      if (mine === this.#generation) this.#busy = false;
    }
  }

  #get(query: { from: number } | { before: number }): Promise<LogChunk> {
    return this.#ofAttempt<LogChunk>(query);
  }

  #ofAttempt<T>(query: Record<string, string | number>): Promise<T> {
    return logOf<T>(
      this.runId,
      this.#stream,
      this.#chosen === 0 ? query : { ...query, attempt: this.#chosen },
    );
  }

  /** The number of attempts that the run has. */
  attempts(newest: number): void {
    if (this.#attempts.options.length !== newest) {
      fill(
        this.#attempts,
        ...Array.from(
          { length: newest },
          (_, i) => h("option", { value: i + 1 }, `Attempt ${i + 1}`),
        ),
      );
    }
    this.#attempts.value = String(this.#chosen || newest);
    this.#attempts.hidden = newest < 2;
  }

  /** Called on every tick. */
  async update(sizes: Record<string, number>, attemptNumber: number): Promise<void> {
    if (this.#chosen !== 0) return;
    if (attemptNumber !== this.#attempt && this.#attempt !== 0) return this.#restart();
    const size = sizes[this.#stream] ?? 0;
    if (
      !this.#follow.checked || this.#busy || size <= this.#to || size === this.#seen ||
      !this.element.isConnected
    ) {
      return;
    }
    this.#busy = true;
    const mine = this.#generation;
    try {
      let from = this.#to;
      if (size - from > JUMP_BYTES) {
        this.#lines.append(
          h(
            "div",
            { class: "skipped" },
            `${bytes(size - TAIL_BYTES - from)} not shown; search reads all of it`,
          ),
        );
        from = size - TAIL_BYTES;
      }
      const chunk = await this.#get({ from: from === this.#to ? from : -TAIL_BYTES });
      if (mine === this.#generation) this.#take(chunk);
    } catch {
      // The page already shows the state of the connection; the next tick tries again.
    } finally {
      if (mine === this.#generation) this.#busy = false;
    }
  }

  #take(chunk: LogChunk): void {
    this.#to = chunk.to;
    this.#seen = chunk.size;
    this.#rest.remove();
    this.#lines.append(...this.#rows(chunk));
    if (chunk.rest !== "" && !(this.#plain.checked && chunk.rest.startsWith("{"))) {
      fill(this.#rest, ...colored(chunk.rest));
      this.#lines.append(this.#rest);
    }
    while (this.#lines.childElementCount > MOST_LINES) {
      const first = this.#lines.firstElementChild as HTMLElement;
      this.#from = Number(first.dataset.next ?? this.#from);
      first.remove();
    }
    this.#describe(chunk.size);
    if (this.#follow.checked) this.#toEnd();
  }

  #toEnd() {
    if (this.#follow.checked) this.#lines.scrollTop = this.#lines.scrollHeight;
  }

  #describe(size: number): void {
    // A journal may begin with mosaic's own blank line.
    const nothing = size === 0 || (this.#lines.childElementCount === 0 && this.#hidden === 0);
    this.#earlier.hidden = this.#from === 0 || nothing;
    const hidden = this.#hidden > 0 ? `, ${whole(this.#hidden)} telemetry lines hidden` : "";
    const none = this.#lines.childElementCount === 0;
    this.#empty.hidden = !none;
    this.#lines.hidden = none;
    const where = this.#from > 0 ? "in the last lines" : "in this log";
    setText(
      this.#empty,
      nothing
        ? `Nothing on ${this.#stream === "both" ? "stdout and stderr" : this.#stream} so far.`
        : `There is only telemetry ${where}; it has views of its own.`,
    );
    setText(this.#state, nothing ? "empty so far" : `${bytes(size)}${hidden}`);
  }

  #rows(chunk: LogChunk): HTMLElement[] {
    const encoder = new TextEncoder();
    const rows: HTMLElement[] = [];
    let offset = chunk.from;
    let part = 0;
    const { parts = [] } = chunk;
    const lines = chunk.text.split("\n");
    if (lines.at(-1) === "") lines.pop();
    for (const line of lines) {
      while (part + 1 < parts.length && parts[part + 1]!.from <= offset) part++;
      const { stream, at = null } = parts[part] ?? {};
      offset += encoder.encode(line).length + 1;
      if (this.#plain.checked && isTelemetry(line)) {
        this.#hidden++;
        continue;
      }
      const shown = afterReturns(line);
      rows.push(
        h(
          "div",
          {
            "data-next": offset,
            class: stream === "stderr" ? "from-stderr" : undefined,
            title: at === null ? stream : `${stream}, by ${moment(at)}`,
          },
          colored(shown.slice(0, LONGEST_LINE)),
          shown.length > LONGEST_LINE && " …",
        ),
      );
    }
    return rows;
  }

  #scrollBack() {
    this.#follow.checked = false;
    attempt(() => this.#loadEarlier());
  }

  async #loadEarlier() {
    const mine = this.#generation;
    const chunk = await this.#get({ before: this.#from });
    if (mine !== this.#generation) return;
    const height = this.#lines.scrollHeight;
    this.#from = chunk.from;
    this.#lines.prepend(...this.#rows(chunk));
    this.#lines.scrollTop += this.#lines.scrollHeight - height;
    this.#describe(chunk.size);
  }

  async #find(from: number, fresh: boolean): Promise<void> {
    const text = this.#search.value;
    this.#found.hidden = text === "";
    if (text === "") return;
    if (fresh) fill(this.#found, "Searching …");
    const answer = await this.#ofAttempt<LogMatches>({ q: text, from });
    const rows = answer.matches.map((m) =>
      h(
        "button",
        { type: "button", class: "match", onclick: () => this.#goTo(m.offset) },
        ...colored(afterReturns(m.line)),
      )
    );
    if (fresh) this.#found.replaceChildren();
    this.#found.querySelector(".found-end")?.remove();
    const lines = this.#found.querySelectorAll(".match").length + rows.length;
    this.#found.append(
      ...rows,
      h(
        "div",
        { class: "found-end" },
        lines === 1 ? "1 line found" : `${whole(lines)} lines found`,
        !answer.done &&
          h(
            "button",
            { type: "button", onclick: () => attempt(() => this.#find(answer.to, false)) },
            `Search on from ${bytes(answer.to)}`,
          ),
        h("button", { type: "button", onclick: () => this.#found.hidden = true }, "Close"),
      ),
    );
  }

  #goTo(offset: number): void {
    this.#generation++;
    this.#follow.checked = false;
    this.#hidden = 0;
    this.#lines.replaceChildren();
    attempt(async () => {
      await this.#open(offset);
      this.#lines.scrollTop = 0;
    });
  }
}
