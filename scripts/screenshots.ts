/**
 * `deno run --lock=dev.lock -A scripts/screenshots.ts [NAME…]`: the pictures of the manual in
 * `docs/images`, anew: an engine without processes plays runs, and Chromium shows them.
 */
import type { Page } from "npm:playwright-core@1.65.1";
import type { Parameter } from "../src/records/parameters.ts";
import {
  EMPTY_EPISODE,
  EMPTY_WORKER_EVENT,
  type WorkerEventRecord,
} from "../src/gen/records/record_types.ts";
import { PlayedEngine } from "../tests/harness/played_engine.ts";
import { chromiumPath, launch, openPage } from "../tests/ui/chromium.ts";
import { servePage } from "../tests/ui/served_page.ts";

const OUT = new URL("../docs/images/", import.meta.url).pathname;
const SIZE = { width: 1200, height: 620 };
const MINUTE = 60_000;
const EPISODES = 160;

await using core = new PlayedEngine();
const begin = Date.now() - 90 * MINUTE;

/** Numbers that are the same in every picture. */
let seed = 7;
function random(): number {
  seed = (seed * 48271) % 2147483647;
  return seed / 2147483647;
}

/** A run that learns. @param level that it comes to @param part of its way that it has gone */
function learns(name: string, rate: number, level: number, part = 1): string {
  const parameter = (name: string, value: unknown): Parameter => ({
    ...{ name, source: "config" as const, value: JSON.stringify(value) },
  });
  const given = [
    parameter("algorithm", name.split("-")[0]),
    parameter("learning_rate", rate),
    parameter("seed", name.at(-1)),
  ];
  const { runId } = core.begun(core.add(name, { tags: [name.split("-")[0]!] }, given).runId);
  const episodes = Math.round(EPISODES * part);
  const pace = 20 + 25 * random();
  for (let i = 0; i < episodes; i++) {
    const tsNs = `${BigInt(Math.round(begin + i / EPISODES * 88 * MINUTE)) * 1_000_000n}`;
    const grown = 1 - Math.exp(-i / pace);
    const reward = 20 + (level - 20) * grown + 0.12 * level * (random() - 0.5);
    const data = {
      step: (i + 1) * 2048,
      "losses/policy": 0.06 * Math.exp(-i / 60) * (1 + 0.4 * (random() - 0.5)),
      "losses/value": 40 * Math.exp(-i / 45) * (1 + 0.5 * (random() - 0.5)) + 2,
      "charts/entropy": 0.69 - 0.35 * grown + 0.02 * random(),
      "charts/explained_variance": grown - 0.1 * random(),
    };
    const event: WorkerEventRecord = {
      ...EMPTY_WORKER_EVENT,
      ...{ kind: "metrics", tsNs, dataJson: JSON.stringify(data) },
    };
    const episode = { ...EMPTY_EPISODE, episode: i, totalReward: reward, steps: 200, tsNs };
    core.telemetry.append(runId, 1, [], [episode], [event]);
  }
  return runId;
}

const ids = new Map<string, string>();
const LEVELS = { a2c: [190, 3e-4], dqn: [330, 1e-4], ppo: [470, 2.5e-4] } as const;
for (const [algorithm, [level, rate]] of Object.entries(LEVELS)) {
  for (let n = 1; n <= 4; n++) {
    const name = `${algorithm}-cartpole-seed${n}`;
    const runs = algorithm === "ppo" && n > 2;
    const runId = learns(name, rate * n, level * (0.85 + 0.05 * n), runs ? 0.7 : 1);
    ids.set(name, runId);
    if (!runs) core.ended(runId);
  }
}
const broken = learns("sac-cartpole-seed1", 3e-4, 120, 0.3);
await Deno.writeTextFile(core.logFile(core.registry.require(broken), "stderr"), "Traceback\n");
core.ended(broken, {
  code: 1,
  stderrTail: [
    "Traceback (most recent call last):",
    '  File "train.py", line 212, in update',
    "    loss.backward()",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.20 GiB.",
  ],
});
core.add("ppo-cartpole-seed5", { tags: ["ppo"] });
const rewound = core.addExecuting("ppo-resumed").runId;
for (let i = 0; i < 60; i++) {
  core.addEpisode(rewound, 10 + Math.round(i / 2 + 4 * random()), undefined, 1e6 + i * 1000);
}
core.ended(rewound, { code: 1 });
core.retry(rewound);
core.telemetry.beginAttempt(rewound, 2, 1e6 + 39_500);
core.begun(rewound);
for (let i = 0; i < 30; i++) core.addEpisode(rewound, 32 + Math.round(i / 2 + 3 * random()));

const drawn = async (page: Page) => {
  await page.locator("[data-series=episode_reward] .plot canvas").first().waitFor();
  await page.waitForLoadState("networkidle").catch(() => {});
};
const point = async (page: Page) => {
  await drawn(page);
  const box = (await page.locator("[data-series=episode_reward] .u-over").boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.55, box.y + box.height * 0.4);
  await page.mouse.move(box.x + box.width * 0.56, box.y + box.height * 0.4);
  await page.locator(".tip").waitFor();
};
const learned = [...ids.values()].join();
const PICTURES: Record<string, { path: string; of?: string; ready(page: Page): Promise<void> }> = {
  "runs-light": { path: "/?draw=all&group=tags&without=reward", ready: point },
  "run-dark": { path: `/runs/${ids.get("ppo-cartpole-seed3")}`, ready: drawn },
  "compare-light": {
    path: `/?runs=${learned}&group=tags&band=ci95&open=ppo`,
    ready: point,
  },
  "scatter-light": {
    path: `/?runs=${learned}&pane=charts`,
    of: ".insight svg",
    async ready(page) {
      await drawn(page);
      await page.locator(".when-seen").first().scrollIntoViewIfNeeded();
      await page.locator(".insight svg").first().waitFor();
    },
  },
  "failed-light": {
    path: `/runs/${broken}`,
    ready: drawn,
  },
  "rewound-light": {
    path: `/runs/${rewound}?smoothing=0`,
    of: "[data-series=episode_reward]",
    ready: drawn,
  },
};

const executable = chromiumPath();
if (executable === undefined) throw new Error("Chromium is needed for pictures of the page");
const browser = await launch(executable);
const server = servePage(core);
try {
  const names = Deno.args.length > 0 ? Deno.args : Object.keys(PICTURES);
  for (const name of names) {
    const picture = PICTURES[name];
    if (picture === undefined) {
      throw new Error(`"${name}" is none of the pictures: ${Object.keys(PICTURES).join(", ")}`);
    }
    const { page, close } = await openPage(browser);
    await page.emulateMedia({
      colorScheme: name.endsWith("dark") ? "dark" : "light",
      reducedMotion: "reduce",
    });
    await page.setViewportSize(SIZE);
    await page.goto(`http://${server.address}${picture.path}`);
    await picture.ready(page);
    const shown = picture.of === undefined ? page : page.locator(picture.of).first();
    await shown.screenshot({ path: `${OUT}${name}.png` });
    console.log(`${name}.png ${Deno.statSync(`${OUT}${name}.png`).size} bytes`);
    await close();
  }
} finally {
  await browser.close();
  await server.stop();
}
