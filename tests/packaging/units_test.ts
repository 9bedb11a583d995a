/** The systemd units, as systemd itself reads them. */
import assert from "node:assert/strict";

const UNITS = new URL("../../packaging/systemd/", import.meta.url).pathname;

const available = (() => {
  try {
    return new Deno.Command("systemd-analyze", { args: ["--version"] }).outputSync().success;
  } catch {
    return false;
  }
})();
if (!available) console.log("SKIPPED: there is no systemd-analyze, so no unit is verified");

/** What docs/how-to/systemd.md says that units take away. */
const TAKEN = [
  "UMask=0077",
  "NoNewPrivileges=yes",
  "LockPersonality=yes",
  "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
  "RestrictRealtime=yes",
  "RestrictSUIDSGID=yes",
  "SystemCallArchitectures=native",
  "SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap",
];
/** What only root can take away. */
const TAKEN_BY_ROOT = [
  "ProtectSystem=full",
  "ProtectHome=yes",
  "ProtectClock=yes",
  "ProtectHostname=yes",
  "ProtectKernelLogs=yes",
  "ProtectKernelModules=yes",
  "ProtectKernelTunables=yes",
  "CapabilityBoundingSet=",
];

Deno.test("units: both take away what neither the daemon nor training needs", () => {
  for (const { name } of Deno.readDirSync(UNITS)) {
    const lines = Deno.readTextFileSync(UNITS + name).split("\n");
    const wanted = [...TAKEN, ...(name === "mosaic.service" ? TAKEN_BY_ROOT : [])];
    assert.deepEqual(wanted.filter((line) => !lines.includes(line)), [], name);
  }
});

for (const { name } of Deno.readDirSync(UNITS)) {
  Deno.test(
    { name: `units: ${name} has nothing that systemd does not know`, ignore: !available },
    () => {
      const directory = Deno.makeTempDirSync();
      try {
        // mosaic need not be installed where this runs.
        const unit = Deno.readTextFileSync(UNITS + name).replace(
          /^ExecStart=\S+/m,
          "ExecStart=/bin/true",
        );
        assert.match(unit, /^ExecStart=\/bin\/true daemon /m);
        for (const line of ["Type=notify", "KillMode=process", "WatchdogSec=30"]) {
          assert.ok(unit.includes(line), line);
        }
        Deno.writeTextFileSync(`${directory}/${name}`, unit);
        const { stderr } = new Deno.Command("systemd-analyze", {
          args: ["verify", `${directory}/${name}`],
        }).outputSync();
        const complaints = new TextDecoder().decode(stderr).split("\n").filter((line) =>
          line.includes(directory)
        );
        // Known from systemd 254 on; others leave it out.
        assert.deepEqual(
          complaints.filter((line) => !line.includes("DelegateSubgroup")),
          [],
        );
      } finally {
        Deno.removeSync(directory, { recursive: true });
      }
    },
  );
}
