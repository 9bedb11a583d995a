import assert from "node:assert/strict";
import type { StepRecord } from "../../../src/gen/records/record_types.ts";
import { parseLine } from "../../../src/readers/lines/parse_line.ts";

const CONTEXT = { agentId: "agent_1", workerId: "" };
const directory = new URL("./fixtures/", import.meta.url);

interface Fixture {
  about: string;
  line: string;
  /** For steps only what differs from the defaults. */
  expect: Record<string, unknown>;
}

/** Without the fields that hold their default, so that a fixture says what matters. */
function brief(step: StepRecord): Record<string, unknown> {
  const differs = Object.entries(step).filter(([name, value]) =>
    name === "agentId" ? value !== "agent_1" : value !== "" && value !== 0 && value !== false
  );
  return Object.fromEntries(
    differs.map(([k, v]) => [k, typeof v === "number" && !Number.isFinite(v) ? String(v) : v]),
  );
}

function read(line: string): Record<string, unknown> {
  const parsed = parseLine(line, CONTEXT);
  switch (parsed.type) {
    case "step":
      return { type: "step", step: brief(parsed.step) };
    case "episode":
      return { type: "episode", episode: parsed.episode };
    default:
      return { ...parsed };
  }
}

for (const { name } of [...Deno.readDirSync(directory)].sort((a, b) => a.name < b.name ? -1 : 1)) {
  const url = new URL(name, directory);
  const fixtures = Deno.readTextFileSync(url).split("\n").filter((l) => l !== "").map((l) =>
    JSON.parse(l) as Fixture
  );
  if (Deno.env.get("MOSAIC_UPDATE_FIXTURES") === "1") {
    const lines = fixtures.map((f) =>
      JSON.stringify({ about: f.about, line: f.line, expect: read(f.line) })
    );
    Deno.writeTextFileSync(url, lines.join("\n") + "\n");
    continue;
  }
  Deno.test(`dialects: ${name.replace(".jsonl", "").replace("_", " ")}`, async (t) => {
    for (const fixture of fixtures) {
      await t.step(fixture.about, () => assert.deepEqual(read(fixture.line), fixture.expect));
    }
  });
}

Deno.test("dialects: every JSON text of a record is valid JSON", () => {
  for (const { name } of Deno.readDirSync(directory)) {
    for (
      const line of Deno.readTextFileSync(new URL(name, directory)).split("\n").filter((l) =>
        l !== ""
      )
    ) {
      const parsed = parseLine((JSON.parse(line) as Fixture).line, CONTEXT);
      const record = parsed.type === "step"
        ? parsed.step
        : parsed.type === "episode"
        ? parsed.episode
        : parsed.type === "event"
        ? parsed.event
        : {};
      for (const [field, text] of Object.entries(record)) {
        if (field.endsWith("Json") && text !== "") JSON.parse(text as string);
      }
    }
  }
});

Deno.test("dialects: the proxy's worker id wins, its agent id is only a default", () => {
  const parsed = parseLine('{"type":"step","agent_id":"a","worker_id":"w"}', {
    agentId: "d",
    workerId: "mine",
  });
  assert(parsed.type === "step");
  assert.equal(parsed.step.agentId, "a");
  assert.equal(parsed.step.workerId, "mine");
});

Deno.test("dialects: a line of a megabyte is read like a short one", () => {
  const rgb = JSON.stringify(
    Array.from({ length: 400 }, () => Array.from({ length: 400 }, () => [255, 0, 128])),
  );
  const parsed = parseLine(
    `{"type":"step","render_payload":{"rgb":${rgb}},"action":1,"note":"é"}`,
    CONTEXT,
  );
  assert(parsed.type === "step");
  assert.equal(parsed.step.renderPayloadJson, `{"rgb":${rgb}}`);
  assert.equal(parsed.step.infoJson, '{"note":"é"}');
});
