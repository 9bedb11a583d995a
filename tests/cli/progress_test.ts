/** The line of a long command, by a clock and a terminal of the test. */
import { strict as assert } from "node:assert";
import { progressLine, type Step } from "../../src/base/text/progress_text.ts";
import { Progress } from "../../src/cli/link/progress.ts";
import { pageAddress } from "../../src/cli/text/page_address.ts";
import { fakeWorld } from "./fakes.ts";

const step = (done: number, more: Partial<Step> = {}): Step => ({
  ...{ name: "steps", unit: "records", done, total: 4000 },
  ...more,
});

Deno.test("progress: what is done of what, how fast, and how long it will take", () => {
  const cases: [Step, number, string][] = [
    [step(1000), 2000, "steps: 1,000 of 4,000 records  25%  500/s  6.0s left"],
    [step(4000), 2000, "steps: 4,000 of 4,000 records  100%  2.0k/s"],
    // A live run has more than it had at the beginning.
    [step(5000), 2000, "steps: 4,000 of 4,000 records  100%  2.5k/s"],
    [step(0), 2000, "steps: 0 of 4,000 records  0%"],
    [step(1000), 0, "steps: 1,000 of 4,000 records  25%"],
    [step(1000, { total: 0 }), 2000, "steps: 1,000 records  500/s"],
    [
      step(1 << 20, { name: "a", unit: "bytes", total: 1 << 30 }),
      1000,
      "a: 1.0 MiB of 1.0 GiB  0%  1.0 MiB/s  17m 03s left",
    ],
  ];
  for (const [of, elapsed, line] of cases) assert.equal(progressLine(of, elapsed), line);
});

function world(errIsTty: boolean, width = 80) {
  const clock = { at: 1000 };
  const terminal = { isTty: true, width, height: 24, color: false };
  return { clock, world: fakeWorld({}, { errIsTty, terminal, now: () => clock.at }) };
}

Deno.test("progress: nothing in the first second, then a line that is redrawn and cleared", () => {
  const { clock, world: shown } = world(true);
  const drawn = (text: string) => `\r\x1b[K${text}`;
  {
    using progress = new Progress(shown);
    progress.report(step(0));
    clock.at += 999;
    progress.report(step(900));
    assert.equal(shown.stderr(), "");
    clock.at += 1;
    progress.report(step(1000));
    const first = drawn("steps: 1,000 of 4,000 records  25%  1.0k/s  3.0s left");
    assert.equal(shown.stderr(), first);
    clock.at += 100;
    progress.report(step(1100));
    assert.equal(shown.stderr(), first, "not more often than can be read");
    progress.context.out.write("data\n");
    assert.equal(shown.stderr(), first + drawn(""), "what is printed has the line for itself");
    clock.at += 900;
    // Read again from its beginning.
    progress.report(step(10));
    assert.equal(shown.stderr(), first + drawn("") + drawn("steps: 10 of 4,000 records  0%"));
  }
  assert.ok(shown.stderr().endsWith(drawn("")), "cleared at the end");
  assert.equal(shown.stdout(), "data\n");
});

Deno.test("progress: never wider than the terminal, and nothing obeyed of a name; in a pipe nothing", () => {
  const { clock, world: narrow } = world(true, 20);
  using progress = new Progress(narrow);
  clock.at += 1000;
  progress.report(step(1, { name: "evil\x1b[2J".repeat(20) }));
  const line = narrow.stderr().slice("\r\x1b[K".length);
  assert.ok(
    [...line].length <= 19 && line.startsWith("evil") && !line.includes("\x1b"),
    JSON.stringify(line),
  );

  const { clock: later, world: piped } = world(false);
  using silent = new Progress(piped);
  later.at += 5000;
  silent.report(step(1));
  assert.equal(piped.stderr(), "");
});

Deno.test("open: the address that a browser can use", () => {
  const cases: [string, string | undefined, boolean, string | undefined][] = [
    ["127.0.0.1:8055", undefined, false, "http://127.0.0.1:8055/"],
    ["0.0.0.0:8055", undefined, false, "http://127.0.0.1:8055/"],
    ["[::]:8055", "unix:/x", true, "http://[::1]:8055/"],
    ["", undefined, false, undefined],
    ["0.0.0.0:8055", "trainer:80", false, "http://trainer:80/"],
    ["0.0.0.0:8055", "trainer:80", true, "https://trainer:80/"],
    ["0.0.0.0:8055", "http://trainer:80/", true, "http://trainer:80/"],
    ["0.0.0.0:8055", "https://trainer", false, "https://trainer/"],
  ];
  for (const [http, target, tls, address] of cases) {
    assert.equal(pageAddress({ http, https: false, target, tls }), address);
  }
  const ofTls = { http: "127.0.0.1:8055", https: true, target: undefined, tls: false };
  assert.equal(pageAddress(ofTls), "https://127.0.0.1:8055/");
});
