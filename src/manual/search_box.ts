/// <reference lib="dom" />
/** The site's script: the search. The sections are loaded when the search is first used. */
import { excerpt, search, type Section } from "./sections.ts";

const root = document.body.dataset.root ?? "";
const box = document.querySelector<HTMLInputElement>("#search")!;
const found = document.querySelector<HTMLElement>("#found")!;
const article = document.querySelector<HTMLElement>("article")!;
let sections: Promise<Section[]> | undefined;

function load(): Promise<Section[]> {
  return sections ??= fetch(`${root}sections.json`).then((answer) => {
    if (!answer.ok) throw new Error(`sections.json: ${answer.status}`);
    return answer.json();
  });
}

async function show(): Promise<void> {
  const query = box.value.trim();
  found.hidden = query === "";
  article.hidden = query !== "";
  if (query === "") return;
  try {
    const results = search(await load(), query);
    if (box.value.trim() !== query) return;
    const count = document.createElement("p");
    count.textContent = results.length === 0
      ? `Nothing has all words of "${query}".`
      : `${results.length} sections`;
    found.replaceChildren(count, ...results.map((section) => result(section, query)));
  } catch (error) {
    sections = undefined;
    // A page opened as a file may not read its neighbours.
    found.textContent = `The search cannot be loaded (${
      error instanceof Error ? error.message : error
    }). Serve the folder over HTTP.`;
  }
}

function result(section: Section, query: string): HTMLElement {
  const entry = document.createElement("p");
  const link = document.createElement("a");
  link.href = `${root}${section.page}.html${section.anchor === "" ? "" : `#${section.anchor}`}`;
  link.textContent = section.heading === ""
    ? section.title
    : `${section.title} › ${section.heading}`;
  // A result on this very page only moves within it.
  link.addEventListener("click", () => {
    box.value = "";
    void show();
  });
  const text = document.createElement("span");
  text.textContent = excerpt(section, query);
  entry.append(link, text);
  return entry;
}

box.addEventListener("input", () => void show());
box.addEventListener("focus", () => void load().catch(() => sections = undefined));
box.form!.addEventListener("submit", (event) => {
  event.preventDefault();
  found.querySelector("a")?.click();
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && box.value !== "") {
    box.value = "";
    void show();
  } else if (event.key === "/" && document.activeElement !== box) {
    event.preventDefault();
    box.focus();
  }
});
// On a narrow screen the list of pages would come before every text.
if (matchMedia("(max-width: 760px)").matches) {
  document.querySelector("nav details")?.removeAttribute("open");
}
