/** Labels of sources, which distinguish series of the same name. Pure. */
import { fileKindOf } from "../formats.ts";

/**
 * The label of a file's series, used if another source has series of the same names: what its kind
 * says (src/readers/formats.ts), with as many parent directories as make it unique.
 * @param taken by label, its owner: `writerOf` of the source
 */
export function labelOf(path: string, taken: ReadonlyMap<string, string>): string {
  const parts = path.split("/").filter((part) => part !== "");
  const name = parts.pop()!;
  const kind = fileKindOf(name);
  const label = kind?.label ?? "name";
  const writer = writerOf(path);
  // All files of one writer have the same series.
  if (typeof label === "object" && writer === label.text) return writer;
  const byDirectory = label === "directory";
  const last = byDirectory ? [] : [typeof label === "object" ? label.text : name];
  for (let from = parts.length - (byDirectory ? 1 : 0); from >= 0; from--) {
    const text = [...parts.slice(from), ...last].join("/");
    if (text !== "" && (taken.get(text) ?? writer) === writer) return text;
  }
  return `${parts.join("/")}/${name}`;
}

/** Files with the same value have the same series. */
export function writerOf(path: string): string {
  const at = path.lastIndexOf("/");
  const name = path.slice(at + 1);
  return fileKindOf(name)?.writer?.(path.slice(0, at), name) ?? path;
}
