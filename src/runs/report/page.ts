/** A report as one HTML file that opens from disk, loads nothing and runs no script. Pure. */
import { html } from "hono/html";
import type { ComparisonRow } from "../../config/differences.ts";
import { chart, colourOf, dashOf, type ReportChart } from "./chart.ts";
import { markdown } from "./markdown.ts";
import { all, type Html, STYLE, table } from "./html_parts.ts";

export interface Report {
  title: string;
  /** Description of the request: runs, groups, band. */
  about: string;
  /** Time, and version of the program. */
  made: string;
  /** Names of the runs or groups, as in the curves. */
  curves: readonly string[];
  /** One row per run or group. */
  overview: {
    head: readonly string[];
    rows: readonly { name: string; cells: readonly string[] }[];
  };
  notes: readonly { run: string; text: string }[];
  charts: readonly ReportChart[];
  /** One column per run or group. */
  tables: readonly { title: string; head: readonly string[]; rows: readonly ComparisonRow[] }[];
  /** What the report omits, and how to get it. */
  leftOut: readonly string[];
}

const cells = (rows: readonly ComparisonRow[]) =>
  rows.map(({ name, values }) => ({ name, cells: values }));

function legend(names: readonly string[]): Html {
  if (names.length < 2) return html``;
  const line = (of: number) => dashOf(of) === "" ? "solid" : "dashed";
  const items = names.map((name, of) =>
    html`<li><i style="border-color:${colourOf(of)};border-top-style:${line(of)}"></i>${name}</li>`
  );
  return html`<ul class="legend">${all(items)}</ul>`;
}

/** @returns the file's text */
export function reportPage(report: Report): string {
  const { title, about, made, curves, overview, notes, charts, tables, leftOut } = report;
  const written = notes.map(({ run, text }) =>
    html`<section class="notes"><h3>${run}</h3>${markdown(text)}</section>`
  );
  const page = html`
    <!DOCTYPE html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width,initial-scale=1">
        <meta http-equiv="Content-Security-Policy"
          content="default-src 'none'; style-src 'unsafe-inline'">
        <title>${title}</title>
        <style>${STYLE}</style>
      </head>
      <body>
        <header>
          <h1>${title}</h1>
          <p class="dim">${about}</p>
        </header>
        <main>
    <h2>Runs</h2>
    ${table(overview.head, overview.rows)}
    ${written.length > 0 ? html`<h2>Notes</h2>${all(written)}` : ""}
    ${charts.length > 0
      ? html`<h2>Curves</h2>${legend(curves)}<div class="charts">${all(charts.map(chart))}</div>`
      : ""}
    ${all(
      tables.filter(({ rows }) => rows.length > 0).map((t) =>
        html`<h2>${t.title}</h2>${table(t.head, cells(t.rows))}`
      ),
    )}
        </main>
        <footer>
    ${leftOut.length > 0
      ? html`
        <h2>Not in this report</h2>
        <ul>${all(leftOut.map((text) => html`<li>${text}</li>`))}</ul>
      `
      : ""}
    <p class="dim">${made}</p>
        </footer>
      </body>
    </html>
  `;
  return page.toString();
}
