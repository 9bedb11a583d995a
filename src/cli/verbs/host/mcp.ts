/** `mosaic mcp` */
import type { Command } from "commander";
import { HTTP_PORT } from "../../../base/agreed.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { connectionFlags, connectionOptions } from "../../verb/flags.ts";

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
      // The first call shows whether a daemon answers: an agent then reads why not.
      const api = await context.connect(connectionFlags(flags));
      const ended = Promise.withResolvers<void>();
      const server = serveStdio(() => mcpServer(api, flags["allowChanges"] === true), {
        onerror: (error) => context.err.write(`mosaic: ${error.message}\n`),
      });
      const { default: process } = await import("node:process");
      process.stdin.once("close", ended.resolve);
      process.stdin.once("end", ended.resolve);
      const stopListening = context.onInterrupt(() => ended.resolve());
      await ended.promise;
      stopListening();
      await server.close();
      api.close();
    });
}
