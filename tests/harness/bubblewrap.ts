/** Whether this host lets bubblewrap make a sandbox with processes of its own. */
export function hasBubblewrap(): boolean {
  try {
    return new Deno.Command("bwrap", { args: ["--ro-bind", "/", "/", "--unshare-pid", "true"] })
      .outputSync().success;
  } catch {
    return false;
  }
}
