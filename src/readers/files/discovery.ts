/**
 * Finds files of trackers below the run's directory, the working directory and the roots of
 * patterns, without following links. A directory is listed again only when it has changed, so a
 * scan of an unchanged tree is one system call per directory. It uses no notifications, because
 * network file systems have none.
 */
import { fileKindOf, formatOfName, HYDRA, isOfTracker, withoutCopies } from "../formats.ts";
import { matcherOf, type Observation } from "./observation.ts";
import { entriesOf } from "../../os/files/untrusted.ts";

/** Searched levels below a root. */
export const MAX_DEPTH = 5;
const MAX_DIRECTORIES = 2000;
/** Of more directories in one level, the rest is not ordered. */
const MAX_DATED = 20_000;
/**
 * A directory with more entries is listed only at intervals: a program may write frames or a data
 * set there.
 */
const MANY_ENTRIES = 5000;
const MANY_AGAIN_MS = 30_000;
/**
 * A change within the same clock tick of the file system as the listing does not change the
 * directory's time.
 */
const CLOCK_MS = 2000;

const SKIPPED = new Set(["node_modules", "__pycache__", "site-packages", "venv", "lib", "bin"]);
/** In directories of these names JSON Lines files are logs; elsewhere they may be data. */
const LOG_DIRECTORY =
  /(?:^|\/)(?:logs?|runs|results?|outputs?|experiments|wandb|tensorboard)(?:\/|$)/;
const FILES_OF_RUNS: readonly [pattern: RegExp, kind: string][] = [
  [
    /\.(?:pth?|pth\.tar|zip|ckpt|cleanrl_model|safetensors|keras|h5|onnx|msgpack|eqx)$/,
    "checkpoint",
  ],
  // Other such files are data.
  [
    /(?:model|ckpt|checkpoint|weights|params|policy|agent|actor|critic|state|step|epoch|iter|best|last|final)[^/]*\.(?:npz|pkl|pickle)$/i,
    "checkpoint",
  ],
  [/\.(?:mp4|gif)$/, "video"],
];

export interface FoundFile {
  path: string;
  /**
   * Whose files are below the root: the run's own, those of runs in its working directory, those of
   * any run, or explicitly requested ones.
   */
  place: "run" | "cwd" | "common" | "requested";
  /** undefined: its records are read. */
  artifact: string | undefined;
  /** The directory below which links are not followed. */
  root: string;
  /** Its name may be that of data: it is not read, but it is said how it would be. */
  isOffered?: boolean;
}

interface Listing {
  mtimeMs: number;
  listedAt: number;
  entries: number;
  directories: string[];
  files: string[];
}

export class Discovery {
  readonly #runDirectory: string;
  readonly #roots: { path: string; place: FoundFile["place"] }[];
  readonly #globs: { glob: string; matches: (path: string) => boolean }[];
  readonly #excluded: ReadonlySet<string>;
  #listings = new Map<string, Listing>();
  /** Directories that were not searched, by reason. */
  readonly leftOut = new Map<"depth" | "directories" | "permission", string>();

