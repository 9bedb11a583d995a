/**
 * One colour for each run or group, wherever it is drawn. A colour follows from the name; of two
 * with the same, the later run gets the next that is free, so runs that come later change no
 * colour.
 */
import { stored } from "./early.ts";
import { groupOrder, withoutSeed } from "../../../telemetry/series/groups.ts";

/** `--series-1` and so on, of the style sheet: each as far as can be from those before it. */
const COLORS = 24;
/** The most agreeable ones, taken first. */
const FIRST = 8;
/** Shades of one colour that can be told apart. */
const SHADES = 6;

/** Where colours are kept, and of how many runs. */
const KEY = "mosaic-colors";
const MOST_KEPT = 1000;

const colorAt = (place: number): string => `var(--series-${place % COLORS + 1})`;

/** FNV-1a. */
function hash(text: string): number {
  let n = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) n = Math.imul(n ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return n;
}

/** The places of keys in the palette, in the order in which they may choose. */
function placesOf(keys: readonly string[]): Map<string, number> {
  const taken = new Set<number>();
  const free = (from: number, first: number, of: number) => {
    for (let i = 0; i < of; i++) {
      const place = first + (from + i) % of;
      if (!taken.has(place)) return place;
    }
    return undefined;
  };
  const found = new Map<string, number>();
  for (const key of keys) {
    if (found.has(key)) continue;
    const n = hash(key);
    const place = free(n, 0, FIRST) ?? free(n, FIRST, COLORS - FIRST) ?? n % COLORS;
    taken.add(place);
    found.set(key, place);
  }
  return found;
}

/** Groups by their labels, in order, with the colour of each. */
export function colorsOfGroups(groups: readonly string[]): Map<string, string> {
  const ordered = [...new Set(groups)].sort(groupOrder);
  return new Map([...placesOf(ordered)].map(([group, place]) => [group, colorAt(place)]));
}

/**
 * The colour of each run by its name alone. Several runs with one name but for their seeds are
 * shades of one colour, if there are other names and not too many seeds.
 */
function wantedColors(runs: readonly { run_id: string; name: string }[]): Map<string, string> {
  const inOrder = runs.toSorted((a, b) => a.run_id < b.run_id ? -1 : 1);
  const families = Map.groupBy(inOrder, ({ name }) => withoutSeed(name));
  const shaded = families.size > 1 && [...families.values()].every((its) => its.length <= SHADES) &&
    families.size < runs.length;
  if (!shaded) {
    const places = placesOf(inOrder.map((r) => r.run_id));
    return new Map(inOrder.map((r) => [r.run_id, colorAt(places.get(r.run_id)!)]));
  }
  const places = placesOf([...families.keys()]);
  return new Map(
    [...families].flatMap(([family, its]) =>
      its.map((
        r,
        i,
      ) => [
        r.run_id,
        shade(colorAt(places.get(family)!), its.length === 1 ? 0 : i / (its.length - 1) - 0.5),
      ])
    ),
  );
}

/** The colours that runs have had in this browser. */
const kept = new Map(Object.entries(stored<Record<string, string>>(KEY, {})));

/**
 * The colour of each run: the one it had before, wherever it was drawn, unless another one of these
 * has it by now, too; else one by its name that none of these has, as long as there are such.
 */
export function colorsOfRuns(
  runs: readonly { run_id: string; name: string }[],
): Map<string, string> {
  const wanted = wantedColors(runs);
  const found = new Map<string, string>();
  const taken = new Set<string>();
  const take = (id: string, color: string | undefined) => {
    if (color === undefined || taken.has(color)) return false;
    taken.add(color);
    found.set(id, color);
    return true;
  };
  const ids = [...wanted.keys()];
  const late = ids.filter((id) => !take(id, kept.get(id)));
  for (const id of late) {
    const free = () =>
      Array.from({ length: COLORS }, (_, place) => colorAt(place)).find((c) => !taken.has(c));
    if (!take(id, wanted.get(id)) && !take(id, free())) {
      found.set(id, kept.get(id) ?? wanted.get(id)!);
    }
  }
  if (late.some((id) => kept.get(id) !== found.get(id))) keep(found);
  return found;
}

function keep(colors: ReadonlyMap<string, string>): void {
  for (const [id, color] of colors) {
    kept.delete(id);
    kept.set(id, color);
  }
  for (const id of kept.keys()) {
    if (kept.size <= MOST_KEPT) break;
    kept.delete(id);
  }
  localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(kept)));
}

/** @param by −0.5, darker, to 0.5, lighter */
function shade(color: string, by: number): string {
  if (by === 0) return color;
  return `color-mix(in oklab, ${color} ${Math.round(100 - Math.abs(by) * 90)}%, var(--${
    by < 0 ? "ink" : "surface"
  }))`;
}

/** For a canvas: by theme and expression. */
const resolved = new Map<string, string>();

/** A colour of the style sheet as `#rrggbb`. */
export function colorCode(color: string): string {
  const key = `${document.documentElement.dataset.theme} ${color}`;
  let code = resolved.get(key);
  if (code === undefined) {
    const probe = document.createElement("span");
    probe.style.color = color;
    document.body.append(probe);
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const ctx = canvas.getContext("2d")!;
    ctx.fillStyle = getComputedStyle(probe).color;
    ctx.fillRect(0, 0, 1, 1);
    probe.remove();
    code = `#${
      [...ctx.getImageData(0, 0, 1, 1).data].slice(0, 3).map((c) => c.toString(16).padStart(2, "0"))
        .join("")
    }`;
    resolved.set(key, code);
  }
  return code;
}
