/**
 * The plain values of a pickle: numbers, texts, flags, lists and maps. Nothing of it is called or
 * imported: an object is the map of its fields, and an enumeration's member its value. Pure.
 */
import type { ParamValue } from "../format/tracker_records.ts";

const MOST_OPERATIONS = 1_000_000;
/** What a value that is in several places stands for counts in each. */
const MOST_VALUES = 100_000;
/** Longer whole numbers are not a parameter, and reading them is quadratic. */
const MOST_LONG_BYTES = 64;
/** A map whose keys are a worker's own texts. */
type Fields = { [key: string]: Value };
/** A class or a function, by its name. */
class Named {
  constructor(readonly name: string) {}
}
type Value = ParamValue | Named | Value[] | Fields;

const decoder = new TextDecoder("utf-8", { fatal: false });

/** @throws RangeError, TypeError: it is damaged, or of a form that is not known */
export function plainValue(bytes: Uint8Array): ParamValue {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  let stack: Value[] = [];
  const outer: Value[][] = [];
  const memo = new Map<number, Value>();
  const take = (n: number) => {
    if (n < 0 || at + n > bytes.length) throw new RangeError("it ends too early");
    return bytes.subarray(at, at += n);
  };
  const u8 = () => take(1)[0]!;
  const u32 = () => view.getUint32((take(4), at - 4), true);
  const u64 = () => Number(view.getBigUint64((take(8), at - 8), true));
  const text = (n: number) => decoder.decode(take(n));
  const line = () => {
    const end = bytes.indexOf(10, at);
    if (end < 0) throw new RangeError("it ends too early");
    const found = text(end - at);
    at++;
    return found;
  };
  const pop = () => {
    if (stack.length === 0) throw new TypeError("its stack is empty");
    return stack.pop()!;
  };
  /** What is above the last mark. */
  const marked = () => {
    const values = stack;
    stack = outer.pop() ?? [];
    return values;
  };
  const top = () => stack.at(-1) ?? null;
  const append = (to: Value, values: Value[]) => {
    if (Array.isArray(to)) { for (const value of values) to.push(value as never); }
  };
  const set = (to: Value, values: Value[]) => {
    if (!isMap(to)) return;
    for (let i = 0; i + 1 < values.length; i += 2) {
      // The text of a list could be endless.
      const key = values[i]!;
      const isKey = key === null || typeof key !== "object";
      if (isKey && key !== "__proto__") to[String(key)] = values[i + 1]!;
    }
  };
  /** What a class or a function makes of its arguments. */
  const made = (args: Value): Value => {
    const [only, ...more] = Array.isArray(args) ? args : [];
    const isPlain = typeof only === "string" || typeof only === "number";
    return more.length === 0 && isPlain ? only : {};
  };
  for (let n = 0; n < MOST_OPERATIONS; n++) {
    const operation = String.fromCharCode(u8());
    switch (operation) {
      case ".":
        return plain(pop());
      case "\x80":
        u8();
        break;
      case "\x95":
        take(8);
        break;
      case "(":
        outer.push(stack);
        stack = [];
        break;
      case "N":
        stack.push(null);
        break;
      case "\x88":
      case "\x89":
        stack.push(operation === "\x88");
        break;
      case "K":
        stack.push(u8());
        break;
      case "M":
        stack.push(view.getUint16((take(2), at - 2), true));
        break;
      case "J":
        stack.push(view.getInt32((take(4), at - 4), true));
        break;
      case "\x8a":
        stack.push(long(take(u8())));
        break;
      case "\x8b":
        stack.push(long(take(u32())));
        break;
      case "G":
        stack.push(view.getFloat64((take(8), at - 8), false));
        break;
      case "X":
        stack.push(text(u32()));
        break;
      case "\x8c":
        stack.push(text(u8()));
        break;
      case "\x8d":
        stack.push(text(u64()));
        break;
      case "U":
      case "C":
        stack.push(text(u8()));
        break;
      case "T":
      case "B":
        stack.push(text(u32()));
        break;
      case "]":
      case ")":
      case "\x8f":
        stack.push([]);
        break;
      case "}":
        stack.push({});
        break;
      case "t":
      case "l":
      case "\x91": {
        const values = marked();
        stack.push(values);
        break;
      }
      case "d": {
        const values = marked();
        const map: Fields = {};
        set(map, values);
        stack.push(map);
        break;
      }
      case "\x85":
        stack.push([pop()]);
        break;
      case "\x86":
      case "\x87": {
        const last = operation === "\x86" ? [pop(), pop()] : [pop(), pop(), pop()];
        stack.push(last.reverse());
        break;
      }
      case "a": {
        const value = pop();
        append(top(), [value]);
        break;
      }
      case "e":
      case "\x90": {
        const values = marked();
        append(top(), values);
        break;
      }
      case "s": {
        const value = pop();
        const key = pop();
        set(top(), [key, value]);
        break;
      }
      case "u": {
        const values = marked();
        set(top(), values);
        break;
      }
      case "c":
        stack.push(new Named(`${line()}.${line()}`));
        break;
      case "\x93": {
        const name = pop();
        const module = pop();
        if (typeof name !== "string" || typeof module !== "string") {
          throw new TypeError("a class has no name");
        }
        stack.push(new Named(`${module}.${name}`));
        break;
      }
      case "R":
      case "\x81": {
        const args = pop();
        pop();
        stack.push(made(args));
        break;
      }
      case "\x92": {
        pop();
        pop();
        pop();
        stack.push({});
        break;
      }
      case "b": {
        const state = pop();
        const object = top();
        if (isMap(state) && isMap(object)) set(object, Object.entries(state).flat());
        break;
      }
      case "Q":
        pop();
        stack.push({});
        break;
      case "q":
        memo.set(u8(), top());
        break;
      case "r":
        memo.set(u32(), top());
        break;
      case "\x94":
        memo.set(memo.size, top());
        break;
      case "h":
        stack.push(memo.get(u8()) ?? null);
        break;
      case "j":
        stack.push(memo.get(u32()) ?? null);
        break;
      case "0":
        pop();
        break;
      case "2":
        stack.push(top());
        break;
      default:
        throw new TypeError(
          `it has the operation 0x${operation.charCodeAt(0).toString(16)}, which is not known`,
        );
    }
  }
  throw new RangeError(`it has more than ${MOST_OPERATIONS} operations`);
}

function isMap(value: Value): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) &&
    !(value instanceof Named);
}

function long(bytes: Uint8Array): number {
  if (bytes.length > MOST_LONG_BYTES) {
    throw new RangeError(`it has a whole number of ${bytes.length} bytes`);
  }
  let value = 0n;
  for (const byte of [...bytes].reverse()) value = (value << 8n) | BigInt(byte);
  return Number(BigInt.asIntN(8 * bytes.length, value));
}

/**
 * Without what has no plain value. A value may be in several places, but not within itself.
 * @throws RangeError: it stands for too many values
 */
function plain(
  value: Value,
  within: readonly Value[] = [],
  count = { values: 0 },
): ParamValue {
  if (++count.values > MOST_VALUES) {
    throw new RangeError(`it stands for more than ${MOST_VALUES} values`);
  }
  if (value instanceof Named) return value.name;
  if (typeof value !== "object" || value === null) return value;
  if (within.includes(value) || within.length > 16) return null;
  const deeper = [...within, value];
  if (Array.isArray(value)) return value.map((one) => plain(one, deeper, count));
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, plain(one as Value, deeper, count)]),
  );
}
