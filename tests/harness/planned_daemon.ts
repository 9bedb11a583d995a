import { flagsOf } from "../../src/permissions/permissions.ts";
import { planFor } from "../../src/permissions/part_plan.ts";
import { realWorld } from "../../src/permissions/world.ts";
import { MAIN, TestDaemon } from "./daemon.ts";

/**
 * A daemon with the permissions of its command line, as in the executable: there the runtime itself
 * resolves links.
 */
export class PlannedDaemon implements AsyncDisposable {
  readonly daemon: TestDaemon;

  private constructor(daemon: TestDaemon) {
    this.daemon = daemon;
  }
  static async start(further: string[] = []): Promise<PlannedDaemon> {
    const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
    const http = further.includes("--http") ? [] : ["--http", "127.0.0.1:0"];
    const args = ["--listen", "127.0.0.1:0", ...http, ...further];
    const flags = flagsOf(await planFor("daemon", ["--state-dir", stateDir, ...args], realWorld()));
    const program = [Deno.execPath(), "run", "--no-check", "--no-prompt", ...flags, MAIN];
    return new PlannedDaemon(await TestDaemon.start({ stateDir, args, program }));
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await Deno.remove(this.daemon.stateDir, { recursive: true });
  }
}
