/** Notes as HTML. Pure. */
import { html } from "hono/html";
import type { MarkedToken, Token } from "marked";
import { tokensOf } from "../../base/text/notes_tokens.ts";
import { all, type Html } from "./html_parts.ts";

/** Builds elements from tokens, never HTML from text: HTML in the notes is shown as text. */
export function markdown(text: string): Html {
  try {
    return blocks(tokensOf(text));
  } catch {
    // The parser cannot read notes that nest too deep.
    return html`<pre>${text}</pre>`;
  }
}

function blocks(tokens: Token[] = []): Html {
  return all((tokens as MarkedToken[]).map(block));
}

function block(t: MarkedToken): Html {
  const inner = () => blocks("tokens" in t ? t.tokens : []);
  switch (t.type) {
    case "space":
    case "def":
      return html``;
    case "heading":
      return t.depth === 1 ? html`<h4>${inner()}</h4>` : html`<h5>${inner()}</h5>`;
    case "paragraph":
      return html`<p>${inner()}</p>`;
    case "blockquote":
      return html`<blockquote>${inner()}</blockquote>`;
    case "list": {
      const items = all(
        t.items.map((item) =>
          html`<li>${item.task ? (item.checked ? "☑ " : "☐ ") : ""}${blocks(item.tokens)}</li>`
        ),
      );
      return t.ordered ? html`<ol start="${t.start || 1}">${items}</ol>` : html`<ul>${items}</ul>`;
    }
    case "code":
      return html`<pre>${t.text}</pre>`;
    case "hr":
      return html`<hr>`;
    case "table": {
      const head = all(t.header.map((cell) => html`<th scope="col">${blocks(cell.tokens)}</th>`));
      const rows = t.rows.map((row) =>
        html`<tr>${all(row.map((cell) => html`<td>${blocks(cell.tokens)}</td>`))}</tr>`
      );
      return html`
        <table>
          <thead>
            <tr>${head}</tr>
          </thead>
          <tbody>${all(rows)}</tbody>
        </table>
      `;
    }
    case "strong":
      return html`<strong>${inner()}</strong>`;
    case "em":
      return html`<em>${inner()}</em>`;
    case "del":
      return html`<del>${inner()}</del>`;
    case "codespan":
      return html`<code>${t.text}</code>`;
    case "br":
      return html`<br>`;
    case "link":
      return /^(https?:|mailto:)/i.test(t.href)
        ? html`<a href="${t.href}" rel="noreferrer noopener">${inner()}</a>`
        : html`${t.raw}`;
    case "text":
      return t.tokens ? inner() : html`${t.text}`;
    case "escape":
      return html`${t.text}`;
    default:
      // Pictures are shown as text, because a report loads nothing.
      return html`${t.raw}`;
  }
}
