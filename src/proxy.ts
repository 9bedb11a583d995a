/** `mosaic proxy`: arguments, log and exit status of a proxy. src/proxy has the rest. */
import { createLogger } from "./base/log.ts";
import { messageOf, MosaicError } from "./base/errors.ts";
import { stderrSink } from "./base/log_line.ts";
import { parseProxyArguments, PROXY_USAGE, type ProxyArguments } from "./proxy/start/arguments.ts";
import { PROXY_EXIT } from "./proxy/state/exit_codes.ts";
import { explainMissing } from "./permissions/missing.ts";
import { boundedFileSink } from "./proxy/bounded_log.ts";
import { serveAttempt } from "./proxy/serve_attempt.ts";
import { planStart } from "./proxy/start/start_plan.ts";

/** @returns the exit status (src/proxy/state/exit_codes.ts), the worker's own if it has one. */
export async function runProxy(args: string[]): Promise<number> {
  const end = args.indexOf("--");
  const own = end < 0 ? args : args.slice(0, end);
  if (own.includes("--help") || own.includes("-h")) {
    try {
      Deno.stdout.writeSync(new TextEncoder().encode(PROXY_USAGE));
    } catch (error) {
      // The reader (`| head`) has closed the pipe.
      if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
    }
    return 0;
  }
  let parsed: ProxyArguments;
  try {
    parsed = parseProxyArguments(args);
  } catch (error) {
    return reportError(error, PROXY_EXIT.usage);
  }
  try {
    const plan = planStart(parsed);
    if (parsed.readFiles) {
      const { printNamedFiles } = await import("./proxy/delivery/named_files.ts");
      printNamedFiles(parsed, plan);
      return 0;
    }
    const log = createLogger({
      format: "text",
      sinks: [boundedFileSink(plan.files.proxyLog), ...(plan.standAlone ? [stderrSink] : [])],
      fields: { run_id: parsed.runId, attempt: parsed.attempt, proxy: Deno.pid },
    });
    if (plan.warning !== undefined) log.warn(plan.warning);
    try {
      return await serveAttempt(parsed, plan, log);
    } catch (error) {
      // The worker and its journal do not need this process: another proxy continues.
      log.fatal({ error: messageOf(error), stack: (error as Error).stack }, "proxy failed");
      return PROXY_EXIT.refused;
    }
  } catch (error) {
    return reportError(error, PROXY_EXIT.refused);
  }
}

function reportError(thrown: unknown, code: number): number {
  const error = explainMissing(thrown);
  const hint = error instanceof MosaicError && error.hint !== undefined ? `\n  ${error.hint}` : "";
  stderrSink(`mosaic proxy: ${messageOf(error)}${hint}\n`);
  return code;
}
