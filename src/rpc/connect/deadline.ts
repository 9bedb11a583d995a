import { MosaicError } from "../../base/errors.ts";

/** The longest time of a timer: nearly 25 days. */
const MAX_TIMER_MS = 0x7fff_ffff;
/** gRPC's units of time in milliseconds. */
const UNITS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/**
 * The deadline in a call's header, in milliseconds; undefined: none. @param name of the header
 * @param text its value @throws MosaicError `invalid_argument`
 */
export function timeoutOf(
  name: "connect-timeout-ms" | "grpc-timeout",
  text: string | undefined,
): number | undefined {
  if (text === undefined) return undefined;
  const [, digits, unit = "m"] =
    (name === "grpc-timeout" ? /^(\d{1,8})([HMSmun])$/ : /^(\d{1,10})$/).exec(text) ?? [];
  if (digits === undefined) {
    const form = name === "grpc-timeout"
      ? "up to 8 digits and a unit (H, M, S, m, u, n)"
      : "a whole number";
    throw new MosaicError("invalid_argument", `${name} is "${text}"; it must be ${form}`);
  }
  const ms = Number(digits) * UNITS[unit]!;
  // A timer cannot wait longer, so such a call has no deadline.
  return ms > MAX_TIMER_MS ? undefined : ms;
}
