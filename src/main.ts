/** One executable: picks the subcommand and loads only what it needs, because start-up time is mostly imports. */
async function main(args: string[]): Promise<number> {
  switch (args[0]) {
    case "daemon":
      return await (await import("./daemon.ts")).runDaemon(args.slice(1));
    case "proxy":
      return await (await import("./proxy.ts")).runProxy(args.slice(1));
    default:
      return await (await import("./cli/cli.ts")).runCli(args);
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
