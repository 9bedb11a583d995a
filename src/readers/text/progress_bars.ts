/** Progress bars of tqdm and Keras: how far a loop is, and the values beside it. Pure. */

export interface Progress {
  at: number;
  /** undefined: the bar does not know. */
  of: number | undefined;
}

export interface Bar extends Progress {
  /** What names the loop: tqdm's `desc`. */
  title: string;
  /** The values beside the bar, as `name=value` or `- name: value`. */
  values: string;
  /** What was printed behind the bar on the same line. */
  rest: string;
}

/**
 * `Epoch 1: 50%|█████ | 5/10 [00:00<00:00, 10.0it/s, loss=0.5]`; while it is drawn, without what
 * stands in brackets.
 */
const TQDM =
  /^\s*(?:([^|%\r]{0,100}?):\s+)?(\d{1,3})%\|[^|]{0,400}\|\s*([\d.]+)([kMGT]?)\/([\d.]+)([kMGT]?)(?:\s*\[([^\]]{0,2000})\])?/;
/**
 * `10/10 ━━━━━━━━━━ 1s 10ms/step - accuracy: 0.1 - loss: 2.3`, in earlier versions `10/10
 * [=====>....] - 1s 10ms/step - …`. For a line whose blanks are single: repeated optional blanks
 * and bars would take polynomial time.
 */
const KERAS =
  /^ ?(\d{1,12})\/(\d{1,12}|Unknown) (?:\[[=>.]{1,100}\](?: -)?|[━╸╺][━╸╺ ]{0,100})(?: ?ETA: [\d:.hms]{1,20})?(?: ?[\d:.]{1,20}(?:ms|us|s|h)?)?(?: [\d.]{1,20}(?:ms|us|s)\/(?:step|epoch|sample|batch))?((?: - .*)?)$/;
const BEGINS_KERAS = /^\s{0,100}\d{1,12}\/[\dU]/;
const MULTIPLES: { readonly [suffix: string]: number } = { "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };

/** @returns undefined if the line does not begin with a bar */
export function barOf(line: string): Bar | undefined {
  if (line.includes("%|")) {
    const found = TQDM.exec(line);
    if (found === null) return undefined;
    const [whole, title = "", , n, nUnit, m, mUnit, inside = ""] = found;
    // 00:01<00:09, 10.0it/s, loss=0.5
    const values = /^[^,]*,[^,]*(?:,(.*))?$/s.exec(inside)?.[1] ?? "";
    return {
      at: Math.round(Number(n) * MULTIPLES[nUnit!]!),
      of: Math.round(Number(m) * MULTIPLES[mUnit!]!),
      title,
      values: values.trim(),
      rest: line.slice(whole.length).trim(),
    };
  }
  if (!BEGINS_KERAS.test(line) || !/[━\]]/.test(line)) return undefined;
  const found = KERAS.exec(line.replace(/\s+/g, " "));
  if (found === null) return undefined;
  const of = found[2] === "Unknown" ? undefined : Number(found[2]);
  return { at: Number(found[1]), of, title: "", values: found[3]!.replace(/^ - /, ""), rest: "" };
}
