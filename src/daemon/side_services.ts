/**
 * Services that only observe the daemon: webhooks, messages, metrics, and export of metrics and
 * traces over OTLP.
 */
import { newSecret } from "../observability/webhooks/signature.ts";
import type { OwnListeners } from "../observability/webhooks/own_listeners.ts";
import { type Digest, type RunTarget, Webhooks } from "../observability/webhooks/webhooks.ts";
import type { Receivers } from "../observability/messages/receivers.ts";
import { didYouMean } from "../base/text/nearest.ts";
import { runJson } from "../runs/fields/run_json.ts";
import { planOf } from "../config/plan.ts";
import type { Engine } from "../dispatch/core/engine.ts";
import type { Core } from "../dispatch/core/core.ts";
import { WorkerUsers } from "../dispatch/launch/local/worker_users.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Layout } from "../base/layout.ts";
import type { Logger } from "../base/log.ts";
import { LifecycleMetrics } from "../observability/lifecycle_metrics.ts";
import { exportWanted, type Signal } from "../observability/otlp/otlp.ts";
import { readTextIfThere, writeFileAtomic } from "../os/files/files.ts";
import type { WorkerUserOption } from "../os/rights/worker_user.ts";
import type { RunReader } from "../registry/run_reader.ts";

export interface SideServices {
  close(): Promise<void>;
}

export async function startSideServices(
  options: {
    core: Engine;
    log: Logger;
    layout: Layout;
    webhook: string | undefined;
    webhookEvents: string[] | undefined;
    messages: Receivers | undefined;
    own: OwnListeners;
    workerUser: WorkerUserOption | undefined;
  },
): Promise<SideServices> {
  const { core, log, layout, webhook, webhookEvents, messages, own } = options;
  const { activity, runs } = core;
  const users = new WorkerUsers(layout, Deno.uid() === 0, options.workerUser);
  activity.eventLoop.start();
  const lifecycle = new LifecycleMetrics(runs, activity, log);
  const webhooks = new Webhooks({
    runs,
    log,
    stateFile: layout.webhooksFile,
    secret: secretIn(layout.webhookSecret, log),
    ...(webhook === undefined ? {} : { daemonUrl: webhook }),
    ...(webhookEvents === undefined ? {} : { daemonKinds: webhookEvents }),
    targetOfRun: (runId) => targetOf(runs, runId, { log, layout, users }),
    counts: activity.webhooks,
    own,
    ...(messages === undefined ? {} : { digests: await digests(core, messages, own) }),
  });
  core.beforeDelete((row) => webhooks.runWillGo(row.runId));
  const exports = await exportsIfWanted(core, log);
  return {
    async close() {
      activity.eventLoop.stop();
      await Promise.all([webhooks, lifecycle, ...exports].map((service) => service.close()));
    },
  };
}

/** Loaded only when configured. */
async function digests(core: Engine, messages: Receivers, own: OwnListeners): Promise<Digest[]> {
  const { digestsOf, testMessages } = await import("../observability/messages/digests.ts");
  core.setMessages(async (receiver) => {
    const names = messages.receivers.map(({ name }) => name);
    if (receiver !== "" && !names.includes(receiver)) {
      throw new MosaicError(
        "not_found",
        `no receiver "${receiver}".${didYouMean(receiver, names)}`,
        {
          hint: `--notify of this daemon has: ${names.join(", ")}.`,
        },
      );
    }
    return await testMessages(messages, receiver, (url) => own.of(url));
  });
  return digestsOf(messages, {
    records: core.records,
    run(runId) {
      const row = core.runs.get(runId);
      return row && { json: runJson(core.detail(row)), owner: row.owner };
    },
    fits(runId, where) {
      const row = core.runs.get(runId);
      return row !== undefined && core.fits(row, where);
    },
  });
}

/** Loaded only when configured: the libraries are large. */
async function exportsIfWanted(core: Core, log: Logger): Promise<SideServices[]> {
  const env = (name: string) => Deno.env.get(name);
  const started: SideServices[] = [];
  const start = async (what: string, signal: Signal, begin: () => Promise<SideServices>) => {
    if (!exportWanted(env, signal)) return;
    try {
      const { reportExportTrouble } = await import("../observability/otlp/otlp_diagnostics.ts");
      reportExportTrouble(log);
      started.push(await begin());
    } catch (error) {
      log.error({ error: messageOf(error) }, `no ${what}: cannot start OpenTelemetry`);
    }
  };
  await start("traces", "TRACES", async () => {
    const { Tracing } = await import("../observability/otlp/tracing.ts");
    return await Tracing.start(core.runs, log, env);
  });
  await start("metrics over OTLP", "METRICS", async () => {
    const { OtlpMetrics } = await import("../observability/otlp/otlp_metrics.ts");
    return await OtlpMetrics.start(core, log, env);
  });
  return started;
}

/** The key that signs webhook requests; created at the first start. */
function secretIn(path: string, log: Logger): string {
  const made = newSecret();
  try {
    const known = readTextIfThere(path)?.trim();
    if (known) return known;
    writeFileAtomic(path, `${made}\n`, { mode: 0o600 });
  } catch (error) {
    // Receivers will refuse requests that are signed with another key, but the daemon starts.
    log.error(
      { path, error: messageOf(error) },
      "the webhooks' key cannot be read or stored; this daemon uses a new one",
    );
  }
  return made;
}

function targetOf(
  runs: RunReader,
  runId: string,
  { log, layout, users }: { log: Logger; layout: Layout; users: WorkerUsers },
): RunTarget | undefined {
  const row = runs.known(runId);
  if (row === undefined || !row.configJson.includes('"webhook"')) return undefined;
  try {
    const { webhook, worker } = planOf(row.configJson);
    if (webhook === null || webhook.secretFile === null) return webhook ?? undefined;
    return {
      ...webhook,
      user: users.reader(worker.user, row.owner, layout.runDir(row.baseDir, runId)),
    };
  } catch (error) {
    log.warn({ run_id: runId, error: messageOf(error) }, "cannot use the run's webhook");
    return undefined;
  }
}
