/** Who is signalled, and who never is. */
import assert from "node:assert/strict";
import process from "node:process";
import { groupMembers, identityOf, isAlive, processRef } from "../../src/os/processes/identity.ts";
import { groupAlive, signalGroup, signalProcess } from "../../src/os/processes/signals.ts";
import { until } from "../harness/wait.ts";

/**
 * A shell that leads its own session and group; it says "ready" when its script has come that far.
 */
async function leader(script: string) {
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", script],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
    detached: true,
  }).spawn();
  const reader = child.stdout.getReader();
  let said = "";
  while (!said.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) break;
    said += new TextDecoder().decode(value);
  }
  await reader.cancel();
  return { child, ref: processRef(child.pid)!, said: said.trim() };
}

function stateOf(pid: number): string {
  const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
  return stat.slice(stat.lastIndexOf(")") + 2)[0]!;
}

Deno.test("identity: a living process has one that stays; an ended one has none", async () => {
  const { child, ref } = await leader("echo ready; exec sleep 600");
  assert.equal(identityOf(child.pid), ref.identity);
  assert.ok(isAlive(ref));
  assert.ok(
    !isAlive({ pid: child.pid, identity: "another-boot/1" }),
    "another process under this pid",
  );
  assert.ok(signalProcess(ref, "SIGKILL"));
  await child.status;
  assert.equal(identityOf(child.pid), undefined);
  assert.ok(!isAlive(ref));
  assert.equal(signalProcess(ref, "SIGKILL"), false);
});

Deno.test("identity: pids that mean many processes, or none, belong to nobody", () => {
  for (const pid of [0, 1, -1, -5, 1.5, NaN]) assert.equal(identityOf(pid), undefined);
});

Deno.test("signals: a group is reached after its leader has gone, grandchildren included", async () => {
  const { child, ref, said } = await leader("sleep 600 >/dev/null & echo $!; wait");
  signalProcess(ref, "SIGKILL");
  await child.status;
  assert.ok(!isAlive(ref));
  assert.deepEqual(groupMembers(ref.pid), [Number(said)]);
  assert.ok(groupAlive(ref));
  assert.ok(signalGroup(ref, "SIGKILL"));
  await until(() => !groupAlive(ref), { what: "the group to be gone" });
  assert.equal(identityOf(Number(said)), undefined);
});

Deno.test("signals: what ends a group ends a child of its leader that has left it, with its group, and no grandchild elsewhere", async () => {
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    const inner =
      "setsid sleep 600 >/dev/null & elsewhere=$!; sleep 600 >/dev/null & echo $$ $! $elsewhere; wait";
    const { child, ref, said } = await leader(`setsid sh -c '${inner}' & wait`);
    const [worker, helper, elsewhere] = said.split(" ").map((pid) => processRef(Number(pid))!);
    assert.deepEqual(groupMembers(ref.pid), [ref.pid]);
    await until(() => groupMembers(elsewhere!.pid).length === 1, {
      what: "the grandchild to be elsewhere",
    });
    assert.ok(signalGroup(ref, signal));
    await child.status;
    await until(() => ![worker, helper].some((process) => isAlive(process!)), {
      what: "the worker to be gone",
    });
    assert.ok(isAlive(elsewhere!));
    signalProcess(elsewhere!, "SIGKILL");
  }
});

Deno.test("signals: a process that got the pid later is left alone", async () => {
  const { child, ref } = await leader("echo ready; exec sleep 600");
  const earlier = { pid: ref.pid, identity: "another-boot/1" };
  assert.equal(signalProcess(earlier, "SIGKILL"), false);
  assert.equal(signalGroup(earlier, "SIGKILL"), false);
  assert.ok(isAlive(ref));
  signalGroup(ref, "SIGKILL");
  await child.status;
});

