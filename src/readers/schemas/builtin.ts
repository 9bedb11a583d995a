/**
 * The schemas that a config may name in `worker.config.schema_id`; docs/reference/telemetry.md
 * describes them.
 */
import type { JsonSchema } from "./compile.ts";

/** Rules for a run's records, by kind; an absent kind has none. */
export interface TelemetrySchema {
  id: string;
  version: number;
  step?: JsonSchema;
  episode?: JsonSchema;
}

const INDEX: JsonSchema = { type: "integer", minimum: 0 };
const FLAG: JsonSchema = { type: "boolean" };

const STEP: JsonSchema = {
  required: ["step_index", "reward"],
  properties: {
    step_index: INDEX,
    episode: INDEX,
    reward: { type: "number" },
    terminated: FLAG,
    truncated: FLAG,
  },
};

const EPISODE: JsonSchema = {
  required: ["total_reward", "steps"],
  properties: { episode: INDEX, total_reward: { type: "number" }, steps: INDEX },
};

function extended(required: string[], properties: Record<string, JsonSchema>): JsonSchema {
  return {
    required: [...STEP.required!, ...required],
    properties: { ...STEP.properties, ...properties },
  };
}

const BUILTIN: TelemetrySchema[] = [
  { id: "telemetry.step.default", version: 1, step: STEP, episode: EPISODE },
  {
    id: "telemetry.step.minigrid",
    version: 1,
    step: extended(["action", "observation"], {
      action: { type: "integer", minimum: 0, maximum: 6 },
      observation: {
        type: ["object", "array"],
        properties: {
          image: { type: "array" },
          direction: { type: "integer", minimum: 0, maximum: 3 },
          mission: { type: "string" },
        },
      },
    }),
    episode: EPISODE,
  },
  {
    id: "telemetry.step.atari",
    version: 1,
    step: extended(["action"], {
      action: { type: "integer", minimum: 0, maximum: 17 },
      lives: INDEX,
      frame_number: INDEX,
    }),
    episode: EPISODE,
  },
];

const byId = new Map(BUILTIN.map((schema) => [schema.id, schema]));

/** `telemetry.step.default` or, with a fixed version, `telemetry.step.default@1`. */
export function builtinSchema(id: string): TelemetrySchema | undefined {
  const [name, version] = id.split("@");
  const schema = byId.get(name!);
  return version === undefined || schema?.version === Number(version) ? schema : undefined;
}

export function builtinSchemaIds(): string[] {
  return [...byId.keys()];
}
