/** `mosaic doctor --permissions`, started under various flags. */
import assert from "node:assert/strict";
import type { PartAudit } from "../../src/doctor/permissions.ts";
import { audit, everything, mosaicProcess, permissionsOfSet } from "../../src/permissions/audit.ts";
import { flagsOf, permissions } from "../../src/permissions/permissions.ts";
import { planFor } from "../../src/permissions/plan.ts";
import { realWorld } from "../../src/permissions/world.ts";
import { configOf } from "../harness/configs.ts";
import { MAIN, TestDaemon } from "../harness/daemon.ts";
import { submit, untilState } from "../harness/runs.ts";

Deno.test("audit: what is needed and there, needed and not there, there and not needed, and given up", () => {
  const needed = permissions({ read: ["/s", "/c.pem"], net: ["127.0.0.1:1"], run: ["/bin/sh"] });
  const granted = permissions({ read: ["/s", "/c.pem", "/etc"], net: ["127.0.0.1"], write: "all" });
  assert.deepEqual(audit(needed, { has: granted, listed: granted }, permissions({ read: ["/c.pem"] })), [
    { standing: "granted", kind: "read", entries: ["/s"] },
    { standing: "granted", kind: "net", entries: ["127.0.0.1:1"] },
    { standing: "given up", kind: "read", entries: ["/c.pem"] },
    { standing: "missing", kind: "run", entries: ["/bin/sh"] },
    { standing: "surplus", kind: "read", entries: ["/etc"] },
    { standing: "surplus", kind: "write", entries: "all" },
    { standing: "surplus", kind: "net", entries: ["127.0.0.1"] },
  ]);
  const all = audit(needed, { has: everything(), listed: everything() });
  assert.deepEqual(all.filter(({ standing }) => standing === "missing"), []);
});

Deno.test("audit: command lines of every form are read", () => {
  assert.deepEqual(mosaicProcess(["deno", "run", "--no-prompt", "--allow-read=/a.ts", "/x/main.ts", "list", "y.ts"]), {
    flags: ["--no-prompt", "--allow-read=/a.ts"],
    words: ["list", "y.ts"],
  });
  assert.deepEqual(mosaicProcess(["/usr/bin/mosaic", "list"]), { flags: undefined, words: ["list"] });
  const set = permissionsOfSet({ read: ["/a"], net: true, env: { allow: ["HOME"], ignore: true }, write: false });
  assert.deepEqual(set, permissions({ read: ["/a"], net: "all", env: ["HOME"] }));
});

interface Shown {
  code: number;
  parts: PartAudit[];
  err: string;
}

async function doctor(flags: readonly string[], stateDir: string, ...more: string[]): Promise<Shown & { out: string }> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-check", "--no-prompt", ...flags, MAIN, "doctor", "--permissions", "--state-dir", stateDir]
      .concat(more),
    stdin: "null",
  }).output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  const shown = more.includes("json") ? JSON.parse(out!).parts : [];
  const parts = shown.map((part: { permissions: unknown }) => ({ ...part, lines: part.permissions }));
  return { code, out: out!, err: err!, parts };
}

/** `read=/x` … of one part. */
function standing({ parts }: Shown, part: string, wanted: string): string[] {
  const { lines } = parts.find((one) => one.part === part)!;
  return lines.filter((line) => line.standing === wanted).flatMap(({ kind, entries }) =>
    entries === "all" ? [kind] : entries.map((entry) => `${kind}=${entry}`)
  );
}

Deno.test("doctor --permissions: under its own plan nothing is missing and nothing is left over", async () => {
  const stateDir = "/var/lib/mosaic";
  const flags = flagsOf(await planFor(["doctor", "--permissions", "--state-dir", stateDir], realWorld()));
  const shown = await doctor(flags, stateDir, "-o", "json");
  assert.equal(shown.code, 0, shown.err);
  assert.deepEqual(standing(shown, "doctor", "missing"), []);
  assert.deepEqual(standing(shown, "doctor", "surplus"), []);
  assert.deepEqual(shown.parts.map(({ source }) => source), [
    "this process",
    ...["deno run -P=daemon", "deno run -P=proxy", "deno run -P=client"],
  ]);
});

Deno.test("doctor --permissions: what is missing is named with its flag, and is exit 1; -A is more than needed", async () => {
  const few = await doctor(["--allow-read", "--allow-env"], "/var/lib/mosaic");
  assert.equal(few.code, 1);
  assert.match(few.err, /doctor: --allow-run=\/bin\/sh is missing/);
  // The sets of deno.json are for one state directory.
  const elsewhere = await doctor(["-A"], "/srv/other", "-o", "json");
  assert.equal(elsewhere.code, 1);
  assert.deepEqual(standing(elsewhere, "daemon", "missing"), [
    ...["read=/srv/other", "write=/srv/other", "net=unix:/srv/other/trainer/daemon.sock"],
  ]);
  assert.ok(standing(elsewhere, "doctor", "surplus").includes("net"));
  const table = await doctor(["-A"], "/var/lib/mosaic");
  assert.equal(table.code, 0, table.err);
  assert.match(table.out, /^daemon +deno run -P=daemon +granted +write +\/var\/lib\/mosaic$/m);
});

Deno.test("doctor --permissions: of what runs, the command lines are looked at", async () => {
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
  try {
    const args = ["--listen", "127.0.0.1:0", "--http", "off", "--state-dir", stateDir];
    const flags = flagsOf(await planFor(["daemon", ...args], realWorld()));
    const program = [Deno.execPath(), "run", "--no-check", "--no-prompt", ...flags, "--allow-sys", MAIN];
    program.splice(program.findIndex((word) => word.startsWith("--allow-sys=")), 1);
    await using daemon = await TestDaemon.start({ stateDir, args: args.slice(0, 4), program });
    const id = await submit(daemon, configOf({ command: ["/bin/sh", "-c", "while :; do echo '{}'; sleep 0.2; done"] }));
    await untilState(daemon, id, "READY", "EXECUTING");
    const shown = await doctor(["-A"], stateDir, "-o", "json");
    assert.equal(shown.parts.find(({ part }) => part === "daemon")!.pid, daemon.pid);
    assert.equal(shown.parts.find(({ part }) => part === "proxy")!.source, "its command line");
    for (const part of ["daemon", "proxy"]) assert.deepEqual(standing(shown, part, "missing"), [], part);
    assert.deepEqual(standing(shown, "daemon", "surplus"), ["sys"]);
    assert.deepEqual(standing(shown, "proxy", "surplus"), []);
    // One that is granted as part of its whole kind stays.
    assert.ok(standing(shown, "daemon", "granted").includes("sys=hostname"));
    const givenUp = standing(shown, "daemon", "given up");
    assert.ok(givenUp.includes("net=127.0.0.1:0") && givenUp.includes("env=MOSAIC_*"), givenUp.join(" "));
  } finally {
    await Deno.remove(stateDir, { recursive: true });
  }
});
