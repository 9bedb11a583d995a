/**
 * The examples of each verb's --help are run, against a real daemon: what a manual shows must work.
 */
import { strict as assert } from "node:assert";
import { runCli } from "../../src/cli/cli.ts";
import type { Context } from "../../src/cli/link/context.ts";
import { VERBS } from "../../src/cli/verbs.ts";
import { connect } from "../../src/wire/client/client.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { submit, untilState } from "../harness/runs.ts";
import { type FakeWorld, fakeWorld } from "./fakes.ts";

/**
 * They need a terminal, a client or another host, train for long, or stop the daemon of this test;
 * other tests run them.
 */
const NOT_HERE = ["down", "host", "notify", "top", "demo", "demo-worker", "mcp"];
/** All verbs but the parts, which runCli() is given. */
const LOADED = VERBS.filter((verb) => verb.load !== undefined);
/** Examples of verbs that act on a run that lives. */
const CONTROL = ["cancel", "pause", "resume", "throttle", "reset"];
/** Examples of verbs after which @last is another run, or not what it was. */
const CHANGING = ["submit", "run", "show", "wait", "delete", "retry"];
/** Examples about the newest run, which must be one that has ended. */
const NAMES_LAST = /@last|01K9ZQ/;
/** Their outcome is that of a run, which may fail where there is no Python. */
const BY_OUTCOME = /--follow|^mosaic wait/;

async function examplesOf(verb: string): Promise<string[]> {
  const world = fakeWorld();
  assert.equal(await runCli([verb, "--help"], world), 0, world.stderr());
  return [...world.stdout().matchAll(/^ {2}\$ (.*)$/gm)].map((match) => match[1]!);
}

