/** What people write about a run: its name, tags and notes, to show and edit. */
import type { RunPage } from "../../api/page_json.ts";
import { answer, param, readOnly, runApi } from "../parts/api.ts";
import { ask, attempt } from "../parts/dialog.tsx";
import { type ComponentChildren, useEffect, useState } from "../parts/preact.ts";
import type { MarkedToken, Token } from "./markdown.ts";

async function edit(run: RunPage, change: Record<string, unknown>): Promise<void> {
  const { id } = param(run.run_id).param;
  await answer(runApi[":action"].$post({ param: { id, action: "edit" }, json: change }));
}

/** The name, and a button that changes it. */
export function Name({ run }: { run: RunPage }) {
  const rename = async () => {
    const name = await ask({
      title: "Rename",
      text: "The run keeps its id.",
      confirm: "Rename",
      field: { label: "Name", value: run.name },
    });
    if (name !== undefined && name !== run.name) await attempt(() => edit(run, { name }));
  };
  return (
    <>
      <h1>{run.name}</h1>
      {!readOnly && <button type="button" class="link" onClick={rename}>Rename</button>}
    </>
  );
}

/** Tags with a button each, and a field for another. */
export function Tags({ run }: { run: RunPage }) {
  if (readOnly) return <>{run.tags.join(", ")}</>;
  return (
    <form
      class="edit-tags"
      onSubmit={(event) => {
        event.preventDefault();
        const input = event.currentTarget.querySelector("input")!;
        const tag = input.value.trim();
        if (tag === "") return;
        attempt(async () => {
          await edit(run, { add_tags: [tag] });
          input.value = "";
        });
      }}
    >
      {run.tags.map((tag) => (
        <button
          key={tag}
          type="button"
          class="picked"
          aria-label={`Remove the tag ${tag}`}
          onClick={() => attempt(() => edit(run, { remove_tags: [tag] }))}
        >
          <span>{tag}</span> ×
        </button>
      ))}
      <input type="text" aria-label="Add a tag" placeholder="Add a tag …" maxLength={100} />
    </form>
  );
}

/**
 * Notes as elements, created once and not at each change of the run; plain text until the parser is
 * loaded.
 */
function Markdown({ text }: { text: string }) {
  const [made, setMade] = useState<{ text: string; content: ComponentChildren }>();
  useEffect(() => {
    let current = true;
    attempt(async () => {
      const { tokensOf } = await import("./markdown.ts");
      if (current) setMade({ text, content: elementsOf(() => tokensOf(text)) });
    });
    return () => current = false;
  }, [text]);
  const content = made?.text === text ? made.content : undefined;
  return <div class="markdown">{content ?? <pre tabIndex={0}>{text}</pre>}</div>;
}

function elementsOf(tokens: () => Token[]): ComponentChildren {
  try {
    return blocks(tokens());
  } catch {
    // The parser cannot read notes that nest too deep; the rest of the page must not fail.
    return undefined;
  }
}

/** Notes as Markdown, and as text to edit. */
export function Notes({ run }: { run: RunPage }) {
  const [draft, setDraft] = useState<string>();
  const save = () =>
    attempt(async () => {
      await edit(run, { notes: draft });
      setDraft(undefined);
    });
  if (draft !== undefined) {
    return (
      <section class="notes" aria-label="Notes">
        <textarea
          aria-label="Notes (Markdown)"
          rows={8}
          value={draft}
          ref={(area: HTMLTextAreaElement | null) => {
            if (area?.dataset.opened) return;
            area?.focus();
            if (area) area.dataset.opened = "1";
          }}
          onInput={(e) => setDraft(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "Escape") setDraft(undefined);
            else if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) save();
          }}
        />
        <div class="dialog-buttons">
          <button type="button" onClick={() => setDraft(undefined)}>Keep as it is</button>
          <button type="button" class="primary" onClick={save}>Save</button>
        </div>
      </section>
    );
  }
  if (run.notes === "" && readOnly) return null;
  return (
    <section class="notes" aria-label="Notes">
      {run.notes !== "" && <Markdown text={run.notes} />}
      {!readOnly && (
        <button type="button" class="link" onClick={() => setDraft(run.notes)}>
          {run.notes === "" ? "Add notes" : "Edit notes"}
        </button>
      )}
    </section>
  );
}

/** Builds elements from tokens, never HTML from text: HTML in the notes is shown as text. */
function blocks(tokens: Token[] = []): ComponentChildren {
  return (tokens as MarkedToken[]).map((t, i) => {
    const inner = () => blocks("tokens" in t ? t.tokens : []);
    switch (t.type) {
      case "space":
      case "def":
        return null;
      case "heading": {
        const Heading = `h${Math.min(6, t.depth + 2)}` as "h3";
        return <Heading key={i}>{inner()}</Heading>;
      }
      case "paragraph":
        return <p key={i}>{inner()}</p>;
      case "blockquote":
        return <blockquote key={i}>{inner()}</blockquote>;
      case "list": {
        const items = t.items.map((item, n) => (
          <li key={n}>{item.task ? (item.checked ? "☑ " : "☐ ") : ""}{blocks(item.tokens)}</li>
        ));
        return t.ordered ? <ol key={i} start={t.start || 1}>{items}</ol> : <ul key={i}>{items}</ul>;
      }
      case "code":
        return <pre key={i} tabIndex={0}>{t.text}</pre>;
      case "hr":
        return <hr key={i} />;
      case "table":
        return (
          <table key={i} class="records">
            <thead>
              <tr>
                {t.header.map((cell, n) => <th key={n} scope="col">{blocks(cell.tokens)}</th>)}
              </tr>
            </thead>
            <tbody>
              {t.rows.map((row, r) => (
                <tr key={r}>{row.map((cell, n) => <td key={n}>{blocks(cell.tokens)}</td>)}</tr>
              ))}
            </tbody>
          </table>
        );
      case "strong":
        return <strong key={i}>{inner()}</strong>;
      case "em":
        return <em key={i}>{inner()}</em>;
      case "del":
        return <del key={i}>{inner()}</del>;
      case "codespan":
        return <code key={i}>{t.text}</code>;
      case "br":
        return <br key={i} />;
      case "link":
        return /^(https?:|mailto:|\/(?![/\\])|#)/i.test(t.href)
          ? <a key={i} href={t.href} rel="noreferrer noopener">{inner()}</a>
          : <span key={i}>{t.raw}</span>;
      case "text":
        return t.tokens ? <span key={i}>{inner()}</span> : t.text;
      case "escape":
        return t.text;
      default:
        return t.raw;
    }
  });
}