  /**
   * @param excluded directories that are not searched: the state directory, which has files of
   * other runs
   */
  constructor(
    runDirectory: string,
    { roots, places = [], globs }: Observation,
    excluded: readonly string[],
  ) {
    this.#runDirectory = runDirectory;
    this.#roots = [
      { path: runDirectory, place: "run" },
      // Explicitly requested files belong to the run, also in shared places.
      ...globs.map(({ root }) => ({ path: root, place: "requested" as const })),
      // Also if they are below the working directory.
      ...places.map((path) => ({ path, place: "common" as const })),
      ...roots.map((path) => ({ path, place: "cwd" as const })),
    ];
    this.#globs = globs.map(({ glob }) => ({ glob, matches: matcherOf(glob) }));
    this.#excluded = new Set([...excluded, runDirectory]);
  }

  /** The requested patterns that none of the files fits. */
  unmatched(found: readonly FoundFile[]): string[] {
    return this.#globs.flatMap(({ glob, matches }) =>
      found.some(({ path }) => matches(path)) ? [] : [glob]
    );
  }

  /** All files of interest; one that is below two roots belongs to the first. */
  scan(now = Date.now()): FoundFile[] {
    const found = new Map<string, FoundFile>();
    const before = this.#listings;
    this.#listings = new Map();
    for (const root of this.#roots) {
      // Level by level: if there is too much, the nearest levels come first.
      let level = [root.path];
      for (let depth = 0; level.length > 0; depth++) {
        const below: string[] = [];
        for (const directory of level) {
          const listing = this.#list(directory, root.path, before, now);
          if (listing === undefined) continue;
          const isRun = listing.files.some((name) => fileKindOf(name)?.alone === true);
          for (const file of this.#ofInterest(root, directory, listing.files)) {
            if (!found.has(file.path)) found.set(file.path, file);
          }
          // Below a W&B run are only its own files, including links to event files that its log
          // already contains.
          if (isRun) continue;
          for (const name of listing.directories) {
            const path = join(directory, name);
            if (
              !this.#excluded.has(path) && !(directory === this.#runDirectory && name === "logs")
            ) below.push(path);
          }
        }
        if (depth === MAX_DEPTH && below.length > 0) this.leftOut.set("depth", below[0]!);
        level = depth === MAX_DEPTH
          ? []
          : newestFirst(below, MAX_DIRECTORIES - this.#listings.size);
      }
    }
    return [...found.values()];
  }

  #list(
    directory: string,
    root: string,
    before: ReadonlyMap<string, Listing>,
    now: number,
  ): Listing | undefined {
    const known = this.#listings.get(directory);
    if (known !== undefined) return known;
    if (this.#listings.size >= MAX_DIRECTORIES) {
      this.leftOut.set("directories", directory);
      return undefined;
    }
    try {
      const info = Deno.lstatSync(directory);
      if (!info.isDirectory) return undefined;
      const mtimeMs = info.mtime?.getTime() ?? 0;
      let listing = before.get(directory);
      const isOld = listing === undefined || listing.mtimeMs !== mtimeMs ||
        listing.listedAt - mtimeMs < CLOCK_MS;
      const mayWait = listing !== undefined && listing.entries > MANY_ENTRIES &&
        now - listing.listedAt < MANY_AGAIN_MS;
      if (isOld && !mayWait) {
        listing = listingOf(directory, root, mtimeMs, now, (path) => this.isRequested(path));
      }
      this.#listings.set(directory, listing!);
      return listing;
    } catch (error) {
      // Removed meanwhile, or not readable for this user, or outside the permission set.
      if (error instanceof Deno.errors.NotCapable) this.leftOut.set("permission", directory);
      return undefined;
    }
  }

  /** Whether somebody has named the file. */
  isRequested(path: string): boolean {
    return this.#globs.some(({ matches }) => matches(path));
  }

  *#ofInterest(
    { path: root, place }: { path: string; place: FoundFile["place"] },
    directory: string,
    names: readonly string[],
  ): Generator<FoundFile> {
    for (const name of withoutCopies(names)) {
      const path = join(directory, name);
      if (place === "requested") {
        if (this.isRequested(path)) yield { path, place, artifact: undefined, root };
        continue;
      }
      const isLog = formatOfName(path) === "jsonl" &&
        (place === "run" || LOG_DIRECTORY.test(directory));
      const isKnown = isOfTracker(path) || isLog;
      if (isKnown || (place === "cwd" && formatOfName(name) !== undefined)) {
        yield { path, place, artifact: undefined, root, isOffered: !isKnown };
      }
      // The daemon records files in the run's directory.
      const kind = place === "run"
        ? undefined
        : FILES_OF_RUNS.find(([pattern]) => pattern.test(name))?.[1];
      if (kind !== undefined) yield { path, place, artifact: kind, root };
    }
  }
}

/**
 * Where there are more directories than are searched, those that changed last come first: a run's
 * own, beside a data set of thousands of old ones.
 */
function newestFirst(directories: string[], most: number): string[] {
  if (directories.length <= most) return directories;
  const dated = directories.slice(0, MAX_DATED).map((path) => ({
    path,
    at: changedAtOrNever(path),
  }));
  return [
    ...dated.sort((a, b) => b.at - a.at).map(({ path }) => path),
    ...directories.slice(MAX_DATED),
  ];
}

function changedAtOrNever(path: string): number {
  try {
    return Deno.lstatSync(path).mtime?.getTime() ?? 0;
  } catch {
    // It was removed, or is out of reach: listing it says so.
    return 0;
  }
}

/**
 * Empty for a virtual environment, and for a state directory or a backup of mosaic, which have
 * files of other runs.
 */
function listingOf(
  directory: string,
  root: string,
  mtimeMs: number,
  now: number,
  isRequested: (path: string) => boolean,
): Listing {
  const listing: Listing = { mtimeMs, listedAt: now, entries: 0, directories: [], files: [] };
  let isBackup = false;
  for (const { name, isFile, isDirectory } of entriesOf(directory, root)) {
    listing.entries++;
    if (name.startsWith(".") && name !== HYDRA) continue;
    if (isDirectory && !SKIPPED.has(name)) listing.directories.push(name);
    const isOfInterest = formatOfName(join(directory, name)) !== undefined ||
      FILES_OF_RUNS.some(([pattern]) => pattern.test(name)) ||
      isRequested(join(directory, name));
    if (isFile && isOfInterest) listing.files.push(name);
    isBackup ||= isFile && name === "backup.json";
    const isState = name === "registry.db" && directory.endsWith("/trainer");
    if (name === "pyvenv.cfg" || isState) return { ...listing, directories: [], files: [] };
  }
  // A backup has its mark before any other file (src/state/archive/backup.ts).
  if (isBackup && listing.directories.includes("trainer")) {
    return { ...listing, directories: [], files: [] };
  }
  listing.directories.sort();
  listing.files.sort();
  return listing;
}

function join(directory: string, name: string): string {
  return directory === "/" ? `/${name}` : `${directory}/${name}`;
}
