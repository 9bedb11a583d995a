/**
 * Options with defaults for configs. The schema of configs checks them; the command line's help
 * must not load it.
 */
import { messageOf } from "../../base/errors.ts";
import { type AlertRule, alertRules, alerts } from "../../config/alerts.ts";
import { type SlurmFields, slurmFields } from "../../config/schema.ts";
import { slurmFieldsOf } from "../../config/slurm_fields.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";
import type { DaemonOptions } from "./options.ts";

interface Schema<T> {
  safeParse(value: unknown): { success: true; data: T } | {
    success: false;
    error: { issues: { path: PropertyKey[]; message: string }[] };
  };
}

/** @throws StartFailure (usage) with the option, its value and what is wrong */
export function configDefaults(options: Pick<DaemonOptions, "alerts" | "slurm">): {
  alerts: AlertRule[];
  slurm: SlurmFields;
} {
  const rules = checked("--alerts", options.alerts, alerts, JSON.parse) ?? [];
  return {
    alerts: alertRules(rules).map((rule) => ({ ...rule, name: `daemon: ${rule.name}` })),
    slurm: checked("--slurm", options.slurm, slurmFields, slurmFieldsOf) ?? {},
  };
}

/** Undefined if the option is not given: then its schema is not made, which most starts save. */
function checked<T>(
  option: string,
  text: string | undefined,
  schema: () => Schema<T>,
  read: (text: string) => unknown,
): T | undefined {
  if (text === undefined) return undefined;
  const wrong = (why: string) =>
    new StartFailure(DAEMON_EXIT.usage, `${option} ${JSON.stringify(text)}: ${why}`);
  let value: unknown;
  try {
    value = read(text);
  } catch (error) {
    throw wrong(messageOf(error));
  }
  const parsed = schema().safeParse(value);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0]!;
  throw wrong(`${path.length === 0 ? "" : `${path.join(".")} `}${message}`);
}
