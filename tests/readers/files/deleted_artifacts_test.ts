import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, submit } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";

/** Saves two, removes the first when told to, and ends when told to. */
const PROGRAM = `
echo '{"step": 1, "loss": 1}'
for n in 1 2; do mkdir -p out/checkpoint-$n; echo weights > out/checkpoint-$n/model.safetensors; done
while [ ! -e remove ]; do sleep 0.1; done
rm -r out/checkpoint-1
while [ ! -e end ]; do sleep 0.1; done
`;

Deno.test("artifacts: a checkpoint that the program has removed is marked, with proxy and daemon killed, and one that is saved anew is not", async () => {
  await using daemon = await TestDaemon.start();
  const cwd = Deno.makeTempDirSync();
  try {
    const command = ["/bin/sh", "-c", PROGRAM];
    const worker = { script: command[0], arguments: command.slice(1), cwd, use_grpc: false };
    const run = await submit(daemon, configOf({ name: "saver", command, metadata: { worker } }));
    const deleted = async () => {
      const { artifacts } = await daemon.client.unary(Mosaic.method.listArtifacts, { run });
      return artifacts.map(({ path, step, deletedAt }) =>
        `${path.slice(cwd.length)} ${step} ${deletedAt === undefined ? "there" : "deleted"}`
      );
    };
    const becomes = (wanted: string[]) =>
      until(async () => String(await deleted()) === String(wanted), {
        what: wanted.join(", "),
        timeoutMs: 60_000,
      });
    const path = (n: number) => `/out/checkpoint-${n}/model.safetensors ${n}`;
    await becomes([`${path(1)} there`, `${path(2)} there`]);
    const { proxyPid } = await getRun(daemon, run);
    signalProcess(processRef(Number(proxyPid))!, "SIGKILL");
    Deno.writeTextFileSync(`${cwd}/remove`, "");
    await daemon.kill9();
    await daemon.restart();
    await becomes([`${path(1)} deleted`, `${path(2)} there`]);
    Deno.mkdirSync(`${cwd}/out/checkpoint-1`);
    Deno.writeTextFileSync(`${cwd}/out/checkpoint-1/model.safetensors`, "others");
    await becomes([`${path(1)} there`, `${path(2)} there`]);
    Deno.writeTextFileSync(`${cwd}/end`, "");
    Deno.removeSync(`${cwd}/out/checkpoint-2`, { recursive: true });
    await until(async () => (await getRun(daemon, run)).outcome !== "", { what: "the end" });
    assert.deepEqual(await deleted(), [`${path(1)} there`, `${path(2)} deleted`]);
  } finally {
    Deno.removeSync(cwd, { recursive: true });
  }
});
