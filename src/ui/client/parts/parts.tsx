/** Components shared by several views. */
import { heardTime, listRuns, live, now } from "./api.ts";
import { attempt } from "./dialog.tsx";
import { type IconName, ICONS } from "./dom.ts";
import {
  type ComponentChildren,
  createElement,
  useEffect,
  useLayoutEffect,
  useReducer,
  useRef,
  useState,
} from "./preact.ts";

export function Icon({ name }: { name: IconName }) {
  return (
    <svg viewBox="0 0 16 16" class="glyph" aria-hidden="true">
      <path d={ICONS[name]} />
    </svg>
  );
}

interface TableProps {
  label: string;
  kind: string;
  /** A text, or a text and its class. */
  headings: (string | readonly [text: string, kind: string])[];
  caption?: string;
  children: ComponentChildren;
}

/** A table that scrolls by itself if it is wider than the page. */
export function ScrollTable({ label, kind, headings, caption = label, children }: TableProps) {
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label={label}>
      <table class={kind}>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {headings.map((one) => typeof one === "string" ? [one, undefined] as const : one).map((
              [text, c],
              i,
            ) => <th key={i} scope="col" class={c}>{text}</th>)}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** Terms and values in a grid. */
export function Terms(
  { kind, of }: { kind: string; of: (readonly [string, ComponentChildren])[] },
) {
  return (
    <dl class={kind}>
      {of.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A text with a button that copies it. */
export function Copied({ text, what }: { text: string; what: string }) {
  return (
    <>
      {text}
      <button
        type="button"
        class="icon"
        aria-label={`Copy ${what}`}
        title={`Copy ${what}`}
        onClick={() => navigator.clipboard.writeText(text)}
      >
        <Icon name="copy" />
      </button>
    </>
  );
}

/** For a view without live data: it still shows the state of the connection. */
export function useConnection(): void {
  useEffect(() => {
    let close = () => {};
    let mounted = true;
    attempt(async () => {
      const { head } = await listRuns({ limit: "1" });
      if (mounted) close = live("/api/live", head, { tick: ({ at }) => heardTime(at) });
    });
    return () => {
      mounted = false;
      close();
    };
  }, []);
}

/** A function that draws the component again. */
export function useRedraw(): () => void {
  return useReducer((n: number) => n + 1, 0)[1] as () => void;
}

/**
 * The daemon's time, updated every second, even while the daemon is silent, so that staleness is
 * visible.
 */
export function useNow(): number {
  const redraw = useRedraw();
  useEffect(() => {
    addEventListener("mosaic-second", redraw);
    return () => removeEventListener("mosaic-second", redraw);
  }, []);
  return now();
}

/** An element that Preact does not draw: created once, and removed with the component. */
export function Island({ of, gone }: { of: HTMLElement; gone?: () => void }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    place.current!.append(of);
    return gone;
  }, [of]);
  return <div class="island" ref={place} />;
}

/** Drawn when it first comes into sight. */
export function WhenSeen({ of }: { of: () => ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((e) => e.isIntersecting)) setSeen(true);
    }, { rootMargin: "400px" });
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, []);
  return <div ref={place} class="when-seen">{seen && of()}</div>;
}

/**
 * A component of a part of the program that is loaded when it is first shown.
 * @param waiting shown meanwhile
 */
export function lazily<P extends object>(
  load: () => Promise<(props: P) => ComponentChildren>,
  waiting: ComponentChildren = null,
): (props: P) => ComponentChildren {
  let loaded: ((props: P) => ComponentChildren) | undefined;
  return function Lazily(props: P) {
    const redraw = useRedraw();
    useEffect(() => {
      if (loaded !== undefined) return;
      attempt(async () => {
        try {
          loaded = await load();
        } catch (error) {
          throw new Error("A part of this page cannot be loaded: reload the page.", {
            cause: error,
          });
        }
        redraw();
      });
    }, []);
    // deno-lint-ignore no-explicit-any -- a component of any props
    return loaded === undefined ? waiting : createElement(loaded as any, props);
  };
}

/** Keys of `VIEWS` in further_views.tsx. */
export type View =
  | "Again"
  | "Code"
  | "Columns"
  | "Command"
  | "ConfigDifferences"
  | "Explorer"
  | "Frames"
  | "LogPane"
  | "Media"
  | "Nowhere"
  | "Start"
  | "Trash";

// deno-lint-ignore no-explicit-any -- whoever shows a view checks its props by `satisfies`
type Views = Record<View, (props: any) => ComponentChildren>;
let further: () => Promise<Views>;

/** Where the views of `Later` come from: this file is below them. */
export function furtherViews(load: () => Promise<Views>): void {
  further = load;
}

const Drawn = lazily(async () => {
  const views = await further();
  return ({ view, props }: { view: View; props: object }) => createElement(views[view], props);
});

/** A view of further_views.tsx. @param props of that view */
export function Later(props: { view: View; props: object }) {
  return (
    <div class="island">
      <Drawn {...props} />
    </div>
  );
}
