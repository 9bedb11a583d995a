/** What a sandboxed worker can and cannot do, with the real bubblewrap. */
import assert from "node:assert/strict";
import { sandboxed } from "../../src/os/rights/bubblewrap.ts";
import { hasBubblewrap } from "../harness/bubblewrap.ts";

const directory = Deno.makeTempDirSync();
const stateDir = `${directory}/nested/deeper/state`;
const runDir = `${stateDir}/trainer/runs/R1`;
const otherRun = `${stateDir}/trainer/runs/R2`;
const writable = `${directory}/data`;
for (
  const path of [
    `${runDir}/logs`,
    `${runDir}/media`,
    `${runDir}/.mosaic`,
    otherRun,
    writable,
    `${stateDir}/trainer/configs`,
  ]
) {
  Deno.mkdirSync(path, { recursive: true });
}
const socketDir = `${directory}/mosaic-0123456789abcdef`;
Deno.mkdirSync(socketDir, { mode: 0o700 });
Deno.writeTextFileSync(`${socketDir}/daemon.sock`, "stands for a socket");
const runtimeDir = `${directory}/runtime`;
Deno.mkdirSync(runtimeDir);
Deno.writeTextFileSync(`${runtimeDir}/bus`, "stands for D-Bus");
/** Something that the host has in /run. */
const runName = [...Deno.readDirSync("/run")].map(({ name }) => `/${name}`)[0] ?? "/nothing";
Deno.writeTextFileSync(`${otherRun}/secret`, "of another run");
Deno.writeTextFileSync(`${stateDir}/trainer/configs/worker-R1.json`, "{}");
Deno.writeTextFileSync(`${runDir}/.mosaic/proxy-1.json`, "a token");

const available = hasBubblewrap();
if (!available) console.log("SKIPPED: bubblewrap is not usable here");

async function inside(
  script: string,
  options: { network?: boolean } = {},
): Promise<{ code: number; out: string }> {
  const [program, ...args] = sandboxed(["/bin/sh", "-c", script], {
    network: options.network ?? false,
    writable: [writable, directory],
  }, {
    stateDir,
    runDir,
    readOnlyDirs: [`${runDir}/logs`, `${runDir}/media`],
    controlDir: `${runDir}/.mosaic`,
    readable: [`${stateDir}/trainer/configs/worker-R1.json`],
    socketDir,
    runtimeDir,
    cwd: runDir,
    devices: [],
  });
  const ended = await new Deno.Command(program!, { args, stdin: "null" }).output();
  return {
    code: ended.code,
    out: new TextDecoder().decode(ended.stdout) + new TextDecoder().decode(ended.stderr),
  };
}

const cases: { name: string; script: string; ok: boolean }[] = [
  { name: "write to its run directory", script: `echo x >${runDir}/analytics.json`, ok: true },
  { name: "write to what the config names", script: `echo x >${writable}/x`, ok: true },
  { name: "write to its own /tmp", script: "echo x >/tmp/x", ok: true },
  { name: "read its config", script: `cat ${stateDir}/trainer/configs/worker-R1.json`, ok: true },
  { name: "run the host's programs", script: "ls / >/dev/null", ok: true },
  { name: "write to the host", script: "echo x >/etc/mosaic-test", ok: false },
  { name: "read another run's files", script: `cat ${otherRun}/secret`, ok: false },
  { name: "read mosaic's own notes", script: `cat ${runDir}/.mosaic/proxy-1.json`, ok: false },
  {
    name: "change its journal by name",
    script: `echo x >${runDir}/logs/worker.stdout.log`,
    ok: false,
  },
  {
    name: "put another in the place of the state directory",
    script: `mv ${stateDir} ${directory}/away`,
    ok: false,
  },
  {
    name: "put others in the place of directories above it, which the config names as writable",
    script:
      `mv ${directory}/nested/deeper ${directory}/away || mv ${directory}/nested ${directory}/away`,
    ok: false,
  },
  { name: "make files in the state directory", script: `echo x >${stateDir}/x`, ok: false },
  { name: "reach the daemon's socket", script: `test -e ${socketDir}/daemon.sock`, ok: false },
  {
    name: "reach sockets of the host's services in /run",
    script: `test -e /run${runName}`,
    ok: false,
  },
  { name: "reach sockets of the user's programs", script: `test -e ${runtimeDir}/bus`, ok: false },
  { name: "see the host's processes", script: `kill -0 ${Deno.pid}`, ok: false },
  { name: "mount something away", script: "mount -o remount,rw / || umount /tmp", ok: false },
];

Deno.test({ name: "sandbox: what a worker may and may not do", ignore: !available }, async (t) => {
  for (const { name, script, ok } of cases) {
    await t.step(`${ok ? "may" : "may not"} ${name}`, async () => {
      const result = await inside(script);
      assert.equal(result.code === 0, ok, result.out);
    });
  }
  await t.step(
    "has only a loopback interface without the network, and the host's with it",
    async () => {
      const count = "grep -c : /proc/net/dev";
      assert.equal((await inside(count)).out.trim(), "1");
      const host = new Deno.Command("/bin/sh", { args: ["-c", count] }).outputSync();
      assert.equal(
        (await inside(count, { network: true })).out.trim(),
        new TextDecoder().decode(host.stdout).trim(),
      );
    },
  );
  assert.ok(!([...Deno.readDirSync("/etc")].some((e) => e.name === "mosaic-test")));
  assert.deepEqual([...Deno.readDirSync(stateDir)].map((e) => e.name), ["trainer"]);
});

Deno.test("sandbox: a writable path must be absolute, and the error names it", () => {
  assert.throws(
    () =>
      sandboxed(["true"], { network: false, writable: ["data"] }, {
        stateDir,
        runDir,
        readOnlyDirs: [`${runDir}/logs`, `${runDir}/media`],
        controlDir: `${runDir}/.mosaic`,
        readable: [],
        cwd: "/",
        devices: [],
      }),
    /writable: "data" is not an absolute path/,
  );
});

globalThis.addEventListener("unload", () => Deno.removeSync(directory, { recursive: true }));
