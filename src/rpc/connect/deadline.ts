import { MosaicError } from "../../base/errors.ts";

/** Nearly 25 days. */
const MAX_TIMER_MS = 0x7fff_ffff;
/** Milliseconds of gRPC's units of time. */
const UNITS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/**
 * Milliseconds that a call may take; undefined: as long as it does.
 * @param name of the header that says it @param text its value @throws MosaicError `invalid_argument`
 */
export function timeoutOf(name: "connect-timeout-ms" | "grpc-timeout", text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, digits, unit = "m"] = (name === "grpc-timeout" ? /^(\d{1,8})([HMSmun])$/ : /^(\d{1,10})$/).exec(text) ?? [];
  if (digits === undefined) {
    const form = name === "grpc-timeout" ? "up to 8 digits and a unit (H, M, S, m, u, n)" : "a whole number";
    throw new MosaicError("invalid_argument", `${name} is "${text}"; it must be ${form}`);
  }
  const ms = Number(digits) * UNITS[unit]!;
  // Longer than the runtime's timers can wait: no deadline.
  return ms > MAX_TIMER_MS ? undefined : ms;
}