/** Words as a shell makes them of this little language: quotes, and nothing else. */
function words(piece: string): string[] {
  return [...piece.matchAll(/(?:[^\s'"]|'[^']*'|"[^"]*")+/g)].map(([word]) =>
    word.replace(/'([^']*)'|"([^"]*)"/g, "$1$2")
  );
}

Deno.test("examples: every verb has some", async () => {
  for (const { name } of LOADED) {
    assert.ok((await examplesOf(name)).length > 0, `mosaic ${name} --help has no example`);
  }
});

Deno.test("examples: what --help shows works", async (t) => {
  await using daemon = await TestDaemon.start({ gpus: "1" });
  const directory = await Deno.makeTempDir();
  const before = Deno.cwd();
  Deno.chdir(directory);
  try {
    Deno.writeTextFileSync("train.py", "pass\n");
    Deno.mkdirSync("runs/ppo", { recursive: true });
    Deno.writeTextFileSync("runs/ppo/progress.csv", "global_step,loss\n1,0.5\n2,0.25\n");
    Deno.writeTextFileSync("train.sh", "#!/bin/sh\nexit 0\n", { mode: 0o755 });
    const talks = [
      "/bin/sh",
      "-c",
      `echo '{"event_type":"step","episode":0,"step_index":0,"reward":1,"policy_loss":0.5}'
      echo '{"event_type":"episode","episode":0,"total_reward":1,"steps":1,"terminated":true,"truncated":false}'
      echo '{"event":"metrics","payload":{"policy_loss":0.5,"step":1}}'`,
    ];
    const ended = async (name: string, tags: string[] = [], command = talks) => {
      const run = await submit(daemon, configOf({ name, command, metadata: { tags } }));
      await untilState(daemon, run, "TERMINATED");
      return run;
    };
    const soonOver = () => {
      const command = ["/bin/sh", "-c", `${talks[2]}\nexec sleep 1`];
      return submit(daemon, configOf({ command, metadata: { tags: ["sweep"] } }));
    };
    const live = async () => {
      const command = ["/bin/sh", "-c", `${talks[2]}\nexec sleep 600`];
      const run = await submit(daemon, configOf({ command }));
      await untilState(daemon, run, "EXECUTING");
      return run;
    };
    await ended("prepare");
    await ended("cart-lr-3e-3", ["sweep"]);
    let last = await ended("cart-lr-1e-2", ["sweep"]);
    await ended("cart", [], ["/bin/sh", "-c", 'echo 1 >"$MOSAIC_CHECKPOINT_DIR/best.pt"']);
    Deno.writeTextFileSync("train.json", configOf({ name: "train", command: talks }));
    Deno.mkdirSync("results", { recursive: true });
    for (const path of ["training.csv", "results/scores.csv"]) {
      Deno.writeTextFileSync(path, "step,loss\n1,0.5\n");
    }
    Deno.writeTextFileSync(
      "sweep.yaml",
      "command: [python, train.py, --lr, '{lr}']\ngrid: {lr: [0.1, 0.2]}\n",
    );

    const mosaic = async (args: string[], input: string) => {
      const world: FakeWorld = fakeWorld({}, {
        connect: () => Promise.resolve(connect({ target: daemon.target })),
        readInput: () => Promise.resolve(input),
        now: () => Date.now(),
        env: (name) =>
          ({ SEED: "7", MOSAIC_STATE_DIR: daemon.stateDir })[name] ?? Deno.env.get(name),
      });
      // Whoever follows has seen enough with the first that it prints.
      const follows = ["-f", "--watch", "watch"].some((word) => args.includes(word));
      const out: Context["out"] = world.out;
      if (follows) world.out = { ...out, write: (text) => (out.write(text), world.interrupt()) };
      const timer = follows ? setTimeout(() => world.interrupt(), 1000) : undefined;
      const code = await runCli(args, world);
      clearTimeout(timer);
      return { code, out: world.stdout(), err: world.stderr() };
    };

    let alive = false;
    let changed = false;
    /**
     * Commands of one pipeline, each fed by the one before. Other programs hand through what they
     * get.
     */
    const pipeline = async (text: string): Promise<void> => {
      let input = Deno.readTextFileSync("train.json");
      for (const piece of text.split(/ \| (?![^']*'(?:[^']*'[^']*')*[^']*$)/)) {
        const inner = /\$\((mosaic [^)]*)\)/.exec(piece);
        const fromInner = inner === null ? "" : (await mosaic(words(inner[1]!).slice(1), "")).out;
        // It was over before it was asked for.
        if (inner !== null && fromInner.trim() === "") continue;
        const given = words(
          piece.replace(/\$\(.*\)/, fromInner.replaceAll("\n", " ")).replace(/ >.*$/, ""),
        );
        if (given[0] === "xargs") {
          assert.equal(
            given[1],
            "-r",
            `${piece}: without -r it runs mosaic where there is nothing to do`,
          );
          const ids = input.split("\n").filter((id) => id !== "");
          if (ids.length === 0) continue;
          given.splice(0, 2);
          given.push(...ids);
        }
        if (given[0] !== "mosaic") continue;
        // A sweep would go on making runs behind the other examples.
        if (given[1] === "sweep" && given[2]!.startsWith("--")) given.splice(2, 0, "--dry-run");
        const { code, out, err } = await mosaic(
          given.slice(1).map((w) => w === "01K9ZQ" ? last : w),
          input,
        );
        // mosaic doctor exits by what it finds; neither it nor reindex repairs anything under a
        // daemon that runs.
        const offline = ["doctor", "reindex"].includes(given[1]!);
        const fine = BY_OUTCOME.test(piece) ? [0, 1, 5] : offline ? [0, 1, 6] : [0, 130];
        assert.ok(fine.includes(code), `${piece}\nexit ${code}\n${out.slice(-300)}\n${err}`);
        input = out;
      }
    };

    for (const verb of LOADED.map((v) => v.name).filter((name) => !NOT_HERE.includes(name))) {
      for (const example of await examplesOf(verb)) {
        // Of a session on another host (tests/system/hosts), or of the source tree; of a run with
        // observations (minari_test.ts) or in a repository (tests/provenance).
        if (/ssh HOST|--all-hosts|^deno run|^source|--format minari|--at-commit/.test(example)) {
          continue;
        }
        await t.step(example, async () => {
          if (CONTROL.includes(verb)) last = alive && verb !== "cancel" ? last : await live();
          else if (verb === "restore") {
            last = await ended("deleted");
            await mosaic(["delete", "-y", last], "");
          } else if (verb === "rerun") {
            last = await ended("again", [], [
              ...talks,
              "sh",
              "--lr=1",
              "--batch-size=8",
              "--seed=1",
            ]);
          } else if (verb === "wait") last = await soonOver();
          else if (changed && NAMES_LAST.test(example) && !example.startsWith("mosaic restore")) {
            last = await ended("subject");
            changed = false;
          }
          alive = CONTROL.includes(verb) && verb !== "cancel";
          changed ||= CHANGING.includes(verb) || CONTROL.includes(verb);
          for (const command of example.split(" && ")) await pipeline(command);
        });
      }
    }
  } finally {
    Deno.chdir(before);
    await Deno.remove(directory, { recursive: true });
  }
});
