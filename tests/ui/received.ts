/** Server-sent events as a test reads them. */
import assert from "node:assert/strict";

export interface Received {
  event: string;
  id: string | undefined;
  // deno-lint-ignore no-explicit-any
  data: any;
}

/** Reads server-sent events until one satisfies `done`, and closes the stream. */
export async function events(
  response: Response,
  done: (e: Received) => boolean,
): Promise<Received[]> {
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  const received: Received[] = [];
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    while (true) {
      const { value, done: ended } = await reader.read();
      if (ended) return received;
      text += value;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const lines = new Map(
          text.slice(0, end).split("\n").map((
            l,
          ) => [l.slice(0, l.indexOf(":")), l.slice(l.indexOf(":") + 2)]),
        );
        text = text.slice(end + 2);
        const event = {
          event: lines.get("event")!,
          id: lines.get("id"),
          data: JSON.parse(lines.get("data")!),
        };
        received.push(event);
        if (done(event)) return received;
      }
    }
  } finally {
    await reader.cancel();
  }
}
