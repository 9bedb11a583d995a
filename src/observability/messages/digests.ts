/** The receivers of messages, as webhooks.ts delivers to them. */
import type { RunJson } from "../../runs/fields/run_types.ts";
import { elapsedText, rewardText, stepsOf } from "../../runs/fields/run_texts.ts";
import { position } from "../../runs/curves.ts";
import { compact } from "../../base/text/format.ts";
import type { EventRow } from "../../registry/row_types.ts";
import type { TelemetryReader } from "../../telemetry/telemetry_log.ts";
import type { Notice } from "../webhooks/messages.ts";
import type { Digest } from "../webhooks/webhooks.ts";
import { curvePicture, MOST_CURVES } from "./curve_picture.ts";
import { noticeOf, type RunFacts } from "./notice.ts";
import type { Receiver, Receivers } from "./receivers.ts";
import { sendMessage } from "./send.ts";

/** Points of a curve in a picture. */
const BUCKETS = 300;
/** Of a whole test, all receivers at the same time. */
const TEST_MS = 20_000;

export interface MessagesOf {
  run(runId: string): { json: RunJson; owner: string } | undefined;
  /** Whether a run fits a filter of `mosaic list --where`. */
  fits(runId: string, where: string): boolean;
  records: Pick<TelemetryReader, "series" | "seriesOf">;
}

export function digestsOf({ page, receivers }: Receivers, of: MessagesOf): Digest[] {
  return receivers.map((receiver) => ({
    name: receiver.name,
    url: urlOf(receiver),
    kinds: receiver.kinds,
    waitMs: receiver.digestMs,
    wants: ({ runId }) => wants(receiver, runId, of),
    messageOf(events) {
      const notice = noticeOf(events, page, (runId) => factsOf(runId, of));
      const picture = pictureOf(receiver, events, of);
      return (signal) => sendMessage(receiver, notice, picture, signal);
    },
  }));
}

function urlOf({ service }: Receiver): string {
  return service.type === "sendmail" ? "" : service.url;
}

function wants({ owners, where }: Receiver, runId: string, of: MessagesOf): boolean {
  if (owners.length > 0 && !owners.includes(of.run(runId)?.owner ?? "")) return false;
  return where === "" || of.fits(runId, where);
}

function factsOf(runId: string, of: MessagesOf): RunFacts | undefined {
  const run = of.run(runId)?.json;
  if (run === undefined) return undefined;
  const reward = rewardText(run);
  const steps = stepsOf(run);
  const words = [
    elapsedText(run, Date.now()),
    reward === "" ? "" : `reward ${reward}`,
    steps === 0 ? "" : `${compact(steps)} steps`,
  ];
  return {
    tags: run.tags,
    hint: run.hint ?? "",
    result: words.filter((word) => word !== "").join(", "),
  };
}

/** Undefined if no run of the message has the metric. */
function pictureOf(
  { picture: metric }: Receiver,
  events: readonly EventRow[],
  { records }: MessagesOf,
) {
  if (metric === "") return undefined;
  const runs = new Map(events.map(({ runId, runName }) => [runId, runName]));
  const found = [...runs].filter(([runId]) => records.seriesOf(runId, metric) !== undefined).slice(
    0,
    MOST_CURVES,
  );
  return curvePicture(
    metric,
    found.map(([runId, name]) => ({
      name,
      points: records.series(runId, metric, 0, Number.MAX_SAFE_INTEGER, BUCKETS)
        .filter(({ overwritten, damaged }) => !overwritten && !damaged)
        .map((bucket) => ({ x: position(bucket), y: bucket.mean })),
    })),
  );
}

export interface TestResult {
  receiver: string;
  /** "" if it was sent. */
  error: string;
}

/**
 * Sends a test message to each receiver, or to the one of this name, once.
 * @param ownOf the daemon's own listener at a URL, if one is there
 */
export async function testMessages(
  { page, receivers }: Receivers,
  name: string,
  ownOf: (url: string) => Promise<string | undefined>,
): Promise<TestResult[]> {
  const text = "This daemon can reach you: this is a test message.";
  const notice: Notice = {
    title: "test",
    text: page === "" ? text : `${text}\n${page}/`,
    urgent: false,
  };
  const example = Array.from({ length: 100 }, (_, i) => ({ x: i, y: 1 - Math.exp(-i / 25) }));
  return await Promise.all(
    receivers.filter((receiver) => name === "" || receiver.name === name).map(async (receiver) => {
      const picture = receiver.picture === ""
        ? undefined
        : curvePicture("example", [{ name: "test", points: example }]);
      const url = urlOf(receiver);
      const own = url === "" ? undefined : await ownOf(url);
      if (own !== undefined) {
        return { receiver: receiver.name, error: `this is the daemon itself (${own})` };
      }
      try {
        const refusal = await sendMessage(receiver, notice, picture, AbortSignal.timeout(TEST_MS));
        return { receiver: receiver.name, error: refusal?.why ?? "" };
      } catch (error) {
        return { receiver: receiver.name, error: (error as Error).message };
      }
    }),
  );
}
