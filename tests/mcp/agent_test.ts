/**
 * An agent's client, by the protocol's own library: over standard input and output, and over HTTP.
 */
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "npm:@modelcontextprotocol/client@2.4.0";
import { StdioClientTransport } from "npm:@modelcontextprotocol/client@2.4.0/stdio";
import { configOf } from "../harness/configs.ts";
import { PROGRAM, TestDaemon } from "../harness/daemon.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { readTokens } from "../../src/wire/tokens.ts";

const RUNS = 40;
const READING = [
  "compare_runs",
  "find_names",
  "list_runs",
  "read_log",
  "read_metric",
  "show_run",
  "show_sweep",
];
const CHANGING = ["annotate_run", "cancel_run", "cancel_sweep", "start_sweep", "submit_run"];
const CALL = {
  "content-type": "application/json",
  "accept": "application/json, text/event-stream",
};

/** A curve that rises to `best` and falls to half of it. */
const learner = (lr: number, best: number) => `
lr=${lr}
for i in 1 2 3 4 5 6 7 8 9 10; do
  printf '{"event":"metrics","payload":{"score":%s,"step":%s}}\\n' $(( i < 8 ? ${best} * i / 7 : ${best} / 2 )) $((i * 100))
done`;
const FAILING = `echo 'loading shard 3'; echo 'Traceback (most recent call last):' >&2
echo '  File "train.py", line 7, in <module>' >&2; echo "ValueError: shard 3 has 0 rows" >&2; exit 1`;

async function connected(
  transport: StdioClientTransport | StreamableHTTPClientTransport,
): Promise<Client> {
  const client = new Client({ name: "scripted agent", version: "1" });
  await client.connect(transport);
  return client;
}

async function textOf(
  client: Client,
  name: string,
  input: Record<string, unknown>,
): Promise<string> {
  const { content, isError } = await client.callTool({ name, arguments: input });
  const [part] = content as { type: string; text: string }[];
  return `${isError === true ? "ERROR " : ""}${part!.text}`;
}

const over = {
  stdio: (daemon: TestDaemon, args: string[] = []) =>
    connected(
      new StdioClientTransport({
        command: PROGRAM[0]!,
        args: [...PROGRAM.slice(1), "mcp", "--state-dir", daemon.stateDir, ...args],
        env: { ...Deno.env.toObject() },
      }),
    ),
  http: (daemon: TestDaemon, query = "") =>
    connected(new StreamableHTTPClientTransport(new URL(`http://${daemon.http}/mcp${query}`))),
};

