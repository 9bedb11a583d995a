/**
 * The portable form: a shell stub, then the Deno that runs this script and the bundled program,
 * compressed.
 */
import { gzipSync } from "node:zlib";
import { CLIENT_V8_FLAGS, V8_FLAGS } from "../../src/os/processes/heap.ts";
import { VERSION } from "../../src/base/version.ts";
import { bundle, commit, fail, sha256, withCommit } from "./build.ts";
import { clientPermissions } from "./client_permissions.ts";
import { type ArchivedFile, tarOf } from "./tar.ts";
import stub from "./stub.sh" with { type: "text" };

export interface PortableOptions {
  output: string;
  profile: "least" | "all";
  /** 1 (fast) to 9 (small). */
  compression: number;
}

export function portable({ output, profile, compression }: PortableOptions): void {
  const encoder = new TextEncoder();
  const at = commit();
  // Parts that both programs share have the same name, which is derived from their content.
  const texts = new Map([...bundle("src/main.ts"), ...bundle("src/permissions/first_stage.ts")]);
  const files = [...texts].map(([name, text]) => ({
    name,
    bytes: encoder.encode(withCommit(text, at)),
  }));
  const runtime = Deno.readFileSync(Deno.execPath());
  const interpreter = interpreterOf(runtime);
  writePortable({ output, profile, compression, commit: at, runtime, interpreter, files });
}

interface PortableContents extends PortableOptions {
  commit: string;
  runtime: Uint8Array;
  /** The runtime's loader, without which it does not start. */
  interpreter: string;
  files: readonly ArchivedFile[];
}

export function writePortable(contents: PortableContents): void {
  const { output, profile, compression, interpreter } = contents;
  const encoder = new TextEncoder();
  const parts = { DENO: contents.runtime, PROGRAM: tarOf(contents.files) };
  const values: Record<string, string> = {
    VERSION,
    COMMIT: contents.commit,
    PROFILE: profile,
    V8_FLAGS,
    CLIENT_V8_FLAGS,
  };
  values.CLIENT_PERMISSIONS = clientPermissions();
  values.INTERPRETER = interpreter;
  const packed = Object.entries(parts).map(([name, bytes]) => {
    const gz = gzipSync(bytes, { level: compression });
    values[`${name}_SHA256`] = sha256(bytes);
    values[`${name}_PACKED`] = String(gz.length);
    return { name, gz };
  });
  const sums = Object.keys(parts).map((name) => values[`${name}_SHA256`]).join("");
  values.KEY = sha256(encoder.encode(sums)).slice(0, 16);
  const fill = (start: number) => {
    let offset = start;
    for (const { name, gz } of packed) {
      // Offsets have a fixed width, so that writing them does not change them.
      values[`${name}_OFFSET`] = String(offset + 1).padEnd(12);
      offset += gz.length;
    }
    return stub.replace(
      /@([A-Z0-9_]+)@/g,
      (whole, name: string) => values[name] ?? fail(`the stub names ${whole}, which has no value`),
    );
  };
  const head = encoder.encode(fill(encoder.encode(fill(0)).length));
  // Do not overwrite an executable that is running: write a new file and rename it.
  const temporary = `${output}.new`;
  const file = Deno.openSync(temporary, { write: true, create: true, truncate: true, mode: 0o755 });
  for (const bytes of [head, ...packed.map(({ gz }) => gz)]) {
    for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
  }
  file.close();
  Deno.chmodSync(temporary, 0o755);
  Deno.renameSync(temporary, output);
}

/**
 * The loader that an ELF program of 64 bits names (its segment PT_INTERP): a host without that file
 * cannot start it.
 */
function interpreterOf(program: Uint8Array): string {
  const view = new DataView(program.buffer, program.byteOffset, program.byteLength);
  const offsetAt = (at: number) => Number(view.getBigUint64(at, true));
  const PT_INTERP = 3;
  for (
    let at = offsetAt(32), left = view.getUint16(56, true);
    left > 0;
    left--, at += view.getUint16(54, true)
  ) {
    if (view.getUint32(at, true) !== PT_INTERP) continue;
    const [start, size] = [offsetAt(at + 8), offsetAt(at + 32)];
    return new TextDecoder().decode(program.subarray(start, start + size - 1));
  }
  return fail("this Deno names no loader: the stub could not tell on which hosts it starts");
}
