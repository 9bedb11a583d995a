/** The manual as a site: its links, its anchors, its search, and both ways to it. */
import assert from "node:assert/strict";
import { manualPage, manualPages } from "../../src/manual/pages.ts";
import { anchorOf, excerpt, search, sectionsOf } from "../../src/manual/sections.ts";
import { linkTarget, siteFiles } from "../../src/manual/site.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { mosaic } from "../system/machine/cli.ts";

const ROOT = new URL("../../", import.meta.url);

Deno.test("manual: every link of every Markdown file leads to a file, and every anchor to a heading", async () => {
  const pages = [
    ...["README.md", "CONTRIBUTING.md", "SECURITY.md"].map((path) => ({
      path,
      text: Deno.readTextFileSync(new URL(path, ROOT)),
    })),
    ...(await manualPages()).map(({ name, text }) => ({ path: `docs/${name}.md`, text })),
  ];
  const headings = new Map<string, Set<string>>();
  const anchors = (path: string, text: string) => {
    const known = headings.get(path) ??
      new Set(
        [...text.replace(/^```[^]*?^```/gm, "").matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
          anchorOf(heading!.replaceAll("`", ""))
        ),
      );
    headings.set(path, known);
    return known;
  };
  const broken: string[] = [];
  for (const { path, text } of pages) {
    for (const [, href] of text.replace(/^```[^]*?^```/gm, "").matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^(https?:|mailto:)/.test(href!)) continue;
      const [to, anchor] = href!.split("#") as [string, string?];
      const target = to === ""
        ? path
        : new URL(to, new URL(path, ROOT)).pathname.slice(ROOT.pathname.length);
      let found: string | undefined;
      try {
        found = target.endsWith(".md") ? Deno.readTextFileSync(new URL(target, ROOT)) : "";
        if (found === "") Deno.statSync(new URL(target, ROOT));
      } catch {
        broken.push(`${path}: ${href}`);
        continue;
      }
      if (anchor !== undefined && !anchors(target, found).has(anchor)) {
        broken.push(`${path}: ${href}: no such heading`);
      }
    }
  }
  assert.deepEqual(broken, []);
});

Deno.test("manual: links between pages are links of the site, those to other files of the repository are not", () => {
  assert.equal(
    linkTarget("reference/cli", "../how-to/slurm.md#in-slurm", "../"),
    "../how-to/slurm.html#in-slurm",
  );
  assert.equal(linkTarget("reference/cli", "wire.md", "../"), "../reference/wire.html");
  assert.equal(linkTarget("reference/cli", "#output", "../"), "#output");
  assert.equal(linkTarget("reference/cli", "../../README.md", "../"), undefined);
  assert.equal(linkTarget("reference/cli", "https://a.b/c.md", "../"), "https://a.b/c.md");
});

Deno.test("manual: in the site, every link leads to a file of it, and every anchor to an element", async () => {
  const files = await siteFiles();
  const broken: string[] = [];
  for (const [path, { text }] of files) {
    if (!path.endsWith(".html")) continue;
    for (const [, href] of text.matchAll(/<a [^>]*href="([^"]+)"/g)) {
      if (/^(https?:|mailto:)/.test(href!)) continue;
      const [to, anchor] = href!.split("#") as [string, string?];
      const target = to === "" ? path : new URL(to, `http://x/${path}`).pathname.slice(1);
      const page = files.get(target);
      if (page === undefined) broken.push(`${path}: ${href}`);
      else if (anchor && !page.text.includes(` id="${anchor}"`)) {
        broken.push(`${path}: ${href}: no such element`);
      }
    }
  }
  assert.deepEqual(broken, []);
});

Deno.test("manual: a search finds sections that have all words, those with a word in their heading first", () => {
  const page = {
    name: "a/b",
    title: "Disks",
    text: "# Disks\nOne.\n\n## A full disk\nWaits.\n\n## Other\nA disk that is full.\n",
  };
  const sections = sectionsOf(page);
  assert.deepEqual(sections.map(({ heading, anchor }) => [heading, anchor]), [
    ["", ""],
    ["A full disk", "a-full-disk"],
    ["Other", "other"],
  ]);
  assert.deepEqual(search(sections, "Full dis").map(({ heading }) => heading), [
    "A full disk",
    "Other",
  ]);
  assert.deepEqual(search(sections, "full nothing"), []);
  assert.deepEqual(search(sections, " "), []);
  assert.equal(excerpt(sections[2]!, "full"), "A disk that is full.");
});

Deno.test("manual: an unknown page says where to look", async () => {
  assert.equal((await manualPage("docs/reference/cli.md")).name, "reference/cli");
  assert.equal((await manualPage("cli")).name, "reference/cli");
  await assert.rejects(manualPage("nothing"), /the manual has no page "nothing"/);
});

Deno.test("mosaic docs and /docs: the same manual, from a daemon and without one", async () => {
  await using daemon = await TestDaemon.start();
  const visit = async (path: string) => {
    const answer = await fetch(`http://${daemon.http}/docs${path}`);
    return { status: answer.status, url: answer.url, text: await answer.text() };
  };
  const { text: html } = await visit("/reference/cli.html");
  assert.match(html, /<h1>The command line<\/h1>/);
  assert.match((await visit("")).url, /\/docs\/index\.html$/);
  assert.match((await visit("/manual.js")).text, /sections\.json/);
  assert.equal((await visit("/..%2f..%2fetc/passwd")).status, 404);
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-test-docs-" });
  try {
    await mosaic(["docs", "--out", directory]);
    assert.equal(Deno.readTextFileSync(`${directory}/reference/cli.html`), html);
    assert.match((await mosaic(["docs", "glossary"])).out, /^# Glossary/);
    assert.match((await mosaic(["docs"])).out, /reference\/cli +The command line/);
    assert.match((await mosaic(["docs", "--search", "journal lost"])).out, /journal/i);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
