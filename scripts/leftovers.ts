/**
 * What a test suite leaves behind. Everything that runs from a directory is found by its command
 * line or its environment, which its children inherit.
 */

/**
 * Kills processes that still run from a directory that will be removed; returns the command lines.
 */
export function reap(directory: string): string[] {
  const left: string[] = [];
  for (const entry of Deno.readDirSync("/proc")) {
    const pid = Number(entry.name);
    if (!Number.isSafeInteger(pid) || pid <= 1 || pid === Deno.pid) continue;
    try {
      const command = Deno.readTextFileSync(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
      if (
        !command.includes(directory) &&
        !Deno.readTextFileSync(`/proc/${pid}/environ`).includes(directory)
      ) continue;
      Deno.kill(pid, "SIGKILL");
      left.push(`${pid} ${command.slice(0, 160)}`);
    } catch {
      // It has ended, or belongs to another user.
    }
  }
  return left;
}

/**
 * Kills, once this process has ended in whatever way, everything that runs from directories whose
 * paths begin with `prefix`, and removes them. A process in a session of its own does it, which no
 * signal to this one or its group reaches: it waits for the end of its input, whose other end only
 * this process has.
 */
export async function afterTheEnd(prefix: string): Promise<void> {
  const guard = new Deno.Command("/bin/sh", {
    args: ["-c", GUARD],
    env: { PATH: "/usr/bin:/bin" },
    clearEnv: true,
    detached: true,
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
  guard.unref();
  const input = guard.stdin.getWriter();
  // Not an argument: it would find itself by that.
  await input.write(new TextEncoder().encode(`${prefix}\n`));
}

const GUARD = `trap '' HUP INT TERM
IFS= read -r prefix
read -r end
while :; do
  found=
  for process in /proc/[0-9]*; do
    grep -qsaF -e "$prefix" "$process/cmdline" "$process/environ" && kill -KILL "\${process#/proc/}" && found=yes
  done
  [ -n "$found" ] || break
done
rm -rf "$prefix"*`;
