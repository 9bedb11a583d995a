/**
 * Calls GetHealth of each target in turn, in a process of its own: `caller.ts TARGET…`. Prints a
 * line when it is warm and ends with its standard input; then it prints one line of JSON: for each
 * target, when each call began (milliseconds since
 * 1970) and how long it took (milliseconds).
 */
import { connect } from "../src/wire/client/client.ts";
import { TrainerService } from "../src/gen/gymgui/trainer_pb.ts";
import { timed } from "./measure.ts";

const clients = Deno.args.map((target) => connect({ target, deadlineMs: 60_000 }));
const calls: [at: number, ms: number][][] = clients.map(() => []);
let over = false;
const ended = Deno.stdin.read(new Uint8Array(1)).then(() => over = true);
while (!over) {
  for (const [i, client] of clients.entries()) {
    const at = performance.timeOrigin + performance.now();
    const ms = await timed(async () =>
      void await client.unary(TrainerService.method.getHealth, {})
    );
    calls[i]!.push([at, ms]);
    if (i === 0 && calls[0]!.length === 200) console.log("warm");
  }
}
await ended;
console.log(JSON.stringify(calls));
Deno.exit(0);
