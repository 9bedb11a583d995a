/** Tabs by the ARIA pattern: arrow keys move, the selected one is in the address. */
import { type ComponentChildren, useEffect, useRef, useState } from "./preact.ts";

/** Selects a tab of the view. */
export function showTab(id: string): void {
  dispatchEvent(new CustomEvent("mosaic-tab", { detail: id }));
}

export interface Tab {
  id: string;
  label: string;
  content(): ComponentChildren;
}

/**
 * A panel is created when it is first shown, and hidden afterwards; `inSight` is called with the
 * one that is shown.
 */
export function Tabs({ list, inSight }: { list: Tab[]; inSight?: (id: string) => void }) {
  const requested = location.hash.slice(1);
  const [current, setCurrent] = useState(
    list.some((t) => t.id === requested) ? requested : list[0]!.id,
  );
  const opened = useRef(new Set<string>());
  const strip = useRef<HTMLDivElement>(null);
  opened.current.add(current);
  inSight?.(current);
  const choose = (id: string) => {
    setCurrent(id);
    history.replaceState(null, "", `${location.pathname}${location.search}#${id}`);
  };
  useEffect(() => {
    const onRequest = (event: Event) => choose((event as CustomEvent<string>).detail);
    addEventListener("mosaic-tab", onRequest);
    return () => removeEventListener("mosaic-tab", onRequest);
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    const at = list.findIndex((t) => t.id === current);
    const moves: Record<string, number> = {
      ArrowRight: at + 1,
      ArrowLeft: at - 1,
      Home: 0,
      End: list.length - 1,
    };
    const to = moves[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const { id } = list[(to + list.length) % list.length]!;
    choose(id);
    strip.current?.querySelector<HTMLElement>(`#tab-${id}`)?.focus();
  };
  return (
    <div class="tabbed">
      <div
        class="tabs"
        role="tablist"
        aria-label="Views of this run"
        ref={strip}
        onKeyDown={onKeyDown}
      >
        {list.map(({ id, label }) => (
          <button
            key={id}
            type="button"
            role="tab"
            id={`tab-${id}`}
            aria-controls={`panel-${id}`}
            aria-selected={id === current ? "true" : "false"}
            tabIndex={id === current ? 0 : -1}
            onClick={() => choose(id)}
          >
            {label}
          </button>
        ))}
      </div>
      {list.map(({ id, content }) => (
        <div
          key={id}
          role="tabpanel"
          id={`panel-${id}`}
          aria-labelledby={`tab-${id}`}
          tabIndex={0}
          hidden={id !== current}
        >
          {opened.current.has(id) && content()}
        </div>
      ))}
    </div>
  );
}
