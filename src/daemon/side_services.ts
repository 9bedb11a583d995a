/** What follows the event log beside the engine: webhooks, and traces where they are asked for. */
import { newSecret } from "../webhooks/signature.ts";
import { type RunTarget, Webhooks } from "../webhooks/webhooks.ts";
import { planOf } from "../config/plan.ts";
import { messageOf } from "../errors.ts";
import type { Layout } from "../layout.ts";
import type { Logger } from "../log.ts";
import { readTextIfThere, writeFileAtomic } from "../process/files.ts";
import type { Registry } from "../registry/registry.ts";

export interface SideServices {
  close(): Promise<void>;
}

export async function startSideServices(
  options: { registry: Registry; log: Logger; layout: Layout; webhook: string | undefined },
): Promise<SideServices> {
  const { registry, log, layout, webhook } = options;
  const webhooks = new Webhooks({
    registry,
    log,
    stateFile: `${layout.trainer}/webhooks.json`,
    secret: secretIn(`${layout.trainer}/webhook.secret`),
    ...(webhook === undefined ? {} : { daemonUrl: webhook }),
    targetOfRun: (runId) => targetOf(registry, runId, log),
  });
  const tracing = await tracingIfWanted(registry, log);
  return {
    async close() {
      await Promise.all([webhooks.close(), tracing?.close()]);
    },
  };
}

/** Whether an endpoint for traces is named by the standard variables. */
function tracingConfigured(): boolean {
  return Boolean(Deno.env.get("OTEL_EXPORTER_OTLP_ENDPOINT") || Deno.env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"));
}

/** Loaded only where it is asked for: the libraries are large. */
async function tracingIfWanted(registry: Registry, log: Logger): Promise<SideServices | undefined> {
  if (!tracingConfigured()) return undefined;
  const env = (name: string) => Deno.env.get(name);
  try {
    const { Tracing, tracingWanted } = await import("../observability/tracing.ts");
    return tracingWanted(env) ? await Tracing.start(registry, log, env) : undefined;
  } catch (error) {
    log.error({ error: messageOf(error) }, "no traces: OpenTelemetry could not be started");
    return undefined;
  }
}

/** The key that webhook requests are signed with; made at the first start. */
function secretIn(path: string): string {
  const known = readTextIfThere(path)?.trim();
  if (known) return known;
  const made = newSecret();
  writeFileAtomic(path, `${made}\n`, { mode: 0o600 });
  return made;
}

function targetOf(registry: Registry, runId: string, log: Logger): RunTarget | undefined {
  const row = registry.get(runId);
  if (row === undefined || !row.configJson.includes('"webhook"')) return undefined;
  try {
    const { webhook } = planOf(row.configJson);
    if (webhook === null) return undefined;
    const secret = webhook.secretFile === null ? undefined : Deno.readTextFileSync(webhook.secretFile).trim();
    return { url: webhook.url, events: webhook.events, ...(secret === undefined ? {} : { secret }) };
  } catch (error) {
    log.warn({ run_id: runId, error: messageOf(error) }, "the run's webhook cannot be used");
    return undefined;
  }
}
