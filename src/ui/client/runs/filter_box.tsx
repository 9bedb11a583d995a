/**
 * The one filter of the workspace: a part of a name or id, or the filter language of the command
 * line with completion.
 */
import { useRef, useState } from "../parts/preact.ts";

/** Offered at once; typing narrows them. */
const OFFERED = 12;
/** What makes a text a condition rather than a part of a name. */
const CONDITION = /[<>=~!()"]|^\s*not\s|\s(?:and|or|in|like|ilike)\s/;

export const isCondition = (text: string): boolean => CONDITION.test(text);

/** The word that ends at the caret, unless it is inside quotes. */
export function wordAt(text: string, caret: number): { from: number; word: string } {
  const before = text.slice(0, caret);
  if ((before.match(/"/g)?.length ?? 0) % 2 === 1) return { from: caret, word: "" };
  const word = /[^\s<>=~!(),"]*$/.exec(before)![0];
  return { from: caret - word.length, word };
}

/** Names that hold the word, those that begin with it first. */
export function completions(word: string, names: readonly string[]): string[] {
  if (word === "") return [];
  const wanted = word.toLowerCase();
  const bare = (name: string) => name.toLowerCase().replace(/^(?:param|metric)\./, "");
  const rank = (name: string) =>
    bare(name).startsWith(wanted) || name.toLowerCase().startsWith(wanted) ? 0 : 1;
  const found = names.filter((name) => name.toLowerCase().includes(wanted) && name !== word);
  return found.sort((a, b) => rank(a) - rank(b)).slice(0, OFFERED);
}

/** As the language reads it: a name with signs in it stands in backquotes. */
const written = (name: string) => /[\s=<>!~(),"'`]/.test(name) ? `\`${name}\`` : name;

interface Props {
  text: string;
  names: readonly string[];
  /** Why the text is not a filter. */
  wrong: string;
  input: { current: HTMLInputElement | null };
  change(text: string): void;
}

export function FilterBox({ text, names, wrong, input, change }: Props) {
  const [offered, setOffered] = useState<string[]>([]);
  const [at, setAt] = useState(-1);
  const place = useRef({ from: 0, to: 0 });
  const offer = (box: HTMLInputElement) => {
    const caret = box.selectionStart ?? box.value.length;
    const { from, word } = wordAt(box.value, caret);
    place.current = { from, to: caret };
    setOffered(completions(word, names));
    setAt(-1);
  };
  const close = () => setOffered([]);
  const choose = (name: string) => {
    const box = input.current!;
    const { from, to } = place.current;
    const next = box.value.slice(0, from) + written(name) + box.value.slice(to);
    close();
    // A lone name would be looked for as a part of a run's name.
    change(isCondition(next) ? next : `${next}>`);
    requestAnimationFrame(() => {
      box.focus();
      const caret = from + written(name).length + (isCondition(next) ? 0 : 1);
      box.setSelectionRange(caret, caret);
    });
  };
  const open = offered.length > 0;
  return (
    <span class="filter-box">
      <input
        type="search"
        role="combobox"
        placeholder="Name, or lr<1e-3 and tag=best"
        aria-label="Filter by name, id or conditions"
        aria-expanded={open ? "true" : "false"}
        aria-controls="filter-names"
        aria-autocomplete="list"
        aria-activedescendant={at >= 0 ? `filter-name-${at}` : undefined}
        aria-invalid={wrong === "" ? undefined : "true"}
        title={wrong === "" ? undefined : wrong}
        list={undefined}
        autocomplete="off"
        spellcheck={false}
        ref={input}
        value={text}
        onInput={(e) => {
          change(e.currentTarget.value);
          offer(e.currentTarget);
        }}
        onBlur={close}
        onKeyDown={(e) => {
          if (!open) return;
          const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
          const move = moves[e.key];
          if (move !== undefined) setAt((at + move + offered.length) % offered.length);
          else if ((e.key === "Enter" || e.key === "Tab") && at >= 0) choose(offered[at]!);
          else if (e.key === "Escape") {
            close();
            e.stopPropagation();
          } else return;
          e.preventDefault();
        }}
      />
      <span role="listbox" id="filter-names" aria-label="Names" class="offers" hidden={!open}>
        {offered.map((name, i) => (
          <span
            key={name}
            role="option"
            id={`filter-name-${i}`}
            aria-selected={i === at ? "true" : "false"}
            // Before the box loses the focus.
            onMouseDown={(e) => {
              e.preventDefault();
              choose(name);
            }}
          >
            {name}
          </span>
        ))}
      </span>
    </span>
  );
}
