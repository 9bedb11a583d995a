/**
 * Finds a few options in a command line. Another parser validates it; this one must not miss an
 * option.
 */
import { MosaicError } from "../base/errors.ts";

/** Everything before `--`: what follows are words of a worker's. */
export function ownWords(args: readonly string[]): readonly string[] {
  const at = args.indexOf("--");
  return at < 0 ? args : args.slice(0, at);
}

/**
 * Value of `--name VALUE` or `--name=VALUE`, the last one given. @throws MosaicError
 * `invalid_argument` if nothing follows the name.
 */
export function optionValue(words: readonly string[], ...names: string[]): string | undefined {
  let value: string | undefined;
  words.forEach((word, at) => {
    for (const name of names) {
      if (word.startsWith(`${name}=`)) value = word.slice(name.length + 1);
      if (word !== name) continue;
      value = words[at + 1];
      if (value === undefined) throw new MosaicError("invalid_argument", `${name} has no value`);
    }
  });
  return value;
}

export function absolutePath(path: string, cwd: string): string {
  const parts: string[] = [];
  for (const part of (path.startsWith("/") ? path : `${cwd}/${path}`).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}
