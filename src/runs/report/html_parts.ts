/** Pieces of the report's HTML; the `html` template escapes all text from outside. Pure. */
import { html, raw } from "hono/html";

export type Html = ReturnType<typeof html>;

/** Several pieces, one after the other. */
export function all(pieces: readonly Html[]): Html {
  return html`${pieces}`;
}

/** A table with a heading for each row. @param rows each with its name and one cell per column */
export function table(
  head: readonly string[],
  rows: readonly { name: string; cells: readonly string[] }[],
): Html {
  const columns = all(head.map((text) => html`<th scope="col">${text}</th>`));
  const body = rows.map(({ name, cells }) =>
    html`<tr><th scope="row">${name}</th>${all(cells.map((text) => html`<td>${text}</td>`))}</tr>`
  );
  return html`
    <div class="wide" tabindex="0">
      <table>
        <thead>
          <tr>${columns}</tr>
        </thead>
        <tbody>${all(body)}</tbody>
      </table>
    </div>
  `;
}

/** Style of text and figures: light, dark and printed. */
export const STYLE = raw(`
:root{color-scheme:light dark;--ink:#1c2126;--dim:#5b6670;--line:#d5dbe1;--paper:#fff;--mark:#f3f5f7}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--dim:#9aa6b2;--line:#3a434c;--paper:#15191d;--mark:#1e242a}}
@media print{:root{--ink:#000;--dim:#444;--line:#bbb;--paper:#fff;--mark:#f3f5f7}figure,tr{break-inside:avoid}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1.5rem;font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
h1{margin:0;font-size:1.6rem;overflow-wrap:anywhere}h2{margin:2rem 0 .5rem;font-size:1.2rem}h3{margin:1rem 0 .3rem;font-size:1rem;overflow-wrap:anywhere}
.dim,figcaption{color:var(--dim);font-size:.9rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.87rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;white-space:nowrap;max-width:28rem;overflow:hidden;text-overflow:ellipsis}
tbody th{font-weight:500}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,30rem),1fr));gap:1rem}
figure{margin:0;padding:.6rem;border:1px solid var(--line);border-radius:6px;min-width:0}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--dim);font:11px system-ui,sans-serif}
.grid{stroke:var(--line);stroke-width:1}
.curve{fill:none;stroke-width:1.6;stroke-linejoin:round}
.band{stroke:none;fill-opacity:.18}
.old{stroke-opacity:.35;stroke-dasharray:4 3}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;margin:.5rem 0;list-style:none;font-size:.87rem}
.legend i{display:inline-block;width:1.4rem;border-top:3px solid;margin-right:.4rem;vertical-align:middle}
details{margin-top:.4rem;font-size:.87rem}summary{cursor:pointer;color:var(--dim)}
pre{overflow-x:auto;padding:.5rem;background:var(--mark)}code{background:var(--mark)}
section.notes{border-left:3px solid var(--line);padding-left:1rem;margin:1rem 0}
`);
