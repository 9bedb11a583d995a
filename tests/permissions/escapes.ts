/**
 * Tries to get out. Started by escapes_test.ts under the flags of one part of mosaic, with a JSON
 * of places as its argument; prints one JSON object: what each attempt came to.
 */
import { giveUpImports } from "../../src/permissions/give_up.ts";

export interface Places {
  /** A directory that the flags name nothing of, with `secret.txt` and `module.js` in it. */
  outside: string;
  /** A directory that the flags let read. */
  inside: string;
  /** A port on which somebody listens, and that no flag names. */
  port: number;
}

/**
 * "refused" by the runtime, "nothing" where the answer was empty, "done", or another error's text.
 */
export type Outcome = "refused" | "nothing" | "done" | string;

const places = JSON.parse(Deno.args[0]!) as Places;
const { outside, inside, port } = places;

const attempts: Record<string, () => unknown> = {
  "read a file outside": () => Deno.readTextFileSync(`${outside}/secret.txt`),
  "read by a path with ..": () => Deno.readTextFileSync(`${inside}/../outside/secret.txt`),
  "read through a link inside": () => Deno.readTextFileSync(`${inside}/link/secret.txt`),
  "list a directory outside": () => [...Deno.readDirSync(outside)],
  "write a file outside": () => Deno.writeTextFileSync(`${outside}/new.txt`, "x"),
  "write through a link inside": () => Deno.writeTextFileSync(`${inside}/link/new.txt`, "x"),
  "make a link": () => Deno.symlinkSync("/etc", `${inside}/made`),
  "remove a file outside": () => Deno.removeSync(`${outside}/secret.txt`),
  "open a database outside": async () => {
    const { DatabaseSync } = await import("node:sqlite");
    new DatabaseSync(`${outside}/new.db`).close();
  },
  "attach a database outside": async () => {
    const { DatabaseSync } = await import("node:sqlite");
    new DatabaseSync(":memory:").exec(
      `ATTACH '${outside}/attached.db' AS other; CREATE TABLE other.t (x)`,
    );
  },
  "read the own environment as a file": () => Deno.readTextFileSync("/proc/self/environ"),
  "read memory": () => Deno.openSync("/proc/self/mem"),
  "look at a variable": () => Deno.env.get("A_SECRET_OF_SOMEBODY"),
  "connect elsewhere": async () => (await Deno.connect({ hostname: "127.0.0.1", port })).close(),
  "connect elsewhere by node": async () => {
    const net = await import("node:net");
    await new Promise<void>((resolve, reject) =>
      net.connect(port, "127.0.0.1", resolve).on("error", reject)
    );
  },
  "fetch from elsewhere": () => fetch(`http://127.0.0.1:${port}/`),
  "send a datagram": () =>
    Deno.listenDatagram({ transport: "udp", hostname: "0.0.0.0", port: 0 }).close(),
  "listen on every address": () => Deno.listen({ hostname: "0.0.0.0", port: 0 }).close(),
  "look up a name": () => Deno.resolveDns("example.com", "A"),
  "run a program": () => new Deno.Command("/usr/bin/id").outputSync(),
  "run the runtime again": () =>
    new Deno.Command(Deno.execPath(), { args: ["--version"] }).outputSync(),
  "run a shell by another name": () =>
    new Deno.Command("/bin/bash", { args: ["-c", ":"] }).outputSync(),
  "hand the loader a library": () =>
    new Deno.Command("/bin/sh", {
      args: ["-c", ":"],
      clearEnv: true,
      env: { LD_PRELOAD: `${outside}/x.so` },
    })
      .outputSync(),
  "signal another process": () => Deno.kill(Deno.ppid, "SIGCONT"),
  "load a native library": () => Deno.dlopen("/lib/x86_64-linux-gnu/libc.so.6", {}),
  "load a native module": async () =>
    (await import("node:module")).createRequire("file:///")(`${outside}/x.node`),
  "import code from a host": async () => {
    await import(["https://jsr", "io/@std/assert/mod.ts"].join("."));
  },
  "import code from outside": () => import(`file://${outside}/module.js`),
  "ask for the kernel": () => Deno.osRelease(),
  "ask for the user": () => Deno.uid(),
  "ask for network interfaces": () => Deno.networkInterfaces(),
  "ask for more": async () => {
    const { state } = await Deno.permissions.request({ name: "write" });
    return state === "granted" ? "granted" : undefined;
  },
};

async function outcomeOf(attempt: () => unknown): Promise<Outcome> {
  try {
    // An attempt that is under way has got out.
    const late = new Promise((resolve) => setTimeout(() => resolve("under way"), 5000));
    return await Promise.race([attempt(), late]) === undefined ? "nothing" : "done";
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return "refused";
    const text = String(error);
    return /Requires \w+ access|NotCapable|ATTACH|authoriz|EPERM/i.test(text) ? "refused" : text;
  }
}

// As src/main.ts begins.
giveUpImports();

const outcomes: Record<string, Outcome> = {};
for (const [name, attempt] of Object.entries(attempts)) outcomes[name] = await outcomeOf(attempt);
console.log(JSON.stringify(outcomes));
Deno.exit(0);
