/**
 * The manual as static pages with a search: the page's server has them at `/docs`, `mosaic docs
 * --out` writes them.
 */
import { Marked, type Tokens } from "marked";
import searchJs from "../gen/page/manual.js" with { type: "text" };
import { folderOf, KINDS, type ManualPage, manualPages } from "./pages.ts";
import { anchorOf, sectionsOf } from "./sections.ts";
import siteCss from "./site.css" with { type: "text" };

export interface SiteFile {
  type: string;
  text: string;
}

const HTML = "text/html; charset=utf-8";
const FIRST_PAGE = "tutorial/first-run";

let made: Promise<Map<string, SiteFile>> | undefined;

/**
 * Every file of the site by its path, such as `reference/cli.html`, made once. All links are
 * relative.
 */
export function siteFiles(): Promise<Map<string, SiteFile>> {
  return made ??= makeSite();
}

async function makeSite(): Promise<Map<string, SiteFile>> {
  const pages = await manualPages();
  const files = new Map<string, SiteFile>([
    ["site.css", { type: "text/css; charset=utf-8", text: siteCss }],
    ["manual.js", { type: "text/javascript; charset=utf-8", text: searchJs }],
    ["sections.json", {
      type: "application/json",
      text: JSON.stringify(pages.flatMap(sectionsOf)),
    }],
  ]);
  for (const page of pages) {
    files.set(`${page.name}.html`, { type: HTML, text: pageHtml(page, pages) });
  }
  const first = pages.find(({ name }) => name === FIRST_PAGE) ?? pages[0]!;
  files.set("index.html", { type: HTML, text: pageHtml(first, pages, "") });
  return files;
}

/** @param at the page's own folder, which links to other pages are relative to */
function pageHtml(
  page: ManualPage,
  pages: readonly ManualPage[],
  at = folderOf(page.name),
): string {
  const root = at === "" ? "" : "../".repeat(at.split("/").length);
  const groups = KINDS.map(([folder, heading]) => {
    const links = pages.filter(({ name }) => folderOf(name) === folder).map(({ name, title }) =>
      `<li><a href="${root}${name}.html"${name === page.name ? ' aria-current="page"' : ""}>${
        escaped(title)
      }</a></li>`
    );
    return links.length === 0 ? "" : `<h2>${heading}</h2><ul>${links.join("")}</ul>`;
  });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(page.title)} – mosaic</title>
<link rel="stylesheet" href="${root}site.css">
<script type="module" src="${root}manual.js"></script>
</head>
<body data-root="${root}">
<a class="skip" href="#main">Skip to content</a>
<header><a class="brand" href="${root}index.html">mosaic <span>manual</span></a>
<form role="search"><input type="search" id="search" placeholder="Search (press /)" aria-label="Search the manual" autocomplete="off"></form>
</header>
<nav aria-label="Pages"><details open><summary>Pages</summary>${groups.join("")}</details></nav>
<main id="main"><div id="found" role="status" hidden></div>
<article>${bodyHtml(page, root)}</article></main>
</body>
</html>
`;
}

/**
 * Links of the tree work in the site, too: those to other pages lead there, those to other files
 * are shown as text.
 */
function bodyHtml(page: ManualPage, root: string): string {
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }: Tokens.Heading) {
        const text = this.parser.parseInline(tokens);
        const anchor = anchorOf(tokens.map(({ raw }) => raw).join("").replaceAll("`", ""));
        return depth === 1
          ? `<h1>${text}</h1>\n`
          : `<h${depth} id="${escaped(anchor)}"><a class="anchor" href="#${
            escaped(anchor)
          }">${text}</a></h${depth}>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        const text = this.parser.parseInline(tokens);
        const to = linkTarget(page.name, href, root);
        return to === undefined ? text : `<a href="${escaped(to)}">${text}</a>`;
      },
      image({ text }: Tokens.Image) {
        return `<span class="picture">${escaped(text)} (a picture, in the repository)</span>`;
      },
      table(token: Tokens.Table) {
        const row = (cells: Tokens.TableCell[], tag: string) =>
          `<tr>${
            cells.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join(
              "",
            )
          }</tr>`;
        const rows = token.rows.map((cells) => row(cells, "td")).join("\n");
        return `<div class="wide"><table><thead>${
          row(token.header, "th")
        }</thead><tbody>${rows}</tbody></table></div>\n`;
      },
    },
  });
  return marked.parse(page.text, { async: false });
}

/** @returns undefined for files of the repository that are not pages */
export function linkTarget(from: string, href: string, root: string): string | undefined {
  if (/^(https?:|mailto:)/.test(href) || href.startsWith("#")) return href;
  const [path, anchor] = href.split("#") as [string, string?];
  const parts = folderOf(from).split("/");
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== ".") parts.push(part);
  }
  const target = parts.join("/");
  const isPage = KINDS.some(([folder]) => target.startsWith(`${folder}/`)) &&
    target.endsWith(".md");
  return isPage
    ? `${root}${target.slice(0, -3)}.html${anchor === undefined ? "" : `#${anchor}`}`
    : undefined;
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
}
