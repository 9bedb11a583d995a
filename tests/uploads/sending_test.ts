/** Both ends of an upload, without a wire between them. */
import assert from "node:assert/strict";
import { RunFiles } from "../../src/base/layout.ts";
import { createLogger } from "../../src/base/log.ts";
import { FileUploads } from "../../src/uploads/uploads.ts";
import { Allowance, Uploads } from "../../src/uploads/take_uploads.ts";

type Taken = Parameters<Uploads["take"]>[0];

interface Ends {
  there: RunFiles;
  here: RunFiles;
  sender: FileUploads;
  /** All that is there, piece by piece; `meet` may change what is sent, or the file. */
  drain: (final: boolean, meet?: (chunk: Taken) => void) => Promise<void>;
}

async function inBoth(maxBytes: number, test: (ends: Ends) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  const [there, here] = ["there", "here"].map((name) =>
    new RunFiles(`${directory}/${name}`, "w")
  ) as [
    RunFiles,
    RunFiles,
  ];
  for (const { logs, control } of [there, here]) {
    for (const path of [logs, control]) Deno.mkdirSync(path, { recursive: true });
  }
  const sender = new FileUploads(there, 1, createLogger({ sinks: [] }));
  using receiver = new Uploads({ files: here, attempt: 1, allowance: new Allowance(maxBytes) });
  sender.begin(0);
  const drain = async (final: boolean, meet: (chunk: Taken) => void = () => {}) => {
    for (
      let chunk = await sender.next(final);
      chunk !== undefined && chunk !== "closed";
      chunk = await sender.next(final)
    ) {
      const { size, changedAt, offset, ...rest } = chunk.message as Record<string, never>;
      const taken = {
        ...(rest as object),
        size: Number(size),
        changedAt: Number(changedAt),
        offset: Number(offset),
      } as Taken;
      meet(taken);
      const { offset: at, done = false, refused = "", hold = false } = await receiver.take(taken);
      sender.answered({ offset: BigInt(at), done, refused, hold });
    }
  };
  await test({ there, here, sender, drain }).finally(() =>
    Deno.remove(directory, { recursive: true })
  );
}

Deno.test("uploads: a log that was emptied on its host, and a file that changes while it is read", () =>
  inBoth(1 << 30, async ({ there, here, sender, drain }) => {
    Deno.writeTextFileSync(there.stdout(1), "line\n".repeat(100_000));
    await drain(false);
    assert.equal(Deno.statSync(here.stdout(1)).size, 500_000);
    Deno.writeTextFileSync(there.stdout(1), "new\n");
    const model = `${there.directory}/model.pt`;
    Deno.writeFileSync(model, new Uint8Array(600_000).fill(1));
    let changes = 0;
    await drain(true, ({ path, offset, data }) => {
      // Its writer was not done with it.
      if (path === "model.pt" && offset === 0 && data.length > 0 && changes++ === 0) {
        Deno.writeFileSync(model, new Uint8Array(700_000).fill(2));
      }
    });
    assert.equal(Deno.readTextFileSync(here.stdout(1)), "new\n");
    assert.equal(Deno.readTextFileSync(here.stderr(1)), "");
    assert.deepEqual(
      Deno.readFileSync(`${here.directory}/model.pt`),
      new Uint8Array(700_000).fill(2),
    );
    // Another connection: the daemon has it all, and nothing is carried again.
    sender.begin(0);
    const again: string[] = [];
    await drain(true, ({ path, data }) => data.length > 0 && again.push(path));
    assert.deepEqual(again, []);
    assert.ok(!sender.hasLeft);
  }));

Deno.test("uploads: what is written to for ever, is too large or too deep does not keep an upload from its end, and is left", () =>
  inBoth(1000, async ({ there, here, sender, drain }) => {
    const [busy, large] = ["busy", "large"].map((name) => `${there.directory}/${name}`) as [
      string,
      string,
    ];
    Deno.writeTextFileSync(`${there.directory}/small`, "x");
    Deno.writeTextFileSync(busy, "0\n");
    // Of a process that has outlived its worker.
    await drain(
      true,
      ({ path }) => path === "busy" && Deno.writeTextFileSync(busy, "more\n", { append: true }),
    );
    assert.ok(sender.hasLeft);
    Deno.removeSync(busy);
    assert.ok(!sender.hasLeft);
    Deno.writeTextFileSync(large, "x".repeat(2000));
    sender.begin(0);
    await drain(true);
    assert.ok(sender.hasLeft);
    Deno.writeTextFileSync(large, "smaller now");
    sender.begin(0);
    await drain(true);
    assert.ok(!sender.hasLeft);
    assert.equal(Deno.readTextFileSync(`${here.directory}/large`), "smaller now");
    Deno.mkdirSync(`${there.directory}${"/d".repeat(20)}`, { recursive: true });
    sender.begin(0);
    await drain(true);
    assert.ok(sender.hasLeft);
  }));
