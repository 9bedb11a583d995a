/** What a daemon cannot do any more once it answers, tried in its own process. */
import assert from "node:assert/strict";
import { flagsOf } from "../../src/permissions/permissions.ts";
import { planFor } from "../../src/permissions/part_plan.ts";
import { realWorld } from "../../src/permissions/world.ts";
import { certificates } from "../rpc/auth/certificates.ts";

const SCRIPT = new URL("after_start.ts", import.meta.url).pathname;

async function afterStart(
  options: { certificatesIn: string; extra: string[] },
): Promise<Record<string, string>> {
  const directory = Deno.makeTempDirSync();
  try {
    const stateDir = `${directory}/state`;
    const place = `${directory}/${options.certificatesIn}`;
    Deno.mkdirSync(place, { recursive: true });
    const { server } = certificates(place);
    const args = [
      "--state-dir",
      stateDir,
      "--listen",
      "127.0.0.1:0",
      "--http",
      "127.0.0.1:0",
      "--gpus",
      "0",
    ];
    args.push("--tls-cert", server.cert, "--tls-key", server.key);
    const extra = options.extra.map((flag) => flag.replace("DIR", directory));
    const env = { MOSAIC_CANARY: "hunter2", MOSAIC_ALLOW: extra.join(" ") };
    const world = {
      ...realWorld(),
      env: (name: string) => ({ ...Deno.env.toObject(), ...env })[name],
    };
    const flags = flagsOf(await planFor("daemon", args, world));
    const out = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--no-check", "--no-prompt", "--quiet", ...flags, SCRIPT]
        .concat(JSON.stringify({ stateDir, certificate: server.cert }), args),
      env,
      stdin: "null",
    }).output();
    const [text, said] = [out.stdout, out.stderr].map((bytes) => new TextDecoder().decode(bytes));
    assert.ok(out.success, said!);
    return JSON.parse(text!);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

const KEPT = {
  "read the state directory": "done",
  "write the state directory": "done",
  "run a shell": "done",
};
const GONE = {
  "read its certificate": "refused",
  "look at its environment": "nothing",
  "list its environment": "nothing",
  "listen on any port": "refused",
  "ask for the host's name": "refused",
  "import code from a host": "refused",
};

Deno.test("after the start: certificates, environment, any port, the host's name and imports are given up", async () => {
  assert.deepEqual(await afterStart({ certificatesIn: "certificates", extra: [] }), {
    ...GONE,
    ...KEPT,
  });
});

Deno.test("after the start: what lies in a directory that is granted as a whole takes nothing of it away", async () => {
  const inside = await afterStart({ certificatesIn: "state/certificates", extra: [] });
  assert.deepEqual(inside, { ...GONE, ...KEPT, "read its certificate": "done" });
  const granted = await afterStart({
    certificatesIn: "certificates",
    extra: ["--allow-read=DIR/certificates"],
  });
  assert.deepEqual(granted, { ...GONE, ...KEPT, "read its certificate": "done" });
});
