/** The client of the Python module against a real daemon, over its Unix socket and over HTTP. */
import assert from "node:assert/strict";
import { installPythonHelper } from "../../src/os/python_helper.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { pythonTest } from "./python.ts";

const PROGRAM = new URL("client_program.py", import.meta.url).pathname;

pythonTest(
  "the Python client: submits, waits, filters, reads every point, and says what is wrong",
  ["pyarrow"],
  async (python) => {
    await using daemon = await TestDaemon.start();
    const directory = Deno.makeTempDirSync();
    try {
      installPythonHelper(`${directory}/helper`);
      const { success, stdout, stderr } = await new Deno.Command(python, {
        args: [PROGRAM],
        cwd: directory,
        env: {
          PYTHONPATH: `${directory}/helper`,
          PYTHONDONTWRITEBYTECODE: "1",
          MOSAIC_STATE_DIR: daemon.stateDir,
          HTTP_TARGET: daemon.http,
        },
        signal: AbortSignal.timeout(120_000),
      }).output();
      const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
      assert.ok(success, text(stderr));
      const got = JSON.parse(text(stdout));
      assert.deepEqual(got.outcomes, {
        "lr-1": ["TERMINATED", "succeeded", ""],
        "lr-2": ["TERMINATED", "succeeded", ""],
        "lr-3": ["FAULTED", "failed", "exit_code_1"],
      });
      assert.deepEqual(got.names, ["lr-2", "lr-3"]);
      const trials = [[4, 0], [4, 1], [5, 0], [5, 1]].map((values) => [...values, "succeeded"]);
      assert.deepEqual(got.sweep.slice(0, 3), ["finished", trials, 5]);
      assert.equal(got.sweep[3][0], "already_exists");
      assert.equal(got.pages, 2);
      assert.deepEqual(got.best, ["lr-2", { lr: 2 }, "lr-2"]);
      assert.deepEqual(got.points, [1, 2, 3, 4, 5].map((step) => [step, 2 / step]));
      assert.deepEqual(got.none, []);
      assert.deepEqual(
        got.series.map((
          one: { name: string; points: number; min: number },
        ) => [one.name, one.points, one.min]),
        [
          ["loss", 5, 0.4],
        ],
      );
      assert.ok(got.columns.includes("value") && got.columns.includes("step"), String(got.columns));
      assert.equal(got.table, 2);
      assert.deepEqual(got.frames, [[got.series, []], 5]);
      assert.equal(got.events.length, 1);
      assert.deepEqual(got.html, [1, true]);
      assert.equal(got.zeros, "&lt;i&gt;: 0 to 2, last 2</figcaption></figure>");
      assert.deepEqual(got.unknown[0], "not_found");
      assert.match(got.filter[1], /where, at character 4/);
      assert.match(got.config[1], /entry_point is missing/);
      assert.match(got.both[1], /either a command or a config/);
      assert.match(
        got.away[1],
        /no daemon answers at 127\.0\.0\.1:1: .* Start one with "mosaic up"/,
      );
      assert.match(got.address[1], /'nowhere' is not an address; use HOST:PORT/);
      assert.match(got.token[1], /a token is not sent unencrypted to 10\.0\.0\.1:8055/);
      assert.equal(got.http, 3);
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  },
);