Deno.test("an agent finds the best of many runs and why one failed, and changes only what it may", async (t) => {
  await using daemon = await TestDaemon.start({ args: ["--max-runs", "4"] });
  const ids: string[] = [];
  for (let i = 0; i < RUNS; i++) {
    const best = i === 7 ? 900 : 100 + i * 10;
    const command = ["/bin/sh", "-c", learner(i, best), "train", "--lr", String(i)];
    ids.push(await submit(daemon, configOf({ name: `seed-${i}`, command })));
  }
  const failing = await submit(
    daemon,
    configOf({ name: "broken", command: ["/bin/sh", "-c", FAILING] }),
  );
  for (const id of ids) await untilState(daemon, id, "TERMINATED");
  await untilState(daemon, failing, "FAULTED");

  for (const [way, open] of [["stdio", over.stdio], ["http", over.http]] as const) {
    await t.step(`${way}: it reads`, async () => {
      const client = await open(daemon);
      try {
        const { tools } = await client.listTools();
        assert.deepEqual(tools.map(({ name }) => name).sort(), READING);
        assert.ok(tools.every(({ annotations }) => annotations?.readOnlyHint === true));

        assert.match(
          await textOf(client, "find_names", { contains: "SCORE" }),
          /metrics \(metric\.NAME\):\n {2}score$/,
        );
        const best = await textOf(client, "list_runs", {
          sort: "-metric.score:max",
          columns: ["metric.score:max"],
          limit: 2,
        });
        assert.match(
          best,
          new RegExp(`^${ids[7]} \\| seed-7 \\| succeeded .*metric.score:max=900\n`),
        );
        assert.match(best, /39 more runs match/);
        const curve = await textOf(client, "read_metric", {
          runs: [ids[7]],
          metric: "score",
          points: 5,
        });
        assert.ok(curve.split("\n").length <= 2 + 5, curve);
        assert.match(
          curve,
          /score .*peak of 900 at 700.*; last 450, min 128 at 100, max 900 at 700, 10 points/s,
        );
        assert.match(await textOf(client, "show_run", { run: ids[7] }), /score: last 450/);
        assert.match(
          await textOf(client, "compare_runs", { runs: [ids[7], ids[0]] }),
          /score \(last; min; max\) \| 450; 128; 900/,
        );

        const [failed] = (await textOf(client, "list_runs", { states: ["FAULTED"] })).split(" | ");
        assert.equal(failed, failing);
        assert.match(
          await textOf(client, "show_run", { run: failing }),
          /end of standard error:\n.*ValueError: shard 3/s,
        );
        assert.match(
          await textOf(client, "read_log", { run: failing }),
          /name an error:\nTraceback.*\n.*\nValueError/,
        );
        assert.match(
          await textOf(client, "read_log", { run: failing, stream: "stdout", what: "last" }),
          /^loading shard 3$/,
        );

        assert.match(await textOf(client, "show_run", { run: "nosuch" }), /^ERROR .*nosuch/);
        assert.match(
          await textOf(client, "read_metric", { runs: [ids[0]], metric: "scores" }),
          /^ERROR .*score/,
        );
        assert.match(await textOf(client, "list_runs", { where: "lr <" }), /^ERROR /);
      } finally {
        await client.close();
      }
    });
  }

  for (
    const [way, open] of [
      ["stdio", () => over.stdio(daemon, ["--allow-changes"])],
      ["http", () => over.http(daemon, "?changes")],
    ] as const
  ) {
    await t.step(`${way}: where it was allowed, it submits and cancels`, async () => {
      const client = await open();
      try {
        assert.deepEqual(
          (await client.listTools()).tools.map(({ name }) => name).sort(),
          [...READING, ...CHANGING].sort(),
        );
        const line = await textOf(client, "submit_run", {
          command: ["/bin/sleep", "600"],
          cwd: "/",
          name: `by ${way}`,
        });
        const [id] = line.split(" | ") as [string];
        await untilState(daemon, id, "READY", "EXECUTING");
        await textOf(client, "annotate_run", { run: id, add_tags: ["mine"], notes: "a try" });
        await textOf(client, "cancel_run", { run: id });
        const { tags, notes } = await untilState(daemon, id, "CANCELLED");
        assert.deepEqual([tags, notes], [["mine"], "a try"]);
        const started = await textOf(client, "start_sweep", {
          ...{
            command: ["/bin/sh", "-c", 'echo "step=1 score=$(($0 * 10 + ${1#--seed=}))"', "{k}"],
            cwd: "/",
            name: way,
          },
          ...{ grid: { k: [1, 3, 2] }, seeds: [4, 5], metric: "score:max", tags: ["agent"] },
        });
        assert.match(started, new RegExp(`\\| ${way} \\| running \\| .* of 6 trials made`));
        const ended = await until(async () => {
          const text = await textOf(client, "show_sweep", { sweep: way });
          return / finished /.test(text) ? text : undefined;
        }, { what: "the sweep to end" });
        assert.match(
          ended,
          /6 of 6 trials made: 6 terminated\nparameters: .*\ncompared by score, max\nbest: trial/,
        );
        assert.match(ended, /best: trial \d+, run \w+: 35 with .*k=3.*seed=5/);
        const trials = await textOf(client, "list_runs", {
          where: `tags="sweep:${way}" and tags=agent`,
        });
        assert.equal(trials.match(/ \| succeeded/g)?.length, 6, trials);
        assert.match(await textOf(client, "cancel_sweep", { sweep: "nosuch" }), /^ERROR .*nosuch/);
      } finally {
        await client.close();
      }
    });
  }

  await t.step(
    "a request that a form or a webhook can carry is offered nothing that changes something",
    async () => {
      const call = {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "cancel_run", arguments: { run: "x" } },
      };
      const answer = await fetch(`http://${daemon.http}/mcp?changes`, {
        method: "POST",
        headers: CALL,
        body: JSON.stringify(call),
      });
      assert.match(await answer.text(), /cancel_run not found/);
      const foreign = await fetch(`http://${daemon.http}/mcp?changes`, {
        method: "POST",
        headers: { ...CALL, origin: "http://evil.example", "mcp-protocol-version": "2025-06-18" },
        body: JSON.stringify(call),
      });
      assert.equal(foreign.status, 403);
      await foreign.body?.cancel();
    },
  );
});

Deno.test("an agent's session over standard input outlives its daemon, and says where there is none", async () => {
  await using daemon = await TestDaemon.start();
  const run = await submit(daemon, configOf({ name: "before", command: ["/bin/true"] }));
  const client = await over.stdio(daemon);
  try {
    await untilState(daemon, run, "TERMINATED");
    assert.match(await textOf(client, "list_runs", {}), /before/);
    await daemon.kill9();
    assert.match(await textOf(client, "list_runs", {}), /^ERROR no daemon answers/);
    await daemon.restart();
    assert.match(await textOf(client, "list_runs", {}), /before/);
  } finally {
    await client.close();
  }
});

Deno.test("an agent over HTTP has the role of its token", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  const run = await submit(daemon, configOf({ command: ["/bin/sleep", "600"] }));
  const { read } = readTokens(daemon.layout.tokensFile)!;
  const client = await connected(
    new StreamableHTTPClientTransport(new URL(`http://${daemon.http}/mcp?changes`), {
      requestInit: { headers: { authorization: `Bearer ${read}` } },
    }),
  );
  try {
    assert.match(await textOf(client, "list_runs", {}), new RegExp(`^${run}`));
    assert.match(await textOf(client, "cancel_run", { run }), /^ERROR .*role|^ERROR .*token/);
    assert.equal((await getRun(daemon, run)).cancelRequested, false);
  } finally {
    await client.close();
  }
  const post = async (method: string, params: unknown, headers: Record<string, string>) => {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    const answered = await fetch(`http://${daemon.http}/mcp`, { method: "POST", headers, body });
    return [answered.status, await answered.text()] as const;
  };
  // Nothing of the protocol is there for somebody without a role.
  for (
    const [method, params] of [["tools/call", { name: "list_runs", arguments: {} }], [
      "tools/list",
      {},
    ]] as const
  ) {
    const [status, text] = await post(method, params, CALL);
    assert.equal(status, 401);
    assert.match(text, /token/);
  }
  // A stream for news of tools would hold a connection for ever: the answer ends.
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
  };
  const params = { notifications: { toolsListChanged: true }, _meta: meta };
  const modern = { "mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen" };
  const [, refused] = await post("subscriptions/listen", params, {
    ...CALL,
    ...modern,
    authorization: `Bearer ${read}`,
  });
  assert.match(refused, /"error".*limit/i);
});
