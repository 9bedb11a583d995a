/** Names of sources, by which series of one name are told apart. Pure. */
import { isMonitor } from "../../telemetry/formats/tracker_files.ts";

/**
 * What a file's series are called by where another source has their names: for event files the directory, as TensorBoard
 * has it, for a W&B log "wandb", for others the file's name; as many directories in front as make it unique.
 *
 * Event files that one process writes into one directory one after the other are one source, as are Monitor's tables.
 *
 * @param taken by label, what has it: `writerOf` of the source
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

/** Files with the same one have the same series: the directory and the process of event files, else the file itself. */
export function writerOf(path: string): string {
  const at = path.lastIndexOf("/");
  const name = path.slice(at + 1);
  if (isMonitor(name)) return "monitor.csv";
  if (!/\.tfevents\./.test(name)) return path;
  // events.out.tfevents.TIME.HOST.PID.COUNT, as torch and TensorFlow name them; tensorboardX names no process.
  const process = /\.tfevents\.\d+\.(.+\.\d+)\.\d+(?:\.v2)?$/.exec(name)?.[1] ?? "";
  return `${path.slice(0, at)} ${process}`;
}
