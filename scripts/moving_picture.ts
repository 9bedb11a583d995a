/**
 * Records `mosaic demo` on a pseudo terminal and writes it as an animated SVG, docs/images/demo.svg:
 * `deno run -A scripts/moving_picture.ts`. Needs util-linux (`script`); the demo takes 20 seconds, the
 * picture a little less.
 */
const [COLUMNS, ROWS] = [108, 20];
const FRAMES_A_SECOND = 4;
const SECONDS = 15;
/** How long the last frame stays. */
const REST_S = 3;
const [CHAR, LINE, MARGIN, SIZE] = [7.8, 17, 14, 13];
const COLOURS: Record<number, string> = {
  31: "#ff7b72",
  32: "#7ee787",
  33: "#e3b341",
  34: "#79c0ff",
  35: "#d2a8ff",
  36: "#76e3ea",
  90: "#8b949e",
};
const ROOT = new URL("..", import.meta.url).pathname;

interface Cell {
  char: string;
  style: string;
}

/** What the demo uses of a terminal: lines, colours, moves upwards and cleared lines. */
class Screen {
  lines: Cell[][] = [[]];
  #row = 0;
  #column = 0;
  #style = "";

  write(text: string): void {
    // deno-lint-ignore no-control-regex -- ESC begins a control sequence
    for (const [part, parameters, final] of text.matchAll(/\x1b\[([\d;?]*)([A-Za-z])|[^\x1b]/gu)) {
      if (final !== undefined) this.#control(parameters!, final);
      else if (part === "\r") this.#column = 0;
      else if (part === "\n") this.#move(this.#row + 1);
      else if (part >= " ") {
        this.lines[this.#row]![this.#column++] = { char: part, style: this.#style };
      }
    }
  }

  #control(parameters: string, final: string): void {
    const number = Number(parameters || "1");
    if (final === "A") this.#move(Math.max(0, this.#row - number));
    else if (final === "G") this.#column = Math.max(0, number - 1);
    else if (final === "K") this.lines[this.#row]!.length = this.#column;
    else if (final === "J") this.lines.length = this.#row + 1;
    else if (final === "m") this.#style = this.#styled(parameters.split(";").map(Number));
    else if (!parameters.startsWith("?")) {
      throw new Error(`the picture has no form for ESC[${parameters}${final}`);
    }
  }

  #move(row: number): void {
    this.#row = row;
    while (this.lines.length <= row) this.lines.push([]);
  }

  /** Classes of the style sheet below. */
  #styled(codes: readonly number[]): string {
    const classes = new Set(this.#style.split(" "));
    for (const code of codes) {
      if (code === 0) classes.clear();
      else if (code === 22) ["c1", "c2"].forEach((name) => classes.delete(name));
      else if (code === 39 || COLOURS[code] !== undefined) {
        for (const colour of Object.keys(COLOURS)) classes.delete(`c${colour}`);
      }
      if (code === 1 || code === 2 || COLOURS[code] !== undefined) classes.add(`c${code}`);
    }
    return [...classes].filter((name) => name !== "").join(" ");
  }

  /** The last lines as SVG. */
  svg(): string {
    return this.lines.slice(-ROWS).map((line, row) => {
      const spans: { style: string; text: string }[] = [];
      for (let at = 0; at < line.length; at++) {
        const { char, style } = line[at] ?? { char: " ", style: "" };
        const last = spans.at(-1);
        if (last?.style === style) last.text += char;
        else spans.push({ style, text: char });
      }
      const text = spans.map(({ style, text }) =>
        style === "" ? escaped(text) : `<tspan class="${style}">${escaped(text)}</tspan>`
      ).join("");
      return text === "" ? "" : `<text y="${MARGIN + LINE * (row + 1)}">${text}</text>`;
    }).join("");
  }
}

const escaped = (text: string) => text.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`);

/** What the terminal got, and when. */
async function record(): Promise<{ atMs: number; text: string }[]> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-picture-" });
  try {
    const demo =
      `stty cols ${COLUMNS} rows ${ROWS}; exec ${Deno.execPath()} task -q demo --state-dir ${directory}/demo`;
    const files = ["--log-out", `${directory}/out`, "--log-timing", `${directory}/timing`];
    const run = await new Deno.Command("script", {
      args: ["-q", "-f", ...files, "-c", demo],
      cwd: ROOT,
      env: { TERM: "xterm-256color" },
      stdout: "null",
      stderr: "inherit",
    }).output();
    if (!run.success) throw new Error(`the demo has failed: exit code ${run.code}`);
    const bytes = Deno.readFileSync(`${directory}/out`);
    // The first line is script's own.
    let from = bytes.indexOf(10) + 1;
    let atMs = 0;
    const decoder = new TextDecoder();
    return Deno.readTextFileSync(`${directory}/timing`).trim().split("\n").map((line) => {
      const [seconds, count] = line.replace(/^O /, "").split(" ").map(Number);
      atMs += seconds! * 1000;
      const text = decoder.decode(bytes.subarray(from, from += count!), { stream: true });
      return { atMs, text: text.replaceAll(`${directory}/demo`, "/tmp/mosaic-demo") };
    });
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

const parts = await record();
const screen = new Screen();
screen.write("\x1b[1m$ mosaic demo\x1b[0m\r\n");
const frames: string[] = [];
const end = parts.at(-1)!.atMs;
const count = (SECONDS - REST_S) * FRAMES_A_SECOND;
for (let frame = 1; frame <= count; frame++) {
  while (parts.length > 0 && parts[0]!.atMs <= end * frame / count) {
    screen.write(parts.shift()!.text);
  }
  frames.push(screen.svg());
}
const share = (frame: number) => (100 * frame / FRAMES_A_SECOND / SECONDS).toFixed(2);
const [width, height] = [COLUMNS * CHAR + 2 * MARGIN, ROWS * LINE + 2 * MARGIN];
const drawn = frames.map((svg, at) => {
  const until = at === frames.length - 1 ? "100" : share(at + 1);
  const show = at === 0
    ? `0%{visibility:visible}${until}%{visibility:hidden}`
    : `0%{visibility:hidden}${share(at)}%{visibility:visible}${
      until === "100" ? "" : `${until}%{visibility:hidden}`
    }`;
  return {
    style: `@keyframes f${at}{${show}100%{visibility:${
      until === "100" ? "visible" : "hidden"
    }}}#f${at}{animation:f${at} ${SECONDS}s step-end infinite}`,
    // Without animations, the last frame is there.
    svg: `<g id="f${at}"${until === "100" ? "" : ' visibility="hidden"'}>${svg}</g>`,
  };
});
const picture =
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="mosaic demo in a terminal">
<style>text{font:${SIZE}px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre;fill:#e6edf3}.c1{font-weight:bold}.c2{opacity:.65}${
    Object.entries(COLOURS).map(([code, colour]) => `.c${code}{fill:${colour}}`).join("")
  }${drawn.map(({ style }) => style).join("")}</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<g transform="translate(${MARGIN})">${drawn.map(({ svg }) => svg).join("\n")}</g>
</svg>
`;
Deno.writeTextFileSync(`${ROOT}docs/images/demo.svg`, picture);
console.log(
  `docs/images/demo.svg: ${frames.length} frames, ${Math.round(picture.length / 1000)} kB`,
);
