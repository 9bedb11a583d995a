/** Labels of sources, which distinguish series of the same name. Pure. */
import { isMonitor } from "../tracker_files.ts";

/**
 * The label of a file's series, used if another source has series of the same names: the directory for event files, as in
 * TensorBoard; "wandb" for a W&B log; the file's name for others; with as many parent directories as make it unique. Event
 * files that one process writes into one directory one after the other are one source, and so are Monitor's tables.
 * @param taken by label, its owner: `writerOf` of the source
 */
export function labelOf(path: string, taken: ReadonlyMap<string, string>): string {
  const parts = path.split("/").filter((part) => part !== "");
  const name = parts.pop()!;
  if (isMonitor(name)) return "monitor.csv";
  const writer = writerOf(path);
  const events = /\.tfevents\./.test(name);
  const last = events ? [] : [name.endsWith(".wandb") ? "wandb" : name];
  for (let from = parts.length - (events ? 1 : 0); from >= 0; from--) {
    const label = [...parts.slice(from), ...last].join("/");
    if (label !== "" && (taken.get(label) ?? writer) === writer) return label;
  }
  return `${parts.join("/")}/${name}`;
}

/** Files with the same value have the same series: the directory and process for event files, else the file itself. */
export function writerOf(path: string): string {
  const at = path.lastIndexOf("/");
  const name = path.slice(at + 1);
  if (isMonitor(name)) return "monitor.csv";
  if (!/\.tfevents\./.test(name)) return path;
  // events.out.tfevents.TIME.HOST.PID.COUNT, as torch and TensorFlow name them; tensorboardX names no process.
  const process = /\.tfevents\.\d+\.(.+\.\d+)\.\d+(?:\.v2)?$/.exec(name)?.[1] ?? "";
  return `${path.slice(0, at)} ${process}`;
}
