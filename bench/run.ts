/**
 * `deno task bench [--quick | --smoke] [part…]`: measures mosaic on this machine, prints a table
 * and writes bench/results/*.json. Each rate is printed beside a yardstick: the rate of the machine
 * itself with the same records in the same minute. Ratios can be compared between machines and
 * days, times cannot.
 */
import { taskArguments } from "../scripts/task_arguments.ts";
import { timed } from "./measure.ts";
import { type Figure, table, writeResults } from "./report.ts";

export interface BenchOptions {
  /**
   * How much is measured: `full`; `quick` with --quick, too short to quote; `smoke` with --smoke,
   * which only shows that each part still works.
   */
  pick<T>(full: T, quick: T, smoke: T): T;
}

type Part = (options: BenchOptions) => Promise<Figure[]>;

const PARTS: Record<string, { what: string; load: () => Promise<Part> }> = {
  dialects: {
    what: "lines to a batch",
    load: async () => (await import("./parts/dialects.ts")).dialects,
  },
  formats: {
    what: "other trackers' files",
    load: async () => (await import("./parts/formats.ts")).formats,
  },
  store: {
    what: "batches into SQLite",
    load: async () => (await import("./parts/store.ts")).store,
  },
  replay: {
    what: "a run read back from SQLite",
    load: async () => (await import("./parts/history.ts")).replay,
  },
  series: {
    what: "chart series of a long run",
    load: async () => (await import("./parts/history.ts")).series,
  },
  single: {
    what: "one fast worker, end to end",
    load: async () => (await import("./parts/end_to_end.ts")).single,
  },
  eight: {
    what: "eight workers at once",
    load: async () => (await import("./parts/end_to_end.ts")).eight,
  },
  hundred: {
    what: "a hundred small runs at once",
    load: async () => (await import("./parts/end_to_end.ts")).hundred,
  },
  subscribers: {
    what: "readers beside a fast worker, one stalled",
    load: async () => (await import("./parts/end_to_end.ts")).subscribers,
  },
  sizes: {
    what: "records of 1 KB and 100 KB",
    load: async () => (await import("./parts/end_to_end.ts")).sizes,
  },
  memory: {
    what: "long runs, one after the other",
    load: async () => (await import("./parts/end_to_end.ts")).memory,
  },
  slow: {
    what: "bytes written for slow workers",
    load: async () => (await import("./parts/slow.ts")).slow,
  },
  backlog: {
    what: "a gigabyte journalled while the daemon is away",
    load: async () => (await import("./parts/recovery.ts")).backlog,
  },
  reattach: {
    what: "a daemon finds its hundred runs again",
    load: async () => (await import("./parts/recovery.ts")).reattach,
  },
  health: {
    what: "unary calls, idle and under load",
    load: async () => (await import("./parts/latency.ts")).health,
  },
  connections: {
    what: "connections that come and go",
    load: async () => (await import("./parts/connections.ts")).connections,
  },
  loopback: {
    what: "new connections over loopback TCP, beside many sockets",
    load: async () => (await import("./parts/loopback.ts")).loopback,
  },
  submit: {
    what: "from submit to the first record",
    load: async () => (await import("./parts/latency.ts")).submit,
  },
  grpc: {
    what: "the original's calls, by gRPC, at rest",
    load: async () => (await import("./parts/latency.ts")).grpc,
  },
  frames: {
    what: "running environments that are watched, a stream's share of a processor",
    load: async () => (await import("./parts/frames.ts")).frames,
  },
  page: { what: "the page in a browser", load: async () => (await import("./parts/page.ts")).page },
  trials: {
    what: "twenty thousand trials of sweeps in the queue",
    load: async () => (await import("./parts/trials.ts")).trials,
  },
  long: {
    what: "one run of ten million steps",
    load: async () => (await import("./parts/growth.ts")).long,
  },
  many: {
    what: "a registry of ten thousand runs",
    load: async () => (await import("./parts/growth.ts")).many,
  },
  wal: {
    what: "the write-ahead log beside readers",
    load: async () => (await import("./parts/growth.ts")).wal,
  },
  large: {
    what: "starting with 10 GB of telemetry",
    load: async () => (await import("./parts/growth.ts")).large,
  },
  startup: {
    what: "starting the program and the daemon",
    load: async () => (await import("./parts/latency.ts")).startup,
  },
};

async function main(): Promise<number> {
  const more = Object.entries(PARTS).map(([name, { what }]) => `\n  ${name.padEnd(12)} ${what}`)
    .join("");
  const { values, words } = taskArguments(
    import.meta.url,
    { quick: { type: "boolean" }, smoke: { type: "boolean" } },
    { positionals: true, more },
  );
  const size = values.smoke ? "smoke" : values.quick ? "quick" : "full";
  const options: BenchOptions = { pick: (full, quick, smoke) => ({ full, quick, smoke })[size] };
  const unknown = words.filter((word) => !(word in PARTS));
  if (unknown.length > 0) {
    console.error(`no part is named ${unknown.join(", ")}. The parts:${more}`);
    return 2;
  }
  const figures: Figure[] = [];
  const seconds: Record<string, number> = {};
  for (const name of words.length > 0 ? words : Object.keys(PARTS)) {
    const part = await PARTS[name]!.load();
    console.error(`${name}: ${PARTS[name]!.what} …`);
    seconds[name] = await timed(async () => void figures.push(...await part(options))) / 1000;
  }
  console.log(table(figures));
  if (size === "smoke") return 0;
  const directory = new URL("results", import.meta.url).pathname;
  console.error(
    `\nwritten to ${writeResults(directory, figures, { size, parts: words, seconds })}`,
  );
  return 0;
}

if (import.meta.main) Deno.exit(await main());
