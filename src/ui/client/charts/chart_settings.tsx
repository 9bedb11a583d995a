/** What one chart sets for itself, in a panel beside it: every change is drawn at once. */
import "../parts/common.ts";
import { h } from "../parts/dom.ts";
import { render, useState } from "../parts/preact.ts";
import { type ChartStyle, metricOf, type Own, OWN_AS_OTHERS, type XMode } from "./chart_lines.ts";

export interface SettingsProps {
  title: string;
  own: Own;
  /** What all charts have. */
  shared: ChartStyle;
  /** Names for the x axis. */
  metrics: readonly string[];
  /** Too few points to smooth. */
  sparse: boolean;
  /** Of a computed chart. */
  expression?: string;
  change(own: Own): void;
  /** @throws Error if it is none */
  express(text: string): void;
}

/** Opens it below an element, until something else is used. */
export function openSettings(near: HTMLElement, props: SettingsProps): void {
  const panel = h("div", {
    class: "menu chart-settings",
    popover: "auto",
    role: "dialog",
    "aria-label": `Settings of ${props.title}`,
  });
  near.after(panel);
  render(<Settings {...props} close={() => panel.hidePopover()} />, panel);
  panel.addEventListener("toggle", (event) => {
    if (event.newState === "open") {
      const { right, bottom } = near.getBoundingClientRect();
      panel.style.inset = `${
        Math.max(0, Math.min(bottom, innerHeight - panel.offsetHeight))
      }px auto auto ${Math.max(0, right - panel.offsetWidth)}px`;
      panel.querySelector<HTMLElement>("select")?.focus();
      return;
    }
    render(null, panel);
    panel.remove();
    near.focus();
  });
  panel.showPopover();
}

const X_AXES: [XMode, string][] = [
  ["index", "Step or episode"],
  ["relative", "Time since start"],
  ["wall", "Time of day"],
];
const nameOfX = (x: XMode) => metricOf(x) ?? X_AXES.find(([mode]) => mode === x)?.[1] ?? x;
const SCALES = { "": undefined, linear: false, log: true } as const;

function Settings(props: SettingsProps & { close(): void }) {
  const { shared, metrics, sparse, title } = props;
  const [own, setOwn] = useState(props.own);
  const [wrong, setWrong] = useState("");
  const change = (part: Partial<Own>) => {
    const next = { ...own, ...part };
    setOwn(next);
    const [low, high] = next.y;
    if (low !== null && high !== null && low >= high) {
      return setWrong("The lowest value is not below the highest.");
    }
    setWrong("");
    props.change(next);
  };
  const restyle = (part: Own["style"]) => change({ style: { ...own.style, ...part } });
  const scale = (label: string, of: "log" | "logX") => (
    <label>
      {label}
      <select
        value={own.style[of] === undefined ? "" : own.style[of] ? "log" : "linear"}
        onChange={(e) => restyle({ [of]: SCALES[e.currentTarget.value as keyof typeof SCALES] })}
      >
        <option value="">{`As all (${shared[of] ? "logarithmic" : "linear"})`}</option>
        <option value="linear">Linear</option>
        <option value="log">Logarithmic</option>
      </select>
    </label>
  );
  const end = (label: string, at: 0 | 1) => (
    <label>
      {label}
      <input
        type="number"
        step="any"
        placeholder="by the data"
        value={own.y[at] ?? ""}
        onInput={(e) => {
          const { value, valueAsNumber } = e.currentTarget;
          change({ y: own.y.with(at, value === "" ? null : valueAsNumber) as Own["y"] });
        }}
      />
    </label>
  );
  const smoothing = own.style.smoothing ?? shared.smoothing;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        props.close();
      }}
    >
      <strong>{title}</strong>
      <label>
        X axis
        <select
          value={own.style.x ?? ""}
          onChange={(e) => restyle({ x: (e.currentTarget.value || undefined) as XMode })}
        >
          <option value="">{`As all (${nameOfX(shared.x)})`}</option>
          {X_AXES.map(([x, text]) => <option key={x} value={x}>{text}</option>)}
          <optgroup label="A metric">
            {metrics.map((name) => <option key={name} value={`metric:${name}`}>{name}</option>)}
          </optgroup>
        </select>
      </label>
      {scale("X scale", "logX")}
      {scale("Y scale", "log")}
      {end("Lowest y", 0)}
      {end("Highest y", 1)}
      <label>
        Outliers
        <select
          value={own.trimmed ? "1" : ""}
          onChange={(e) => change({ trimmed: e.currentTarget.value === "1" })}
        >
          <option value="">Shown</option>
          <option value="1">Left out: 2 % at each end</option>
        </select>
      </label>
      <label>
        Smoothing
        <span class="pair">
          <input
            type="range"
            min="0"
            max="0.99"
            step="0.01"
            disabled={sparse}
            value={sparse ? 0 : smoothing}
            onInput={(e) => restyle({ smoothing: e.currentTarget.valueAsNumber })}
          />
          <output>{sparse ? "none" : smoothing.toFixed(2)}</output>
        </span>
      </label>
      {sparse && <p class="sub">Fewer than 50 points are drawn as they are.</p>}
      <label>
        Expression
        <input
          type="text"
          defaultValue={props.expression ?? ""}
          placeholder="a / b, a - b, max(a), min(a)"
          onChange={(e) => {
            const text = e.currentTarget.value.trim();
            if (text === "" || text === props.expression) return setWrong("");
            try {
              props.express(text);
              props.close();
            } catch (error) {
              setWrong((error as Error).message);
            }
          }}
        />
      </label>
      <p class="wrong" role="alert">{wrong}</p>
      <div class="dialog-buttons">
        <button type="button" onClick={() => change(OWN_AS_OTHERS)}>As all charts</button>
        <button type="submit" class="primary">Done</button>
      </div>
    </form>
  );
}
