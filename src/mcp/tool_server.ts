/**
 * The server of the Model Context Protocol, by its official library: tools that read runs, and,
 * where allowed, that change them.
 */
import { McpServer } from "@modelcontextprotocol/server";
import { messageOf, MosaicError } from "../base/errors.ts";
import { escapeControl } from "../base/text/terminal_text.ts";
import { VERSION } from "../base/version.ts";
import { CHANGE_TOOLS } from "./change_tools.ts";
import { READ_TOOLS } from "./read_tools.ts";
import type { ToolApi } from "./tool.ts";

/** Longest answer of a tool in characters, about 8 000 tokens. */
const LONGEST_ANSWER = 32_000;

export function mcpServer(api: ToolApi, changes: boolean): McpServer {
  const server = new McpServer({ name: "mosaic", version: VERSION }, {
    instructions:
      "mosaic runs training jobs and stores their curves and logs. Begin with list_runs; show_run explains a failure. " +
      (changes
        ? "Ask the person before you cancel runs that you have not started."
        : "This server only reads."),
  });
  for (
    const { name, description, schema, changes: isChange, answer } of [
      ...READ_TOOLS,
      ...changes ? CHANGE_TOOLS : [],
    ]
  ) {
    const annotations = { readOnlyHint: !isChange, destructiveHint: name === "cancel_run" };
    server.registerTool(name, { description, inputSchema: schema, annotations }, async (input) => {
      try {
        return { content: [{ type: "text", text: bounded(await answer(input, api)) }] };
      } catch (error) {
        const hint = error instanceof MosaicError && error.hint !== undefined ? [error.hint] : [];
        return {
          isError: true,
          content: [{ type: "text", text: bounded([messageOf(error), ...hint]) }],
        };
      }
    });
  }
  return server;
}

/** Names, notes and logs are texts of others, and a client may show them on a terminal. */
function bounded(lines: readonly string[]): string {
  const text = lines.map(escapeControl).join("\n");
  if (text.length <= LONGEST_ANSWER) return text;
  return `${
    text.slice(0, LONGEST_ANSWER)
  }\n(cut: the answer has ${text.length} characters; ask for less)`;
}
