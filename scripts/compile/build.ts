/** Input of both forms of the executable. */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";

export const ROOT = new URL("../..", import.meta.url).pathname;

export function fail(message: string): never {
  console.error(`compile: ${message}`);
  Deno.exit(1);
}

export function run(command: string, args: string[]): { ok: boolean; out: string; err: string } {
  const result = new Deno.Command(command, { args, cwd: ROOT, stdin: "null" }).outputSync();
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return {
    ok: result.success,
    out: decode(result.stdout).trim(),
    err: decode(result.stderr).trim(),
  };
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** The commit of the tree, with "-dirty" if there are uncommitted changes. */
export function commit(): string {
  const head = run("git", ["rev-parse", "--short=12", "HEAD"]);
  if (!head.ok) return "unknown";
  return run("git", ["status", "--porcelain", "--untracked-files=no"]).out === ""
    ? head.out
    : `${head.out}-dirty`;
}

const EAGER_REQUIRE =
  /import\{createRequire as (\w+)\} ?from "node:module";var (\w+)=\1\(import\.meta\.url\);/;
const OWN_REQUIRE = /import\{createRequire as (\w+)\} ?from ?"node:module";/;

/**
 * The bundler adds a `require` for CommonJS packages to the common part. Creating it loads Node's
 * module layer, which takes a third of the whole start, also for commands that use no such package.
 * Only built-in modules are still required, so a lazy function replaces it.
 *
 * A package that calls `createRequire` itself would look for other packages beside the executable.
 * It gets what the program has put into MOSAIC_REQUIRED (src/observability/otlp/otlp.ts).
 */
function withLazyRequire(text: string): string {
  const lazy = text.replace(EAGER_REQUIRE, "var $2=name=>process.getBuiltinModule(name);");
  const [whole, create] = OWN_REQUIRE.exec(lazy) ?? [];
  const bundled = whole === undefined ? lazy : lazy
    .replace(whole, "")
    .replaceAll(
      `${create}(import.meta.url)`,
      "(name=>globalThis.MOSAIC_REQUIRED?.[name]??process.getBuiltinModule(name))",
    );
  if (bundled.includes("createRequire")) {
    fail("the bundle makes its require otherwise than known; see withLazyRequire");
  }
  return bundled;
}

const COMMANDER = "commander.invalidArgument";
const COMMANDERS_MODULES = /import (\w+) ?from ?"(node:(?:child_process|fs|path|process))";/g;

const COMMANDERS_STRIP = /import ?\{ ?stripVTControlCharacters as (\w+) ?\} ?from ?"node:util";/g;
const COMMANDERS_EVENTS = /import ?\{ ?EventEmitter as (\w+) ?\} ?from ?"node:events";/g;
/** The parts of an emitter that the parser uses: its commands listen to their own options. */
const EMITTER = "{#of=new Map();listeners(name){return this.#of.get(name)??[]}" +
  "listenerCount(name){return this.listeners(name).length}" +
  "on(name,listener){this.#of.set(name,[...this.listeners(name),listener]);return this}" +
  "emit(name,...values){for(const one of this.listeners(name))one.apply(this,values);return this.listenerCount(name)>0}}";

/**
 * The argument parser imports modules for features that mosaic does not use (starting programs as
 * subcommands, exiting) or of which it needs a few lines (events, text without colours). Loading
 * them takes half of a command's start, so they are loaded at first use or not at all.
 */
function withLazyModules(text: string): string {
  if (!text.includes(COMMANDER)) return text;
  let replaced = 0;
  const instead = (text: string, pattern: RegExp, by: (local: string, name: string) => string) =>
    text.replace(pattern, (_, local: string, name: string) => {
      replaced++;
      return by(local, name);
    });
  const modules = instead(
    text,
    COMMANDERS_MODULES,
    (local, name) =>
      `var ${local}=new Proxy({},{get:(_,member)=>process.getBuiltinModule("${name}")[member]});`,
  );
  // What help colours are colours.
  const strip = instead(
    modules,
    COMMANDERS_STRIP,
    (local) => `var ${local}=text=>text.replace(/\\x1b\\[[0-9;]*m/g,"");`,
  );
  const lazy = instead(strip, COMMANDERS_EVENTS, (local) => `var ${local}=class${EMITTER};`);
  if (replaced !== 7) {
    fail(`commander imports otherwise than known (${replaced} of 7 imports); see withLazyModules`);
  }
  return lazy;
}

/** Sets the commit for the file that reads it (src/base/version.ts). */
export function withCommit(text: string, commit: string): string {
  return text.includes("MOSAIC_COMMIT")
    ? `globalThis.MOSAIC_COMMIT=${JSON.stringify(commit)};${text}`
    : text;
}

/**
 * The manual for the file that shows it (src/manual/pages.ts): base64 of gzip of the JSON of an
 * object, texts by name.
 */
function withManual(text: string): string {
  if (!text.includes("MOSAIC_MANUAL")) return text;
  const docs = `${ROOT}docs/`;
  const pages = [...Deno.readDirSync(docs)].filter(({ isDirectory }) => isDirectory).flatMap((
    { name: folder },
  ) =>
    [...Deno.readDirSync(docs + folder)].filter(({ name }) => name.endsWith(".md")).map(
      ({ name }) => {
        const page = `${folder}/${name.slice(0, -3)}`;
        return [page, Deno.readTextFileSync(`${docs}${page}.md`)] as const;
      },
    )
  );
  const packed = gzipSync(JSON.stringify(Object.fromEntries(pages.sort())), { level: 9 }).toString(
    "base64",
  );
  return `globalThis.MOSAIC_MANUAL="${packed}";${text}`;
}

/**
 * Bundled separately. If the program and a part that is loaded later use the same library, the
 * bundler puts everything that either of them needs into one shared chunk, which is loaded at the
 * start.
 */
const SEPARATE = "src/rpc/call/well_known.ts";
const SEPARATE_IMPORT = /"[./a-z_]*\/well_known\.ts"/g;

/**
 * A program as files of JavaScript: each part that is loaded by itself has its own, so that a start
 * reads only its own.
 */
export function bundle(entry: string): Map<string, string> {
  const files = new Map<string, string>();
  let usesSeparate = false;
  for (
    const [name, text] of bundled(entry, ["--code-splitting", "--external", "*/well_known.ts"])
  ) {
    files.set(
      name,
      text.replace(SEPARATE_IMPORT, () => (usesSeparate = true, '"./well_known.js"')),
    );
  }
  return usesSeparate ? new Map([...files, ...bundled(SEPARATE, [])]) : files;
}

function bundled(entry: string, options: string[]): Map<string, string> {
  const directory = Deno.makeTempDirSync();
  try {
    const flags = ["--quiet", "--minify", "--platform=deno", ...options, "--outdir", directory];
    const made = run(Deno.execPath(), ["bundle", ...flags, entry]);
    if (!made.ok) fail(`bundling ${entry} failed:\n${made.err}`);
    const names = [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
    const textOf = (name: string) =>
      withManual(withLazyModules(withLazyRequire(Deno.readTextFileSync(`${directory}/${name}`))));
    return new Map(names.map((name) => [name, textOf(name)]));
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}
