/**
 * `deno task compile [--offline] [--target TRIPLE] [--profile NAME] [--output FILE]`: one executable, `dist/mosaic`.
 *
 * - The true form is made by `deno compile`. It needs Deno's runtime base `denort`, looked for at `DENORT_BIN`, then in
 *   `$DENO_DIR/dl/release/vVERSION/denort-TARGET.zip`; where neither is, it says what to fetch and where to put it.
 * - `--offline` makes the portable form instead: a shell stub, the Deno that runs this script, and the bundled program.
 *
 * Beside it: `dist/mosaic.sha256` and `dist/THIRD_PARTY_LICENSES`. The same inputs give the same bytes.
 */
import { gzipSync } from "node:zlib";
import { createHash } from "node:crypto";
import { parseArgs } from "node:util";
import { VERSION } from "../src/version.ts";
import stub from "./compile/stub.sh" with { type: "text" };

const root = new URL("..", import.meta.url).pathname;
const PERMISSION_FLAGS = ["-A", "--unstable-net"];

function fail(message: string): never {
  console.error(`compile: ${message}`);
  Deno.exit(1);
}

function run(command: string, args: string[]): { ok: boolean; out: string; err: string } {
  const result = new Deno.Command(command, { args, cwd: root, stdin: "null" }).outputSync();
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { ok: result.success, out: decode(result.stdout).trim(), err: decode(result.stderr).trim() };
}

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** The commit the tree is at, with "-dirty" when it holds more than that. */
function commit(): string {
  const head = run("git", ["rev-parse", "--short=12", "HEAD"]);
  if (!head.ok) return "unknown";
  return run("git", ["status", "--porcelain", "--untracked-files=no"]).out === "" ? head.out : `${head.out}-dirty`;
}

/** The whole program as one file of JavaScript, its commit within. */
function bundle(to: string): Uint8Array {
  const made = run(Deno.execPath(), ["bundle", "--quiet", "--minify", "--platform=deno", "-o", to, "src/main.ts"]);
  if (!made.ok) fail(`bundling failed:\n${made.err}`);
  const text = Deno.readTextFileSync(to);
  return new TextEncoder().encode(`globalThis.MOSAIC_COMMIT=${JSON.stringify(commit())};\n${text}`);
}

/** Licence texts of every package below node_modules that the bundle may hold. */
function licences(): string {
  const store = `${root}node_modules/.deno`;
  const parts: string[] = [];
  for (const entry of [...Deno.readDirSync(store)].map((e) => e.name).sort()) {
    const at = entry.lastIndexOf("@");
    if (at <= 0 || !entry.includes("@")) continue;
    const name = entry.slice(0, at).replace("+", "/");
    const folder = `${store}/${entry}/node_modules/${name}`;
    try {
      const meta = JSON.parse(Deno.readTextFileSync(`${folder}/package.json`));
      const file = [...Deno.readDirSync(folder)].map((e) => e.name).find((n) => /^licen[cs]e/i.test(n));
      const text = file === undefined
        ? `(no licence file; package.json says: ${meta.license ?? "nothing"})`
        : Deno.readTextFileSync(`${folder}/${file}`);
      parts.push(`${name} ${meta.version} (${meta.license ?? "see below"})\n${"-".repeat(72)}\n${text.trim()}\n`);
    } catch {
      // A folder without a package of its own.
    }
  }
  return parts.join("\n\n");
}

function portable(output: string): void {
  const deno = Deno.readFileSync(Deno.execPath());
  const program = bundle(`${root}dist/mosaic.js`);
  const packedDeno = gzipSync(deno, { level: 9 });
  const packedProgram = gzipSync(program, { level: 9 });
  const values: Record<string, string> = {
    VERSION,
    COMMIT: commit(),
    DENO_SIZE: String(deno.length),
    DENO_PACKED: String(packedDeno.length),
    DENO_SHA256: sha256(deno),
    PROGRAM_SIZE: String(program.length),
    PROGRAM_PACKED: String(packedProgram.length),
    PROGRAM_SHA256: sha256(program),
    FLAGS: PERMISSION_FLAGS.join(" "),
  };
  values.KEY = sha256(new TextEncoder().encode(values.DENO_SHA256! + values.PROGRAM_SHA256)).slice(0, 16);
  // Offsets have a fixed width, so that they do not move what they point at.
  const fill = (start: number) =>
    stub.replace(/@([A-Z0-9_]+)@/g, (whole, name: string) => {
      if (name === "DENO_OFFSET") return String(start + 1).padEnd(12);
      if (name === "PROGRAM_OFFSET") return String(start + packedDeno.length + 1).padEnd(12);
      return values[name] ?? fail(`the stub names ${whole}, which has no value`);
    });
  const size = new TextEncoder().encode(fill(0)).length;
  const head = new TextEncoder().encode(fill(size));
  const file = Deno.openSync(output, { write: true, create: true, truncate: true, mode: 0o755 });
  for (const part of [head, packedDeno, packedProgram]) {
    for (let done = 0; done < part.length;) done += file.writeSync(part.subarray(done));
  }
  file.close();
  Deno.chmodSync(output, 0o755);
}

function compiled(output: string, target: string | undefined): void {
  const triple = target ?? Deno.build.target;
  const version = Deno.version.deno;
  const cache = JSON.parse(run(Deno.execPath(), ["info", "--json"]).out).denoDir as string;
  const archive = `${cache}/dl/release/v${version}/denort-${triple}.zip`;
  const base = Deno.env.get("DENORT_BIN");
  const there = (path: string) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  };
  if (base !== undefined && !there(base)) fail(`DENORT_BIN names ${base}, which is not a file`);
  if (base === undefined && !there(archive)) {
    fail(
      `Deno's runtime base is not at hand. Either\n` +
        `  - fetch denort-${triple}.zip of the Deno release v${version} and put it at\n    ${archive}\n` +
        `  - or unpack it and set DENORT_BIN to the file denort,\n` +
        `  - or make the portable form, which needs nothing else: deno task compile --offline`,
    );
  }
  const args = [
    "compile",
    "--quiet",
    "--bundle",
    "--minify",
    "--no-prompt",
    ...PERMISSION_FLAGS,
    "--app-name",
    "mosaic",
  ];
  if (target !== undefined) args.push("--target", target);
  const made = run(Deno.execPath(), [...args, "-o", output, "src/main.ts"]);
  if (!made.ok) fail(`deno compile failed:\n${made.err}`);
}

const { values: options } = parseArgs({
  args: Deno.args,
  options: { offline: { type: "boolean" }, target: { type: "string" }, output: { type: "string" } },
});
const output = options.output ?? `${root}dist/mosaic`;
Deno.mkdirSync(`${root}dist`, { recursive: true });
if (options.offline && options.target !== undefined && options.target !== Deno.build.target) {
  fail(`--offline packs the Deno at hand (${Deno.build.target}); run it on a ${options.target} machine instead`);
}
if (options.offline) portable(output);
else compiled(output, options.target);
Deno.writeTextFileSync(`${root}dist/THIRD_PARTY_LICENSES`, licences());
Deno.writeTextFileSync(`${output}.sha256`, `${sha256(Deno.readFileSync(output))}  ${output.replace(/^.*\//, "")}\n`);
console.log(
  `${output}  ${(Deno.statSync(output).size / 1e6).toFixed(1)} MB  ${options.offline ? "portable" : "compiled"}`,
);
