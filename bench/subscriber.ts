/**
 * Subscribers of one run's steps, in a process of their own: `subscriber.ts TARGET RUN READING
 * STALLED`. Prints one line of JSON when all reading subscribers have seen the end: the number of
 * steps that each received in order. A stalled subscriber takes one message and then nothing.
 */
import { connect } from "../src/wire/client/client.ts";
import { Mosaic } from "../src/gen/mosaic/v1/mosaic_pb.ts";

const [target, run, reading, stalled] = Deno.args as [string, string, string, string];
const done = new AbortController();
const client = () => connect({ target });

async function read(): Promise<number> {
  const own = client();
  let last = 0n;
  try {
    while (!done.signal.aborted) {
      const request = { run, kind: "steps", sinceSeq: last, follow: true };
      try {
        for await (const batch of own.stream(Mosaic.method.streamTelemetry, request, done.signal)) {
          if (batch.firstSeq !== last + 1n) {
            throw new Error(`seq ${batch.firstSeq} follows ${last}`);
          }
          last = batch.lastSeq;
        }
        return Number(last);
      } catch (error) {
        // The daemon ended the stream because it made no progress. Continue from the cursor.
        if ((error as { code?: string }).code === undefined) throw error;
      }
    }
    return Number(last);
  } finally {
    own.close();
  }
}

async function stall(): Promise<void> {
  const own = client();
  const messages = own.stream(Mosaic.method.streamTelemetry, { run, kind: "steps", follow: true });
  await messages.next().catch(() => {});
  await new Promise((resolve) => done.signal.addEventListener("abort", resolve));
  own.close();
}

const stalling = Array.from({ length: Number(stalled) }, stall);
const seen = await Promise.all(Array.from({ length: Number(reading) }, read));
done.abort();
await Promise.all(stalling);
console.log(JSON.stringify({ seen }));
Deno.exit(0);
