/** `mosaic docs` */
import type { Command } from "commander";
import { MosaicError } from "../../../base/errors.ts";
import { writeFileAtomic } from "../../../os/files/files.ts";
import { folderOf, KINDS, manualPage, manualPages } from "../../../manual/pages.ts";
import { excerpt, search, sectionsOf } from "../../../manual/sections.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";

interface DocsFlags {
  search?: string;
  out?: string;
  man?: string;
}

export function define(command: Command, context: Context): void {
  command
    .description(
      "The manual of this very version, without a network: lists its pages, prints one as Markdown, searches all, or " +
        "writes it as a web site or as man pages. A daemon shows the same site at /docs of its page.",
    )
    .argument("[page]", "a page, such as sweeps or reference/cli")
    .option("--search <words>", "list the sections that have all of these words")
    .option("--out <directory>", "write the manual as static web pages, for any web server")
    .option("--man <directory>", "write a man page of each command, such as mosaic-run.1")
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic docs", "the list of pages"],
          ["mosaic docs configuration | less", "one page"],
          ["mosaic docs --search 'disk full'", "where it is written"],
          ["mosaic docs --man ~/.local/share/man/man1", "then: man mosaic-run"],
        ],
        exits: { 4: "no such page, or nothing was found" },
      }),
    )
    .action(async (page: string | undefined, flags: DocsFlags) => {
      const asked = [page, flags.search, flags.out, flags.man].filter((one) => one !== undefined);
      if (asked.length > 1) {
        throw new MosaicError(
          "invalid_argument",
          "a page, --search, --out and --man exclude each other",
          {
            hint: "Ask for one of them.",
          },
        );
      }
      if (flags.search !== undefined) return await found(context, flags.search);
      if (flags.out !== undefined) {
        // It loads a Markdown parser.
        const { siteFiles } = await import("../../../manual/site.ts");
        const files = [...await siteFiles()].map(([path, { text }]) => [path, text] as const);
        return written(context, flags.out, files, "start with index.html");
      }
      if (flags.man !== undefined) {
        const { COMMANDS_PAGE, manPages } = await import("../../../manual/man.ts");
        const files = manPages((await manualPage(COMMANDS_PAGE)).text);
        return written(context, flags.man, files, "read one with man -l, such as mosaic.1");
      }
      context.out.write(page === undefined ? await contents() : (await manualPage(page)).text);
    });
}

async function contents(): Promise<string> {
  const pages = await manualPages();
  const width = Math.max(...pages.map(({ name }) => name.length));
  return KINDS.map(([folder, heading]) => {
    const lines = pages.filter(({ name }) => folderOf(name) === folder).map(({ name, title }) =>
      `  ${name.padEnd(width)}  ${title}\n`
    );
    return lines.length === 0 ? "" : `${heading}\n${lines.join("")}`;
  }).join("\n");
}

async function found(context: Context, words: string): Promise<void> {
  const sections = search((await manualPages()).flatMap(sectionsOf), words);
  if (sections.length === 0) {
    throw new MosaicError(
      "not_found",
      `the manual has no section with all of these words: ${words}`,
      {
        hint: 'Try fewer words; "mosaic docs" lists the pages.',
      },
    );
  }
  for (const section of sections) {
    const heading = section.heading === ""
      ? section.title
      : `${section.title} › ${section.heading}`;
    context.out.write(`${section.page}  ${heading}\n    ${excerpt(section, words)}\n`);
  }
}

function written(
  context: Context,
  directory: string,
  files: Iterable<readonly [path: string, text: string]>,
  advice: string,
): void {
  let count = 0;
  for (const [path, text] of files) {
    const file = `${directory}/${path}`;
    Deno.mkdirSync(file.slice(0, file.lastIndexOf("/")), { recursive: true });
    writeFileAtomic(file, text, { mode: 0o644 });
    count++;
  }
  context.err.write(`${count} files in ${directory}; ${advice}\n`);
}
