/**
 * A unified diff as parts, one per file. Bytes are kept: texts have a character for each byte
 * (latin1). Pure.
 */

export interface DiffPart {
  /** Below the repository's top, UTF-8. */
  path: string;
  change: "modified" | "added" | "deleted";
  binary: boolean;
  /** With the header, latin1. */
  text: string;
}

export function bytesText(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return text;
}

export function textBytes(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

const HEADER = "diff --git ";

/**
 * No line of a diff begins with its header except headers: lines of files begin with " ", "+", "-"
 * or "\".
 */
export function partsOf(diff: string): DiffPart[] {
  return diff.split(/^(?=diff --git )/m).filter((text) => text.startsWith(HEADER)).map((text) => {
    const body = text.search(/^@@ /m);
    const head = body < 0 ? text : text.slice(0, body);
    const change = /^new file mode/m.test(head)
      ? "added"
      : /^deleted file mode/m.test(head)
      ? "deleted"
      : "modified";
    return { path: pathIn(head), change, binary: /^Binary files /m.test(head), text };
  });
}

function pathIn(head: string): string {
  const line = /^(?:\+\+\+ "?b\/|--- "?a\/).*$/m.exec(
    head.replace(/^\+\+\+ \/dev\/null$/m, ""),
  )?.[0];
  const named = /^\+\+\+ (?:"b|b)\//m.exec(head) === null ? line : /^\+\+\+ .*$/m.exec(head)?.[0];
  const word = named?.slice(4) ?? half(head.slice(HEADER.length, head.indexOf("\n")));
  // git ends names with blanks by a tab.
  return utf8(unquoted(word.replace(/\t$/, "")).slice(2));
}

/** "a/X b/X" has no renames. */
function half(names: string): string {
  return names.slice(0, (names.length - 1) / 2);
}

const ESCAPES: Record<string, string> = {
  n: "\n",
  t: "\t",
  r: "\r",
  a: "\x07",
  b: "\b",
  f: "\f",
  v: "\v",
};

/** git quotes names that contain control characters, quotes or backslashes. */
function unquoted(name: string): string {
  if (!name.startsWith('"')) return name;
  return name.slice(1, -1).replace(
    /\\([0-7]{3}|.)/g,
    (_, code: string) =>
      code.length === 3 ? String.fromCharCode(parseInt(code, 8)) : ESCAPES[code] ?? code,
  );
}

function utf8(latin1: string): string {
  return new TextDecoder().decode(textBytes(latin1));
}
