/**
 * The generated pages of docs/reference, and the generated parts of others. `deno task gen` writes
 * them, `deno task test` fails where they differ.
 */
import { commandsPage } from "./docs/commands.ts";
import { configFields } from "./docs/config.ts";
import { shapes } from "./docs/json.ts";
import { withPart } from "./part.ts";

const CONFIG_PAGE = "docs/reference/configuration.md";
const JSON_PAGE = "docs/reference/json.md";

/** @param root the checkout, ending with a slash @returns path and text of each file */
export async function docFiles(root: string): Promise<[path: string, text: string][]> {
  return [
    ["docs/reference/commands.md", await commandsPage()],
    [
      JSON_PAGE,
      withPart(root + JSON_PAGE, "<!-- Shapes", "src/registry/contract.ts", `\n${shapes()}\n`),
    ],
    [
      CONFIG_PAGE,
      withPart(root + CONFIG_PAGE, "<!-- Fields", "src/config/schema.ts", `\n${configFields()}\n`),
    ],
  ];
}
