/**
 * Deno's runtime base `denort`, which `deno compile` puts before the program. Deno accepts any file
 * as the base, and the executable then fails when it is started, so the file is checked first.
 */
import { Buffer } from "node:buffer";

export interface BaseWorld {
  env(name: string): string | undefined;
  /** A file's bytes; undefined if there is no file. */
  read(path: string): Uint8Array | undefined;
  /** Where Deno caches downloads. */
  cache: string;
  /** Deno's version. */
  version: string;
}

export interface BaseTrouble {
  error?: string;
  /** It can be used, but is probably a mistake. */
  warning?: string;
}

/** Deno searches its base at DENORT_BIN, then in its cache, and would then download it. */
export function baseTrouble(target: string, world: BaseWorld): BaseTrouble {
  const { cache, version } = world;
  const address = `https://dl.deno.land/release/v${version}/denort-${target}.zip`;
  const base = world.env("DENORT_BIN");
  if (base !== undefined) {
    const bytes = world.read(base);
    if (bytes === undefined) return { error: `DENORT_BIN names ${base}, which is not a file` };
    const found = baseFound(bytes, target, version);
    const right = `It must be denort of Deno ${version} for ${target}, from\n  ${address}`;
    return found.error === undefined
      ? found
      : { error: `DENORT_BIN names ${base}, which ${found.error}. ${right}` };
  }
  const archive = `${cache}/dl/release/v${version}/denort-${target}.zip`;
  const bytes = world.read(archive);
  if (bytes === undefined) {
    return {
      error: `Deno's runtime base is not at hand. Either\n` +
        `  - fetch ${address} and put it at\n    ${archive}\n` +
        `  - or unpack it and set DENORT_BIN to the file denort,\n` +
        `  - or make the portable form, which needs nothing else: deno task compile --offline`,
    };
  }
  if (startsWith(bytes, ZIP)) return {};
  return { error: `${archive} ${formatOf(bytes)}. It must be the zip archive from\n  ${address}` };
}

const ELF = "\x7fELF";
const ZIP = "PK\x03\x04";
/** Offset in the ELF header, if that is little-endian. */
const MACHINE_AT = 18;
const MACHINES: Record<number, string> = {
  62: "x86_64",
  183: "aarch64",
  3: "x86",
  40: "arm",
  243: "riscv64",
};

/** @returns what is wrong, as the end of a sentence */
function baseFound(bytes: Uint8Array, target: string, version: string): BaseTrouble {
  if (!startsWith(bytes, ELF) || bytes.length < 64) return { error: formatOf(bytes) };
  const machine = bytes[MACHINE_AT]! | bytes[MACHINE_AT + 1]! << 8;
  const architecture = MACHINES[machine] ?? `machine ${machine}`;
  if (!target.startsWith(`${architecture}-`)) return { error: `is for ${architecture}` };
  const versions = versionsIn(bytes);
  if (versions.length === 0) {
    return { warning: "DENORT_BIN says nowhere which Deno it is of: it may be none of it" };
  }
  if (!versions.includes(version)) return { error: `is of Deno ${versions.join(" or ")}` };
  if (!Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(LANGUAGE_SERVER)) {
    return {};
  }
  return {
    warning:
      "DENORT_BIN is the deno command itself, not denort: what is built will not run the program",
  };
}

/** Only the `deno` command itself has one. */
const LANGUAGE_SERVER = "tower_lsp";

/** Versions in the runtime's user agent. */
function versionsIn(bytes: Uint8Array): string[] {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const found = new Set<string>();
  for (let at = text.indexOf("Deno/"); at >= 0; at = text.indexOf("Deno/", at + 1)) {
    const said = /^Deno\/(\d+\.\d+\.\d+)/.exec(text.toString("latin1", at, at + 24));
    if (said !== null) found.add(said[1]!);
  }
  return [...found].sort();
}

function formatOf(bytes: Uint8Array): string {
  if (bytes.length === 0) return "is empty";
  if (startsWith(bytes, ZIP)) return "is a zip archive: unpack it first";
  if (startsWith(bytes, ELF)) return "is cut off";
  if (startsWith(bytes, "MZ")) return "is a program for Windows";
  if (startsWith(bytes, "\xcf\xfa\xed\xfe")) return "is a program for macOS";
  if (startsWith(bytes, "#!")) return "is a script";
  if (startsWith(bytes, "<")) return "is a web page, such as a server's error";
  return "is no program for Linux";
}

function startsWith(bytes: Uint8Array, magic: string): boolean {
  return [...magic].every((letter, at) => bytes[at] === letter.charCodeAt(0));
}
