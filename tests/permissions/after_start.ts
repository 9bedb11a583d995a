/**
 * A daemon, and in its own process, once it is ready, attempts at what it needed only to start.
 * Started by after_start_test.ts under the daemon's plan: the arguments are a JSON of places, then
 * the daemon's own.
 */
import { Layout } from "../../src/base/layout.ts";
import { runDaemon } from "../../src/daemon/start/command_line.ts";
import { giveUpImports } from "../../src/permissions/give_up.ts";
import { until } from "../harness/wait.ts";

export interface StartPlaces {
  stateDir: string;
  certificate: string;
}

const [json, ...args] = Deno.args;
const { stateDir, certificate } = JSON.parse(json!) as StartPlaces;
const layout = new Layout(stateDir);

const attempts: Record<string, () => unknown> = {
  "read its certificate": () => Deno.readTextFileSync(certificate),
  "look at its environment": () => Deno.env.get("MOSAIC_CANARY"),
  "list its environment": () => Object.keys(Deno.env.toObject())[0],
  "listen on any port": () => Deno.listen({ hostname: "127.0.0.1", port: 0 }).close(),
  "ask for the host's name": () => Deno.hostname(),
  "import code from a host": () => import(["https://jsr", "io/@std/assert/mod.ts"].join(".")),
  "read the state directory": () => Deno.readTextFileSync(layout.daemonJson),
  "write the state directory": () => {
    Deno.writeTextFileSync(`${layout.trainer}/daemon.canary`, "x");
    Deno.removeSync(`${layout.trainer}/daemon.canary`);
    return true;
  },
  "run a shell": () =>
    new Deno.Command("/bin/sh", { args: ["-c", ":"] }).outputSync().success || undefined,
};

async function outcomeOf(attempt: () => unknown): Promise<string> {
  try {
    return await attempt() === undefined ? "nothing" : "done";
  } catch (error) {
    return /Requires \w+ access/.test(String(error)) ? "refused" : String(error);
  }
}

giveUpImports();
const ended = runDaemon(args);
ended.then((code) => Deno.exit(code === 0 ? 1 : code));
await until(() => {
  try {
    return JSON.parse(Deno.readTextFileSync(layout.daemonJson)).pid === Deno.pid;
  } catch {
    return false;
  }
}, { what: "the daemon to be ready" });
const outcomes: Record<string, string> = {};
for (const [name, attempt] of Object.entries(attempts)) outcomes[name] = await outcomeOf(attempt);
console.log(JSON.stringify(outcomes));
Deno.exit(0);