Deno.test("signals: the children of a process that got the leader's pid and leads no group are left alone", async () => {
  const { child, ref, said } = await leader(
    "sh -c 'sleep 600 >/dev/null & echo $$ $!; wait' & wait",
  );
  const [other, helper] = said.split(" ").map((pid) => processRef(Number(pid))!);
  const [boot] = ref.identity.split("/");
  assert.equal(
    signalGroup({ pid: other!.pid, identity: `${boot}/${Number.MAX_SAFE_INTEGER}` }, "SIGSTOP"),
    false,
  );
  // Nobody has signalled it: a stop would be seen at once.
  assert.notEqual(stateOf(helper!.pid), "T");
  signalGroup(ref, "SIGKILL");
  await child.status;
});

Deno.test({
  name:
    "signals: a child outside that belongs to another user does not keep its leader's group from a signal",
  // Only root can start processes of two users and then be a third party to one of them.
  ignore: Deno.uid() !== 0,
  fn: async () => {
    const { child, ref, said } = await leader(
      `setpriv --reuid=65533 --clear-groups setsid sh -c 'echo $$; exec sleep 600 >/dev/null' &
       exec setpriv --reuid=65534 --clear-groups sleep 600`,
    );
    const foreign = processRef(Number(said))!;
    await until(() => /^Uid:\s+65534/m.test(Deno.readTextFileSync(`/proc/${ref.pid}/status`)), {
      what: "the user",
    });
    process.seteuid!(65534);
    try {
      assert.ok(signalGroup(ref, "SIGTERM"));
    } finally {
      process.seteuid!(0);
    }
    await child.status;
    assert.ok(isAlive(foreign));
    signalProcess(foreign, "SIGKILL");
  },
});

Deno.test("signals: a group without a leader that has the number of one from before a reboot is left alone", async () => {
  const { child, ref, said } = await leader("sleep 600 >/dev/null & echo $!; wait");
  signalProcess(ref, "SIGKILL");
  await child.status;
  const [boot] = ref.identity.split("/");
  for (const identity of ["another-boot/1", `${boot}/-1`]) {
    assert.equal(groupAlive({ pid: ref.pid, identity }), false, identity);
    assert.equal(signalGroup({ pid: ref.pid, identity }, "SIGKILL"), false, identity);
  }
  assert.ok(identityOf(Number(said)) !== undefined);
  signalGroup(ref, "SIGKILL");
});

Deno.test("signals: pid 0 and 1 are refused, whatever the identity says", () => {
  for (const pid of [0, 1, -1]) {
    assert.throws(() => signalGroup({ pid, identity: "x" }, "SIGTERM"), /refusing to signal/);
  }
});

Deno.test("signals and identity: work under permissions that allow only a shell", async () => {
  const { child, ref } = await leader("sleep 600 & echo ready; wait");
  const script = `
    import { processRef, groupMembers } from ${
    JSON.stringify(new URL("../../src/os/processes/identity.ts", import.meta.url))
  };
    import { groupAlive, signalGroup } from ${
    JSON.stringify(new URL("../../src/os/processes/signals.ts", import.meta.url))
  };
    import { until } from ${JSON.stringify(new URL("../harness/wait.ts", import.meta.url))};
    const ref = processRef(${ref.pid});
    const before = groupMembers(${ref.pid}).length;
    const sent = signalGroup(ref, "SIGKILL");
    await until(() => !groupAlive(ref), { what: "the group to be gone" });
    console.log(JSON.stringify({ identity: ref.identity, before, sent }));`;
  const file = `${Deno.makeTempDirSync()}/script.ts`;
  Deno.writeTextFileSync(file, script);
  const out = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-check", "--no-prompt", "--allow-run=/bin/sh", file],
    stdin: "null",
    stderr: "piped",
  }).outputSync();
  await child.status;
  assert.equal(new TextDecoder().decode(out.stderr), "");
  assert.deepEqual(JSON.parse(new TextDecoder().decode(out.stdout)), {
    identity: ref.identity,
    before: 2,
    sent: true,
  });
});
