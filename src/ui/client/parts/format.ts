/** Formats numbers for people. */

const NONE = "–";

export function whole(n: number | null | undefined): string {
  return n === null || n === undefined ? NONE : n.toLocaleString("en-US");
}

/** "–" instead of 0 for a run that records no episodes. */
export function recorded(n: number): string {
  return n === 0 ? NONE : whole(n);
}

export function plural(n: number, one: string): string {
  return `${whole(n)} ${one}${n === 1 ? "" : "s"}`;
}

/** Four significant digits. */
export function figure(n: number | string | null | undefined): string {
  if (n === null || n === undefined) return NONE;
  if (typeof n === "string" || !Number.isFinite(n)) return String(n);
  const size = Math.abs(n);
  if (size !== 0 && (size < 0.001 || size >= 1e7)) return n.toExponential(2).replace(/\.?0+e/, "e");
  if (size >= 1000) return Math.round(n).toLocaleString("en-US");
  return String(Number(n.toPrecision(4)));
}

/** A reward in a column: two decimals, so that decimal points are aligned. */
export function score(n: number | null): string {
  return n === null || Math.abs(n) >= 1e6 || (n !== 0 && Math.abs(n) < 0.01) ? figure(n) : n.toFixed(2);
}

export function rate(n: number): string {
  if (n >= 999.5) return `${(n / 1000).toFixed(n >= 9950 ? 0 : 1)}k`;
  return n >= 9.95 ? n.toFixed(0) : n > 0 ? n.toFixed(1) : "0";
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  // Avoids 1024 of the smaller unit.
  while (n >= 1023.5 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i === 0 || n >= 100 ? n.toFixed(0) : n.toFixed(1)} ${units[i]}`;
}

export function duration(ms: number | null): string {
  if (ms === null || ms < 0) return NONE;
  if (ms < 9950) return `${Number((ms / 1000).toFixed(1))} s`;
  // As in the command line.
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${pad(s % 60)} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${pad(Math.floor(s / 60) % 60)} m`;
  return `${Math.floor(s / 86_400)} d ${pad(Math.floor(s / 3600) % 24)} h`;
}

function pad(n: number): string {
  return String(n).padStart(2, "0");
}

/** In one unit: precision matters less the older something is. */
export function age(at: number | null, now: number): string {
  if (at === null) return NONE;
  const s = Math.max(0, Math.floor((now - at) / 1000));
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} m ago`;
  return s < 86_400 ? `${Math.floor(s / 3600)} h ago` : `${Math.floor(s / 86_400)} d ago`;
}

/** @param at Unix milliseconds */
export function moment(at: number | null): string {
  if (at === null) return NONE;
  const d = new Date(at);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(at)}`;
}

/** @param at Unix milliseconds */
export function clock(at: number): string {
  const d = new Date(at);
  return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

/** `read_only` → "read only". */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}
