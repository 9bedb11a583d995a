/** Server-sent events: what cannot be sent is named and passed over. */
import assert from "node:assert/strict";
import { EventStreams, type ServerEvent } from "../../src/ui/http/event_stream.ts";

Deno.test("event stream: an event that cannot be written is skipped with its id, and the next ones follow", async () => {
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  async function* events(): AsyncGenerator<ServerEvent> {
    yield { event: "event", id: 1, data: { n: 1 } };
    yield { event: "event", id: 2, data: cyclic };
    yield await Promise.resolve({ event: "event", id: 3, data: 10n });
    yield { event: "a\nb", id: 4, data: 1 };
    yield { event: "event", id: 5, data: { n: 5 } };
  }
  const text = await new EventStreams(1).respond(events).text();
  const found = text.split("\n\n").filter((part) => part !== "");
  assert.deepEqual(found.map((part) => part.split("\n").slice(0, 2)), [
    ["id: 1", "event: event"],
    ...[2, 3, 4].map((id) => [`id: ${id}`, "event: skipped"]),
    ["id: 5", "event: event"],
  ]);
  assert.match(found[1]!, /"why":".*circular/);
});
