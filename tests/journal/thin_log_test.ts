import assert from "node:assert/strict";
import { EMPTY_STEP, type StoredStep } from "../../src/gen/records/record_types.ts";
import { rendered, StepsOfLog, thinned } from "../../src/journal/thin_log.ts";

const N = 3000;
const encoder = new TextEncoder();
const turn = () => Promise.resolve();

/** Of two attempts, in turn; the log is the first one's. */
const STEPS: StoredStep[] = Array.from({ length: 2 * N }, (_, i) => ({
  ...EMPTY_STEP,
  ...{
    seq: i + 1,
    attempt: 1 + i % 2,
    episode: i >> 7,
    step: i & 127,
    reward: i % 3 === 0 ? 1 : i / 7,
  },
  ...{
    actionJson: String(i % 3),
    observationJson: i % 50 === 0 ? "[]" : `[${Math.sin(i)}, ${Math.cos(i)}]`,
  },
}));

const read = (steps: readonly StoredStep[]) => (since: number) =>
  steps.filter(({ seq }) => seq > since && seq <= since + 500);

const STYLES: Record<string, (step: StoredStep) => string> = {
  "as JSON.stringify writes it": ({ episode, step, reward, observationJson }) =>
    `{"type":"step","episode":${episode},"step":${step},"obs":${observationJson},"reward":${reward}}`,
  "as Python writes it, with values of its own": (
    { seq, step, reward, actionJson, observationJson },
  ) =>
    ` {"type": "step", "step_index": ${step}, "t": ${
      seq / 3
    }, "action": ${actionJson}, "observation": ${observationJson}, ` +
    `"reward": ${
      Number.isInteger(reward) ? `${reward}.0` : reward
    }, "name": "größe ${seq}", "more": {"a": [${seq}]} }`,
  "in two orders": ({ seq, observationJson }) =>
    seq % 4 === 1
      ? `{"observation":${observationJson},"n":${seq}}`
      : `{"n":${seq},"observation":${observationJson}}`,
};

for (const [name, style] of Object.entries(STYLES)) {
  Deno.test(`thin log: lines of steps ${name} come out to the byte, with what is between and cut off`, async () => {
    const log = STEPS.filter(({ attempt }) => attempt === 1).map((step, i) =>
      style(step).trimStart() +
      (i % 97 === 0 ? '\nplain text\n{"no": json\n\n{"observation":[]}' : "")
    ).join("\n");
    const bytes = encoder.encode(log);
    const steps = new StepsOfLog(read(STEPS), 1);
    let size = 0;
    for (let at = 0; at < bytes.length; at += 50_001) {
      const chunk = bytes.subarray(at, at + 50_001);
      // A chunk that ends within a character stays as it is.
      const thin = await thinned(chunk, steps, turn);
      if (thin !== undefined) assert.deepEqual(rendered(thin, read(STEPS)), chunk);
      size += thin?.length ?? chunk.length;
    }
    assert.ok(size < bytes.length / 4, `${size} of ${bytes.length} bytes`);
  });
}

Deno.test("thin log: a step that has changed or is gone is an error, never another text", async () => {
  const own = STEPS.slice(0, 400).map((step) => ({ ...step, attempt: 1 }));
  const bytes = encoder.encode(own.map(STYLES["as JSON.stringify writes it"]!).join("\n"));
  const thin = (await thinned(bytes, new StepsOfLog(read(own), 1), turn))!;
  assert.deepEqual(rendered(thin, read(own)), bytes);
  const other = own.map((step) =>
    step.seq === 44 ? { ...step, observationJson: "[0.5, 0.25]" } : step
  );
  assert.throws(() => rendered(thin, read(other)), /do not give back its lines/);
  assert.throws(
    () => rendered(thin, read(own.filter(({ seq }) => seq !== 44))),
    /step 44 is damaged or removed/,
  );
});

Deno.test("thin log: a log without steps, or that is no UTF-8, stays as it is", async () => {
  for (const bytes of [encoder.encode("text\n{}\n"), Uint8Array.of(0xff, 10)]) {
    assert.equal(await thinned(bytes, new StepsOfLog(read(STEPS), 1), turn), undefined);
  }
});
