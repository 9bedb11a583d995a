/**
 * The manual: every Markdown file below `docs/`. The executable has them compressed
 * (scripts/compile/build.ts); a program that runs from source reads the files.
 */
import { MosaicError } from "../base/errors.ts";

export interface ManualPage {
  /** Its path below `docs/` without `.md`, such as `reference/cli`. */
  name: string;
  title: string;
  /** Markdown. */
  text: string;
}

/** The folders of `docs/` in the order in which a reader needs them, with their headings. */
export const KINDS: readonly (readonly [folder: string, heading: string])[] = [
  ["tutorial", "Tutorial"],
  ["how-to", "How to"],
  ["reference", "Reference"],
  ["explanation", "Explanation"],
];

/** The order of the tutorial's pages; those of other folders are sorted by title. */
const LESSONS = ["first-run", "failure-and-resume", "seeds", "sweep", "public-sweep"].map((name) =>
  `tutorial/${name}`
);

let loaded: Promise<ManualPage[]> | undefined;

/** All pages, by kind and title. They are read once. */
export function manualPages(): Promise<ManualPage[]> {
  return loaded ??= readPages();
}

/**
 * @param name a page's name, or its last part @throws `not_found`, with the names that are similar
 */
export async function manualPage(name: string): Promise<ManualPage> {
  const pages = await manualPages();
  const wanted = name.replace(/^docs\//, "").replace(/\.md$/, "");
  const page = pages.find((page) => page.name === wanted) ??
    pages.find((page) => page.name.endsWith(`/${wanted}`));
  if (page !== undefined) return page;
  throw new MosaicError("not_found", `the manual has no page "${name}"`, {
    hint: `"mosaic docs" lists its pages, "mosaic docs --search ${wanted}" finds words in them.`,
  });
}

async function readPages(): Promise<ManualPage[]> {
  const packed = (globalThis as { MOSAIC_MANUAL?: string }).MOSAIC_MANUAL;
  const texts = packed === undefined ? filesOfTheTree() : await unpacked(packed);
  return [...texts].map(([name, text]) => ({ name, title: titleOf(text) ?? name, text })).sort(
    byKindAndTitle,
  );
}

function byKindAndTitle(a: ManualPage, b: ManualPage): number {
  const rank = (
    { name }: ManualPage,
  ) => [KINDS.findIndex(([folder]) => folder === folderOf(name)), LESSONS.indexOf(name)];
  const [[kindA, lessonA], [kindB, lessonB]] = [rank(a), rank(b)];
  return kindA! - kindB! || lessonA! - lessonB! || (a.title < b.title ? -1 : 1);
}

export function folderOf(name: string): string {
  return name.slice(0, name.lastIndexOf("/"));
}

function titleOf(text: string): string | undefined {
  return /^# (.+)$/m.exec(text)?.[1]?.replaceAll("`", "");
}

/** @param packed base64 of gzip of the JSON of an object: texts by name */
async function unpacked(packed: string): Promise<[string, string][]> {
  const bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return Object.entries(await new Response(stream).json() as Record<string, string>);
}

function filesOfTheTree(): [string, string][] {
  const docs = new URL("../../docs/", import.meta.url);
  return KINDS.flatMap(([folder]) =>
    [...Deno.readDirSync(new URL(folder, docs))].filter(({ name }) => name.endsWith(".md")).map(
      ({ name }): [string, string] => [
        `${folder}/${name.slice(0, -3)}`,
        Deno.readTextFileSync(new URL(`${folder}/${name}`, docs)),
      ],
    )
  );
}
