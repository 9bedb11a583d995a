/** What SQLite calls "disk I/O error" is a read-only file system, one whose server is away, or a quota: a write of one byte tells. */
import { troubleOf } from "../processes/shortage.ts";

/** Why nothing can be written in the directory of one of the daemon's own files; undefined: a file can be written there. */
export function writeTrouble(path: string): readonly [what: string, hint: string] | undefined {
  const probe = `${path}-probe-${crypto.randomUUID()}.tmp`;
  try {
    using file = Deno.openSync(probe, { write: true, createNew: true, mode: 0o600 });
    Deno.removeSync(probe);
    file.writeSync(new Uint8Array(1));
    file.syncSync();
    return undefined;
  } catch (error) {
    return troubleOf(error);
  }
}
