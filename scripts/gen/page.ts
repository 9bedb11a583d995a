/**
 * `src/gen/page`: the scripts of page and manual, bundled and minified by `deno bundle`, and its
 * styles after those of uPlot.
 */
import uplotCss from "npm:uplot@1.6.32/dist/uPlot.min.css" with { type: "text" };

const CLIENT = "src/ui/client";
const SCRIPTS = [
  [`${CLIENT}/main.tsx`, "main.js"],
  [`${CLIENT}/first.ts`, "first.js"],
  [`${CLIENT}/parts/markdown.ts`, "markdown.js"],
  [`${CLIENT}/charts/figure.ts`, "figure.js"],
  [`${CLIENT}/further_views.tsx`, "further.js"],
  [`${CLIENT}/sweeps/sweeps_view.tsx`, "sweeps.js"],
  ["src/manual/search_box.ts", "manual.js"],
] as const;

/** @param root the checkout, ending with a slash @returns name and text of each file */
export async function pageFiles(root: string): Promise<[name: string, text: string][]> {
  const out = Deno.makeTempDirSync();
  try {
    for (const [from, to] of SCRIPTS) {
      const bundle = await new Deno.Command(Deno.execPath(), {
        args: [
          "bundle",
          "--lock=dev.lock",
          "--platform=browser",
          "--minify",
          "--quiet",
          `--output=${out}/${to}`,
          from,
        ],
        cwd: root,
      }).output();
      if (!bundle.success) {
        throw new Error(`deno bundle ${from}: ${new TextDecoder().decode(bundle.stderr)}`);
      }
    }
    const style = Deno.readTextFileSync(`${root}${CLIENT}/style.css`);
    return [
      ...SCRIPTS.map((
        [, name],
      ): [string, string] => [name, Deno.readTextFileSync(`${out}/${name}`)]),
      ["style.css", compactCss(`${uplotCss.trim()}\n${style}`)],
    ];
  } finally {
    Deno.removeSync(out, { recursive: true });
  }
}

/**
 * Without comments, and without blanks that separate nothing. No text in the styles has a line
 * break or a colon with a blank.
 */
function compactCss(css: string): string {
  return css.replace(/\/\*.*?\*\//gs, "").replace(/\n\s*/g, "\n").replace(/([{};,])\n/g, "$1")
    .replaceAll(": ", ":")
    .trim() +
    "\n";
}
