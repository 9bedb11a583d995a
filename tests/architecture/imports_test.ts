/** The imports of src/ against the table of rooms in docs/explanation/architecture.md. */
import { strict as assert } from "node:assert";
import {
  arrowsOf,
  cycleIn,
  filesOf,
  folderOf,
  forbidden,
  importsOf,
  roomOf,
  roomTable,
} from "./rooms.ts";

const SRC = new URL("../../src/", import.meta.url);
const DOC = new URL("../../docs/explanation/architecture.md", import.meta.url);
/** Programs that nothing imports. */
const ENTRIES = [
  "manual/search_box.ts",
  "main.ts",
  "permissions/first_stage.ts",
  "ui/client/main.tsx",
  "ui/client/first.ts",
];

/** Files in one folder, at most. */
const MOST_FILES = 15;

const table = roomTable(Deno.readTextFileSync(DOC));
const imports = await importsOf(SRC, ENTRIES);

Deno.test("rooms: every import of src/ goes where docs/explanation/architecture.md allows it", () => {
  assert.ok(imports.length > 1000, "the graph is there");
  assert.deepEqual(forbidden(imports, table), []);
});

Deno.test("rooms: no cycle, neither among the imports nor in what the table allows", () => {
  assert.equal(cycleIn(arrowsOf(imports)), undefined);
  assert.equal(cycleIn(table), undefined);
});

Deno.test("rooms: no circle of files, nor of the folders inside a room", () => {
  assert.equal(cycleIn(arrowsOf(imports, (file) => file)), undefined);
  const within = imports.filter(({ from, to }) =>
    roomOf(from) === roomOf(to) && folderOf(from) !== "" && folderOf(to) !== ""
  );
  assert.equal(cycleIn(arrowsOf(within, folderOf)), undefined);
});

Deno.test("rooms: no folder has more files than a reader can take in", () => {
  const count = new Map<string, number>();
  for (const file of filesOf(SRC).filter((file) => !file.startsWith("gen/"))) {
    count.set(folderOf(file), (count.get(folderOf(file)) ?? 0) + 1);
  }
  assert.deepEqual([...count].filter(([, files]) => files > MOST_FILES), []);
});

Deno.test("rooms: the table has a row for each room, and no other", () => {
  const rooms = [...Deno.readDirSync(SRC)].map(({ name }) => name.replace(/\.ts$/, ""));
  assert.deepEqual([...table.keys()].sort(), [...new Set(rooms)].sort());
  for (const [room, allowed] of table) {
    for (const other of allowed) {
      assert.ok(table.has(other), `${room} may import "${other}", which is no room`);
    }
  }
});

Deno.test("rooms: a program begins at each entry, and no file of src/ is left over", () => {
  const reached = new Set([...ENTRIES, ...imports.map(({ to }) => to)]);
  assert.deepEqual(filesOf(SRC).filter((file) => !reached.has(file)), []);
});

Deno.test("rooms: what is not allowed is named, file by file", () => {
  const rows = roomTable(
    "| Room | Holds | May import |\n|---|---|---|\n| `cli` | verbs | `rpc` |\n| `rpc` | calls | |\n| `os` | files | |\n\n",
  );
  const good = { from: "cli/verbs.ts", to: "os/files.ts" };
  const room = { from: "cli/verbs.ts", to: "rpc/calls.ts" };
  const within = { from: "os/files.ts", to: "os/shell.ts" };
  const up = { from: "os/files.ts", to: "cli/verbs.ts" };
  const unknown = { from: "attic/box.ts", to: "os/files.ts" };
  assert.deepEqual(forbidden([good, room, within], rows), []);
  assert.deepEqual(forbidden([good, up, unknown], rows), [
    "os/files.ts -> cli/verbs.ts: os may not import cli",
    "attic/box.ts -> os/files.ts: attic may not import os",
  ]);
  assert.equal(cycleIn(arrowsOf([good, within])), undefined);
  assert.equal(
    cycleIn(
      arrowsOf([{ from: "cli/verbs.ts", to: "rpc/a.ts" }, { from: "rpc/a.ts", to: "cli/b.ts" }]),
    ),
    "cli -> rpc -> cli",
  );
});
