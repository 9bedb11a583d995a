/** Every reader says how many records a damaged block costs. */
import { strict as assert } from "node:assert";
import { DatabaseSync } from "node:sqlite";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { runVerb } from "./verb.ts";

/**
 * 3000 steps at once, so that their proxy makes blocks of them; the reward is the number of the
 * step.
 */
const WORKER = `awk 'BEGIN { for (i = 0; i < 3000; i++)
  printf "{\\"event_type\\":\\"step\\",\\"episode\\":0,\\"step_index\\":%d,\\"reward\\":%d}\\n", i, i + 1 }'`;

Deno.test("a damaged block: steps, export, plot and compare say how many steps are missing, and which", async () => {
  await using daemon = await TestDaemon.start();
  const dir = Deno.makeTempDirSync();
  const mosaic = async (args: string[], input = "") => {
    const { code, out, err } = await runVerb(daemon, args, input);
    assert.equal(code, 0, `mosaic ${args.join(" ")}: ${err}`);
    return { out, err };
  };
  try {
    const config = configOf({ name: "holed", command: ["/bin/sh", "-c", WORKER] });
    const run = (await mosaic(["submit", "-"], config)).out.trim();
    await mosaic(["wait", run]);
    await daemon.stop();
    const db = new DatabaseSync(daemon.layout.telemetryDb);
    const blocks = db.prepare("SELECT first_seq, n FROM step_blocks ORDER BY 1").all() as {
      first_seq: number;
      n: number;
    }[];
    const { first_seq: first, n } = blocks[0]!;
    const last = first + n - 1;
    db.exec(`UPDATE step_blocks SET crc = crc + 1 WHERE first_seq = ${first}`);
    db.close();
    await daemon.restart();

    const gap = new RegExp(
      ` ${first} to ${last} \\(${n}\\) are missing or damaged: run mosaic doctor`,
    );
    const told = async (args: string[]) => {
      const { out, err } = await mosaic(args);
      assert.match(err, gap, args.join(" "));
      return out;
    };
    await told(["steps", run, "--since", "0", "-o", "jsonl"]);
    const moved = await told(["export", run, "--format", "mosaic", "--out", `${dir}/run.mosaic`]);
    assert.match(moved, /run\.mosaic/);
    for (const format of ["jsonl", "csv", "parquet"]) {
      await told(["export", run, "--format", format, "-k", "steps", "--out", dir]);
    }
    const lines = Deno.readTextFileSync(`${dir}/steps.jsonl`).trimEnd().split("\n");
    assert.equal(lines.length, 3000 - n);
    const close = ["--from", String(first), "--to", String(last), "--width", "160"];
    assert.doesNotMatch(await told(["plot", run, "reward", ...close]), /NaN/);
    const other = (await mosaic(
      ["submit", "-"],
      configOf({ name: "other", command: ["/bin/sh", "-c", "exit 0"] }),
    )).out;
    await mosaic(["wait", other.trim()]);
    await told(["compare", run, other.trim(), "--metric", "reward"]);
    // The whole is drawn from rollups, which the damage does not touch.
    assert.equal((await mosaic(["plot", run, "reward", "--width", "40"])).err, "");

    await daemon.stop();
    const again = new DatabaseSync(daemon.layout.telemetryDb);
    const end = blocks.at(-1)!;
    again.exec(`UPDATE step_blocks SET crc = crc + 1 WHERE first_seq = ${end.first_seq}`);
    again.close();
    await daemon.restart();
    const { err } = await mosaic([
      "steps",
      run,
      "--follow",
      "--since",
      String(end.first_seq - 1),
      "-o",
      "jsonl",
    ]);
    assert.match(
      err,
      new RegExp(`steps ${end.first_seq} to 3000 \\(${end.n}\\) are missing or damaged`),
    );
    // The last points are in no rollup.
    const report = (await mosaic(["report", run, "--out", "-"])).out;
    assert.match(report, /[0-9]+ points are missing or damaged \(mosaic doctor lists them\)/);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});
