/**
 * The values of a YAML file as PyYAML and OmegaConf write parameters (Lightning's hparams.yaml,
 * Hydra's config.yaml): nested mappings and lists of scalars, each on a line of its own. The whole
 * language is left to a library that no proxy needs to load. Tags of Python objects are dropped.
 * Pure.
 */
import { jsonOf } from "../format/literal.ts";
import type { ParamValue } from "../format/tracker_records.ts";

/** Deeper nesting is no list of parameters. */
const MAX_DEPTH = 20;
const KEY =
  /^((?:"(?:[^"\\]|\\.)*")|(?:'(?:[^']|'')*')|[^\s#"'[{&*!|>%@`,?-][^#]*?|-[^\s#][^#]*?):(?:\s+(.*))?$/;
const SPACES = /^ */;

interface Line {
  indent: number;
  text: string;
}

/** What it cannot read, with the line. */
export class NotYaml extends Error {}

/** @throws NotYaml for what is no mapping, or in a form that these tools do not write */
export function yamlValues(text: string): { [key: string]: ParamValue } {
  const lines = new Lines(text);
  const values = lines.block(0, 0);
  if (
    lines.next !== undefined || typeof values !== "object" || values === null ||
    Array.isArray(values)
  ) {
    throw new NotYaml(`no form of parameters: ${(lines.next?.text ?? text).slice(0, 80)}`);
  }
  return values;
}

class Lines {
  readonly #lines: Line[];
  #at = 0;

  constructor(text: string) {
    this.#lines = text.split(/\r?\n/).flatMap((line): Line[] => {
      const rest = line.trim();
      if (rest === "" || rest === "---" || rest.startsWith("#")) return [];
      return [{ indent: SPACES.exec(line)![0].length, text: rest }];
    });
  }

  get next(): Line | undefined {
    return this.#lines[this.#at];
  }

  /** The mapping or list that begins here; null if nothing is as deep. */
  block(indent: number, depth: number): ParamValue {
    const first = this.next;
    if (first === undefined || first.indent < indent) return null;
    if (depth > MAX_DEPTH) {
      throw new NotYaml(`more than ${MAX_DEPTH} levels: ${first.text.slice(0, 80)}`);
    }
    return isItem(first.text)
      ? this.#list(first.indent, depth)
      : this.#mapping(first.indent, depth);
  }

  #list(indent: number, depth: number): ParamValue[] {
    const items: ParamValue[] = [];
    for (
      let line;
      (line = this.next) !== undefined && line.indent === indent && isItem(line.text);
    ) {
      const rest = line.text.slice(1).trimStart();
      // What stands behind the dash begins a block of its own, as deep as it stands.
      const inner = indent + line.text.length - rest.length;
      if (rest === "") {
        this.#at++;
        items.push(this.block(indent + 1, depth + 1));
      } else if (KEY.test(rest) || isItem(rest)) {
        this.#lines[this.#at] = { indent: inner, text: rest };
        items.push(this.block(inner, depth + 1));
      } else {
        this.#at++;
        items.push(this.#value(rest, indent, depth));
      }
    }
    return items;
  }

  #mapping(indent: number, depth: number): { [key: string]: ParamValue } {
    const values: { [key: string]: ParamValue } = {};
    for (let line; (line = this.next) !== undefined && line.indent === indent;) {
      const [, key, rest = ""] = KEY.exec(line.text) ?? [];
      if (key === undefined) throw new NotYaml(`no name and value: ${line.text.slice(0, 80)}`);
      this.#at++;
      const value = this.#value(rest, indent, depth, true);
      const name = nameOf(key);
      if (name !== "__proto__") values[name] = value;
    }
    return values;
  }

  /** @param rest what stands behind a name or a dash */
  #value(rest: string, indent: number, depth: number, ofMapping = false): ParamValue {
    const text = rest.replace(/^(?:[!&]\S+\s*)+/, "").replace(
      /(?:^|\s)#.*$/,
      (comment) => /^["']/.test(rest) ? comment : "",
    );
    if (text === "") {
      const isListBelow = ofMapping && this.next?.indent === indent && isItem(this.next.text);
      return this.block(isListBelow ? indent : indent + 1, depth + 1);
    }
    if (/^[|>][+-]?\d?$/.test(text)) return this.#deeper(indent).join(text[0] === "|" ? "\n" : " ");
    // PyYAML folds what is longer than 80 characters.
    const whole = [text, ...this.#deeper(indent)].join(" ");
    return flow(whole);
  }

  #deeper(indent: number): string[] {
    const texts: string[] = [];
    for (; this.next !== undefined && this.next.indent > indent; this.#at++) {
      texts.push(this.next.text);
    }
    return texts;
  }
}

const isItem = (text: string) => text === "-" || text.startsWith("- ");

/** A scalar, or a list or mapping on one line. */
function flow(text: string): ParamValue {
  if (text === "[]") return [];
  if (text === "{}") return {};
  const list = /^\[(.*)\]$/s.exec(text);
  const mapping = /^\{(.*)\}$/s.exec(text);
  if (list === null && mapping === null) {
    if (/^[[{]/.test(text)) {
      throw new NotYaml(`a list or mapping that is not closed: ${text.slice(0, 80)}`);
    }
    return scalar(text);
  }
  const inner = (list ?? mapping)![1]!;
  if (/[[\]{}]/.test(inner.replace(/"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'/g, ""))) {
    throw new NotYaml(`a list within a list on one line: ${text.slice(0, 80)}`);
  }
  const parts = inner.match(/(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,"'])+/g) ?? [];
  if (list !== null) return parts.map((part) => scalar(part.trim()));
  return Object.fromEntries(parts.map((part) => {
    const [, key, value = ""] = KEY.exec(part.trim()) ?? [];
    if (key === undefined) throw new NotYaml(`no name and value: ${part.slice(0, 80)}`);
    return [nameOf(key), scalar(value.trim())];
  }));
}

const nameOf = (key: string) => /^["']/.test(key) ? String(scalar(key)) : key.trim();

/** By the rules of YAML 1.1, as PyYAML writes and reads them. */
function scalar(text: string): null | boolean | number | string {
  if (text.startsWith("'")) {
    if (!/^'(?:[^']|'')*'$/.test(text)) {
      throw new NotYaml(`a quote that is not closed: ${text.slice(0, 80)}`);
    }
    return text.slice(1, -1).replaceAll("''", "'");
  }
  if (text.startsWith('"')) {
    const read = jsonOf(
      text.replace(/\\x([0-9A-Fa-f]{2})/g, "\\u00$1").replace(/\\([^"\\/bfnrtu])/g, "$1"),
    );
    if (typeof read !== "string") {
      throw new NotYaml(`a quote that is not closed: ${text.slice(0, 80)}`);
    }
    return read;
  }
  if (/^(?:~|null|Null|NULL|)$/.test(text)) return null;
  if (/^(?:true|True|TRUE|yes|Yes|on|On)$/.test(text)) return true;
  if (/^(?:false|False|FALSE|no|No|off|Off)$/.test(text)) return false;
  if (/^[-+]?\.(?:inf|Inf|INF)$/.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  if (/^\.(?:nan|NaN|NAN)$/.test(text)) return NaN;
  if (/^[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/.test(text) && !/^[-+]?0\d/.test(text)) {
    return Number(text.replaceAll("_", ""));
  }
  return text;
}
