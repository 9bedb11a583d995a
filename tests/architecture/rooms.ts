/**
 * The import graph of src/ and the table of rooms that it is held to. Files are named by their path
 * below src/.
 */

export interface Import {
  from: string;
  to: string;
}

/** By room, the rooms that it imports or may import. */
export type Arrows = ReadonlyMap<string, ReadonlySet<string>>;

/** `daemon.ts` belongs to the room `daemon`, as what lies in `daemon/` does. */
export function roomOf(file: string): string {
  return file.split("/")[0]!.replace(/\.ts$/, "");
}

/** Of each row below a table's head: the names in backticks, cell by cell. */
export function namesOfRows(markdown: string, head: string): string[][][] {
  const [, rows] = markdown.split(head);
  if (rows === undefined) throw new Error(`there is no table ${head}`);
  return rows.split("\n\n")[0]!.trimEnd().split("\n").map((row) =>
    row.split("|").slice(1, -1).map((cell) =>
      [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1]!)
    )
  );
}

export function roomTable(markdown: string): Arrows {
  const rows = namesOfRows(markdown, "| Room | Holds | May import |\n|---|---|---|\n");
  return new Map(rows.map(([room, , allowed]) => {
    if (room?.[0] === undefined || allowed === undefined) {
      throw new Error(`this is no row of rooms: ${room}`);
    }
    return [room[0], new Set(allowed)];
  }));
}

interface Graph {
  modules: {
    specifier: string;
    dependencies?: { code?: { specifier?: string }; type?: { specifier?: string } }[];
  }[];
}

/** Every import of one file by another, those of types and those at run time included. */
export async function importsOf(src: URL, entries: readonly string[]): Promise<Import[]> {
  const found = new Map<string, Import>();
  for (const entry of entries) {
    const { stdout, success } = await new Deno.Command(Deno.execPath(), {
      args: ["info", "--json", "--lock=dev.lock", new URL(entry, src).href],
      stderr: "inherit",
    }).output();
    if (!success) throw new Error(`deno info ${entry} failed`);
    const below = (specifier = "") =>
      specifier.startsWith(src.href) ? specifier.slice(src.href.length) : undefined;
    for (
      const { specifier, dependencies } of (JSON.parse(new TextDecoder().decode(stdout)) as Graph)
        .modules
    ) {
      const from = below(specifier);
      if (from === undefined) continue;
      for (const { code, type } of dependencies ?? []) {
        for (const to of [below(code?.specifier), below(type?.specifier)]) {
          if (to !== undefined) found.set(`${from} ${to}`, { from, to });
        }
      }
    }
  }
  return [...found.values()];
}

/** The imports from one group of files to another, by default from room to room. */
export function arrowsOf(imports: readonly Import[], groupOf = roomOf): Arrows {
  const arrows = new Map<string, Set<string>>();
  for (const { from, to } of imports) {
    if (groupOf(from) === groupOf(to)) continue;
    const targets = arrows.get(groupOf(from)) ?? new Set();
    arrows.set(groupOf(from), targets.add(groupOf(to)));
  }
  return arrows;
}

/** The folder of a file; "" for the files directly in src/. */
export function folderOf(file: string): string {
  return file.slice(0, Math.max(0, file.lastIndexOf("/")));
}

/** Rooms that every room may import. Among themselves they follow the table. */
const FLOOR = new Set(["base", "os", "gen"]);

/** One line for each import that the table does not allow. */
export function forbidden(imports: readonly Import[], table: Arrows): string[] {
  const allowed = (from: string, to: string) =>
    from === to || (table.has(from) && !FLOOR.has(from) && FLOOR.has(to)) ||
    table.get(from)?.has(to) === true;
  return imports
    .filter(({ from, to }) => !allowed(roomOf(from), roomOf(to)))
    .map(({ from, to }) => `${from} -> ${to}: ${roomOf(from)} may not import ${roomOf(to)}`);
}

/** Rooms that import one another in a circle, as "a -> b -> a"; undefined where there are none. */
export function cycleIn(arrows: Arrows): string | undefined {
  const done = new Set<string>();
  const visit = (room: string, path: readonly string[]): string | undefined => {
    if (path.includes(room)) return [...path.slice(path.indexOf(room)), room].join(" -> ");
    if (done.has(room)) return undefined;
    for (const next of arrows.get(room) ?? []) {
      const cycle = visit(next, [...path, room]);
      if (cycle !== undefined) return cycle;
    }
    done.add(room);
    return undefined;
  };
  for (const room of arrows.keys()) {
    const cycle = visit(room, []);
    if (cycle !== undefined) return cycle;
  }
  return undefined;
}

/** All TypeScript files. */
export function filesOf(src: URL, below = ""): string[] {
  return [...Deno.readDirSync(new URL(below, src))].flatMap(({ name, isDirectory }) => {
    if (isDirectory) return filesOf(src, `${below}${name}/`);
    return /\.tsx?$/.test(name) ? [`${below}${name}`] : [];
  });
}
