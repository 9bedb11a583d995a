/**
 * The `pattern`s of telemetry schemas. A config names them and a worker writes the texts, so
 * nothing may backtrack: RE2's automata take time linear in the text. They have no lookarounds and
 * no backreferences. Loaded only for a schema with a pattern.
 */
import { RE2JS } from "re2js";
import type { CompilePattern } from "./compile.ts";

/** Characters. The time of a text is proportional to the pattern's length, too. */
const MOST_PATTERN = 1000;

export const linearPattern: CompilePattern = (pattern) => {
  if (typeof pattern !== "string" || pattern.length > MOST_PATTERN) {
    throw new Error(`a pattern is a text of at most ${MOST_PATTERN} characters`);
  }
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern));
    return (text) => compiled.test(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : error;
    const limits = "lookarounds, backreferences and more than 1000 repetitions are not supported";
    throw new Error(`pattern ${JSON.stringify(pattern.slice(0, 100))}: ${why}; ${limits}`);
  }
};
