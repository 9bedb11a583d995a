/** The command line as people use it. */
import { PROGRAM, type TestDaemon } from "../../harness/daemon.ts";

export interface Said {
  code: number;
  out: string;
  err: string;
}

export async function mosaic(args: string[], input?: string): Promise<Said> {
  const child = new Deno.Command(PROGRAM[0]!, {
    args: [...PROGRAM.slice(1), ...args],
    stdin: input === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
    // A daemon that was to refuse to start, and runs.
    signal: AbortSignal.timeout(60_000),
  }).spawn();
  if (input !== undefined) {
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(input));
    await writer.close();
  }
  const { code, stdout, stderr } = await child.output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, out: text(stdout), err: text(stderr) };
}

export function submitBy(daemon: TestDaemon, configJson: string): Promise<Said> {
  return mosaic(["submit", "--target", daemon.target, "-"], configJson);
}
