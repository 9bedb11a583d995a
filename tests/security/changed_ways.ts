/**
 * Every function that opens, lists or changes a path below a run, on ways that lead through a link.
 * Run as a program, also under the permissions of a proxy: there the runtime itself resolves links.
 * Prints what was done through a link.
 */
import {
  entriesLater,
  entriesOf,
  infoOf,
  isFileLocked,
  openLogInProxy,
  openRegular,
  openRegularInProxy,
  openRegularLog,
  readRecord,
  readRecordInProxy,
  watchDirectory,
} from "../../src/os/files/untrusted.ts";
import {
  createFile,
  lockFile,
  makeDirectoriesTo,
  makeDirectory,
  makeFifo,
  makeRemovable,
  offerDirectory,
  openFifo,
  openFile,
  openForAppending,
  openLogForWriting,
  opensForWriting,
  quarantineFile,
  removeFile,
  removeRegular,
  removeTree,
  removeTreeNow,
  renameFile,
  setMode,
  shareWithGroup,
  writeRecord,
} from "../../src/os/files/untrusted_changes.ts";

type Operation = (path: string, below: string) => unknown;

/**
 * On a file that a worker may have put anywhere: `path` is named together with the run's directory.
 */
export const ANYWHERE: Record<string, Operation> = {
  openRegular: (path, below) => openRegular(path, below)?.close(),
  openRegularInProxy: (path, below) => openRegularInProxy(path, below)?.close(),
  readRecord: (path, below) => readRecord(path, below),
  readRecordInProxy: (path, below) => readRecordInProxy(path, below),
  infoOf: (path, below) => infoOf(path, below),
  entriesOf: (path, below) => entriesOf(path.slice(0, path.lastIndexOf("/")), below),
  entriesLater: (path, below) => entriesLater(path.slice(0, path.lastIndexOf("/")), below),
  removeFile: (path, below) => removeFile(path, below),
  removeRegular: (path, below) => removeRegular(path, below),
  quarantineFile: (path, below) => quarantineFile(path, "nothing", below),
  makeDirectory: (path, below) => makeDirectory(`${path}.made`, below),
  offerDirectory: (path, below) => offerDirectory(`${path}.new`, below),
  makeRemovable: (path, below) => makeRemovable(path.slice(0, path.lastIndexOf("/")), below),
  renameFile: (path, below) => renameFile(`${below}/other`, path, { to: below }),
  // Renames the link itself, and makes a directory in its place.
  makeDirectoriesTo: (path, below) => makeDirectoriesTo(`${path}.new/file`, below, below),
};

/** On mosaic's own files: the run's directory follows from the path. */
export const OWN: Record<string, Operation> = {
  openRegularLog: (path) => openRegularLog(path)?.close(),
  openLogInProxy: (path) => openLogInProxy(path)?.close(),
  readRecord: (path) => readRecord(path),
  readRecordInProxy: (path) => readRecordInProxy(path),
  infoOf: (path) => infoOf(path),
  isFileLocked: (path) => isFileLocked(path),
  watchDirectory: (path) => watchDirectory(path.slice(0, path.lastIndexOf("/"))).close(),
  writeRecord: (path) => writeRecord(path, "x"),
  createFile: (path) => createFile(`${path}.new`).close(),
  openFile: (path) => openFile(path).close(),
  openForAppending: (path) => openForAppending(path).close(),
  openLogForWriting: (path) => openLogForWriting(path).close(),
  opensForWriting: (path) => opensForWriting(path),
  lockFile: (path) => lockFile(path)?.close(),
  setMode: (path) => setMode(path, 0o777),
  shareWithGroup: (path) => shareWithGroup(path, 12345),
  makeFifo: (path) => makeFifo(`${path}.new`),
  openFifo: (path) => openFifo(path),
  quarantineFile: (path) => quarantineFile(path, "nothing"),
  makeDirectory: (path) => makeDirectory(`${path}.new`),
  removeFile: (path) => removeFile(path),
  removeRegular: (path) => removeRegular(path),
  removeTree: (path) => removeTree(path),
  removeTreeNow: (path) => removeTreeNow(path),
  renameFrom: (path, below) => renameFile(path, `${below}/taken`),
  renameTo: (path, below) => renameFile(`${below}/other`, path),
};

/** Readers answer with nothing where a link is on the way. */
const isNothing = (value: unknown) => value === undefined || value === false;

if (import.meta.main) {
  const [kind, path, below] = Deno.args as [string, string, string];
  for (const [name, operation] of Object.entries(kind === "own" ? OWN : ANYWHERE)) {
    let done: string;
    try {
      const result = await operation(path, below);
      // These say nothing, and the test looks at what they have left.
      done = isNothing(result) ? "nothing" : "done";
    } catch (error) {
      done = (error as { code?: string }).code ?? `${error}`;
    }
    console.log(name, done);
  }
}
