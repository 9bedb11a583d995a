/** How mosaic starts itself again (daemon → proxy) in each of its forms: from source, compiled, portable. */

/** argv prefix that runs this very mosaic; a subcommand and its arguments follow. */
export function selfCommand(): string[] {
  // The portable executable is a shell stub around Deno; the stub hands its own path on.
  const portable = Deno.env.get("MOSAIC_EXECUTABLE");
  if (portable !== undefined && portable !== "") return [portable];
  if (Deno.build.standalone) return [Deno.execPath()];
  // The packages are there, since this process uses them: looking after them again (under a lock that all share) is half of
  // the start-up time.
  return [Deno.execPath(), "run", "-A", "--no-prompt", "--node-modules-dir=manual", Deno.mainModule];
}
