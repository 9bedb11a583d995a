/** `mosaic mcp` */
import type { Command } from "commander";
import { HTTP_PORT } from "../../../base/agreed.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { escapeControl } from "../../../base/text/terminal_text.ts";
import { connectionFlags, connectionOptions } from "../../verb/flags.ts";
import type { ToolApi } from "../../../mcp/tool.ts";
import type { ConnectionFlags } from "../../../wire/client/daemon_api.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Serves tools to an agent over standard input and output, by the Model Context Protocol: it can list, search and compare runs, read curves " +
        "and logs. The daemon serves the same at /mcp of --http.",
    )
    .option("--allow-changes", "also offer tools that submit, cancel and annotate runs");
  connectionOptions(command)
    .addHelpText(
      "after",
      manual({
        details: "A client starts it by itself; as a server's entry in its settings:\n\n" +
          '  {"mcpServers": {"mosaic": {"command": "mosaic", "args": ["mcp"]}}}\n\n' +
          '"mosaic skill" prints a text that teaches an agent this command line.',
        examples: [
          ["mosaic mcp", "what the client runs; it only reads"],
          [
            `mosaic mcp --allow-changes --target gpu1:${HTTP_PORT}`,
            "a daemon elsewhere, with tools that change something",
          ],
        ],
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      const [{ serveStdio }, { mcpServer }] = await Promise.all([
        import("@modelcontextprotocol/server/stdio"),
        import("../../../mcp/tool_server.ts"),
      ]);
      const ended = Promise.withResolvers<void>();
      const server = serveStdio(
        () => mcpServer(anyDaemon(context, connectionFlags(flags)), flags["allowChanges"] === true),
        {
          onerror: (error) => {
            // The library's checks print one line for each form that a message does not have.
            const why = escapeControl(error.message.replace(/\s+/g, " ").slice(0, 200));
            context.err.write(`mosaic: a message of the client is left out: ${why}\n`);
          },
        },
      );
      // The protocol's library reads Node's stream of it, and a second reader would take from it.
      const { stdin } = (await import("node:process")).default;
      stdin.once("close", ended.resolve).once("end", ended.resolve);
      const stopListening = context.onInterrupt(() => ended.resolve());
      await ended.promise;
      stopListening();
      await server.close();
    });
}

/**
 * Finds the daemon anew for each call: a client's session lasts longer than daemons, and where
 * there is none, the answer of a tool says so.
 */
function anyDaemon(context: Context, flags: ConnectionFlags): ToolApi {
  return {
    async unary(method, request) {
      const api = await context.connect(flags);
      try {
        return await api.unary(method, request);
      } finally {
        api.close();
      }
    },
    async *stream(method, request, signal) {
      const api = await context.connect(flags);
      try {
        yield* api.stream(method, request, signal);
      } finally {
        api.close();
      }
    },
  };
}
