/**
 * A tool: its name, what a model reads of it, its input's schema, and its answer as lines of text.
 */
import { z } from "zod";
import type { DaemonApi } from "../wire/client/daemon_api.ts";

/** What tools call: a daemon over a connection, or from within as a request's sender. */
export type ToolApi = Pick<DaemonApi, "unary" | "stream">;

export interface Tool {
  name: string;
  description: string;
  schema: z.ZodObject;
  /** It changes something. */
  changes: boolean;
  /** @param input has been checked against `schema` @throws MosaicError */
  answer(input: unknown, api: ToolApi): Promise<string[]>;
}

export function tool<Shape extends z.ZodRawShape>(
  { name, description, input, changes = false, answer }: {
    name: string;
    description: string;
    input: Shape;
    changes?: boolean;
    answer(input: z.infer<z.ZodObject<Shape>>, api: ToolApi): Promise<string[]>;
  },
): Tool {
  const schema = z.strictObject(input);
  return {
    name,
    description,
    schema,
    changes,
    answer: (given, api) => answer(given as z.infer<z.ZodObject<Shape>>, api),
  };
}
