/** NVIDIA's errors (Xid) in the kernel's log, as far as this user may read it. */
import { busOf } from "./nvidia_smi.ts";

export interface Xid {
  /** Of the card, such as "0000:3b:00". */
  bus: string;
  code: number;
  /** The driver's words, such as "GPU has fallen off the bus". */
  text: string;
  /** Seconds since the boot. */
  at: number;
}

const NEWEST = 200;
/** A program that was killed: the driver cleans up after it. */
const CLEANUP = 45;

const script = (read: string) =>
  `out=$(${read} 2>&1) || { printf '%s\\n' "$out" | tail -n 1; exit 1; }
case "$out" in *"not seeing messages"*|*"No journal files"*) printf '%s\\n' "$out" | head -n 1; exit 1 ;; esac
printf '%s\\n' "$out" | grep -F 'NVRM: Xid' | tail -n ${NEWEST}
exit 0`;

/** The first that may be read is taken. */
export const KERNEL_LOGS: readonly (readonly string[])[] = [
  ["/bin/sh", "-c", script("dmesg")],
  [
    "/bin/sh",
    "-c",
    script("journalctl -k -b 0 --no-pager -o short-monotonic --since=-1h"),
  ],
];

/** "[ 1843.308145] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen …". */
const LINE =
  /^\[\s*(\d{1,12}\.\d{1,9})\].{0,200}?NVRM: Xid \(([^)]{1,60})\): (\d{1,4})(?:, ?(.*))?$/;

export function parseXids(output: string): Xid[] {
  return output.slice(-(1 << 20)).split("\n").slice(-NEWEST - 1).flatMap((line): Xid[] => {
    const [, at, place, code, rest = ""] = LINE.exec(line.slice(0, 1000)) ?? [];
    if (at === undefined || Number(code) === CLEANUP) return [];
    const text = rest.replace(/^(pid=[^,]{0,60}|name=[^,]{0,100})(, |$)/, "").replace(
      /^name=[^,]{0,100}(, |$)/,
      "",
    );
    return [{ bus: busOf(place!), code: Number(code), text: text.slice(0, 200), at: Number(at) }];
  });
}
