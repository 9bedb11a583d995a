/** `mosaic report`: a file that opens from disk in a browser, needs nothing, and trusts no text. */
import { strict as assert } from "node:assert";
import { ticksOf } from "../../src/base/time/ticks.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { violations } from "./axe.ts";
import { chromiumPath, launch } from "./chromium.ts";
import { runVerb } from "../cli/verb.ts";

const EVIL = `<img src=x onerror="document.title='taken'">`;

/** A worker with a curve of ten points, and a name for a series that is HTML. */
const worker = (slope: number) => [
  "/bin/sh",
  "-c",
  `for i in 1 2 3 4 5 6 7 8 9 10; do echo "{\\"step\\": $i, \\"loss\\": $((i * ${slope})), \\"<b>bold</b>\\": $i}"; done`,
];

Deno.test("report: ticks are round, and within the range", () => {
  assert.deepEqual(ticksOf(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(ticksOf(-0.031, 0.02, 4), [-0.02, 0, 0.02]);
  assert.deepEqual(ticksOf(3, 3, 4), [3]);
  // A metric that is one but for its last bit.
  assert.deepEqual(ticksOf(0.9999999999999999, 1, 4), [0.9999999999999999]);
});

Deno.test("report: runs and groups as one file that opens from disk", async () => {
  await using daemon = await TestDaemon.start();
  const file = `${daemon.stateDir}/report.html`;
  const mosaic = (args: string[], input = "") => runVerb(daemon, args, input);
  const runs: string[] = [];
  for (const [name, slope] of [["ppo-seed1", 1], ["ppo-seed2", 3], [EVIL, 5]] as const) {
    const { out, err } = await mosaic(
      ["submit", "-"],
      configOf({ name, command: worker(slope), metadata: { tags: ["t"] } }),
    );
    assert.match(out, /^\w{26}\n$/, err);
    runs.push(out.trim());
  }
  assert.equal((await mosaic(["wait", ...runs])).code, 0);
  await mosaic([
    "note",
    runs[0]!,
    `**Good** ${EVIL} [x](javascript:alert(1)) ![p](http://example.com/p.png)`,
  ]);

  const one = await mosaic(["report", ...runs, "--out", file]);
  assert.equal(one.code, 0, one.err);
  assert.match(one.out, /^\S+report\.html {2}3 runs, \d/);
  const text = Deno.readTextFileSync(file);
  assert.doesNotMatch(text, /<img|<script|<b>bold|href="javascript|url\(/);
  assert.match(text, /&lt;b&gt;bold/);
  assert.match(text, /<strong>Good<\/strong>/);

  // The parser gives up on these; its text is shown.
  await mosaic(["note", runs[1]!, `${">".repeat(4000)}${EVIL}`]);
  const deep = await mosaic(["report", runs[1]!, "--out", "-"]);
  assert.equal(deep.code, 0, deep.err);
  assert.match(deep.out, /<pre>(&gt;){4000}&lt;img/);

  const printed = await mosaic([
    "report",
    "--tag",
    "t",
    "--group-by",
    "name",
    "-m",
    "loss",
    "--out",
    "-",
  ]);
  // The mean of two seeds, and its band.
  assert.match(
    printed.out,
    /<th scope="row">10<\/th><td>20<\/td><td>5\.858<\/td><td>34\.14<\/td><td>2<\/td>/,
  );
  assert.match(printed.out, /class="band"/);

  for (
    const [args, code, message] of [
      [["report"], 2, /name the runs/],
      [["report", "--tag", "nothing"], 4, /no run matches/],
      [["report", runs[0]!, "-m", "los", "--out", "-"], 4, /"los".*loss/],
      [
        ["report", runs[0]!, "--out", `${daemon.stateDir}/none/r.html`],
        4,
        /none\/r\.html: its directory does not exist/,
      ],
    ] as const
  ) {
    const refused = await mosaic([...args]);
    assert.equal(refused.code, code, args.join(" ") + refused.err);
    assert.match(refused.err, message);
  }

  // The page's button gives the same file, to those who may read.
  const { token } = await (await fetch(`http://${daemon.http}/api/session`)).json();
  const asked = (body: unknown, headers: Record<string, string>) =>
    fetch(`http://${daemon.http}/api/report`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
  const headers = { "x-mosaic-token": token };
  const saved = await asked(
    { runs: runs.slice(0, 2), group_by: "name", metrics: ["loss"] },
    headers,
  );
  assert.match(saved.headers.get("content-disposition")!, /attachment/);
  assert.match(
    await saved.text(),
    /<th scope="row">10<\/th><td>20<\/td><td>5\.858<\/td><td>34\.14<\/td><td>2<\/td>/,
  );
  const all = await (await asked({ runs }, headers)).text();
  const untilMade = (page: string) => page.slice(0, page.indexOf("Made by mosaic"));
  assert.ok(untilMade(all).length > 5000);
  assert.equal(untilMade(all), untilMade((await mosaic(["report", ...runs, "--out", "-"])).out));
  for (
    const [body, status, message] of [
      [{ runs: [] }, 400, /runs must be a list/],
      [{ runs: Array(101).fill(runs[0]) }, 400, /at most 100/],
      [{ runs: ["01NOSUCH"] }, 404, /01NOSUCH/],
      [{ runs, band: "wide" }, 400, /band must be one of/],
    ] as const
  ) {
    const refused = await asked(body, headers);
    assert.equal(refused.status, status);
    assert.match(await refused.text(), message);
  }
  const stranger = await asked({ runs }, {});
  assert.equal(stranger.status, 403);
  await stranger.body?.cancel();

  const executable = chromiumPath();
  if (executable === undefined) return console.log("SKIPPED: no Chromium on this machine");
  const browser = await launch(executable);
  try {
    const page = await browser.newPage({ viewport: { width: 390, height: 800 } });
    const wrong: string[] = [];
    page.on("console", (message) => wrong.push(message.text()));
    page.on("pageerror", (error) => wrong.push(String(error)));
    page.on("request", (request) => request.url().startsWith("file:") || wrong.push(request.url()));
    await page.goto(`file://${file}`);
    assert.equal(await page.title(), `ppo-seed1, ppo-seed2, ${EVIL}`);
    assert.equal(await page.getByRole("img", { name: /^loss by step/ }).count(), 1);
    assert.equal(await page.locator("path.curve").count(), 6);
    await page.locator("summary").first().click();
    assert.equal(await page.locator("details[open] tbody tr").count(), 30);
    assert.ok(
      await page.evaluate("document.documentElement.scrollWidth <= innerWidth"),
      "fits a phone",
    );
    assert.deepEqual(await violations(page), []);
    assert.deepEqual(wrong, []);
  } finally {
    await browser.close();
  }
});
