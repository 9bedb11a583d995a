/** The portable form: a shell stub, then the Deno that runs this script and the bundled program, compressed. */
import { gzipSync } from "node:zlib";
import { CLIENT_V8_FLAGS, V8_FLAGS } from "../../src/os/heap.ts";
import { VERSION } from "../../src/base/version.ts";
import { bundle, commit, fail, sha256, withCommit } from "./build.ts";
import { clientPermissions } from "./client_permissions.ts";
import { tarOf } from "./tar.ts";
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
  const files = [...texts].map(([name, text]) => ({ name, bytes: encoder.encode(withCommit(text, at)) }));
  const parts = { DENO: Deno.readFileSync(Deno.execPath()), PROGRAM: tarOf(files) };
  const values: Record<string, string> = { VERSION, COMMIT: at, PROFILE: profile, V8_FLAGS, CLIENT_V8_FLAGS };
  values.CLIENT_PERMISSIONS = clientPermissions();
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
