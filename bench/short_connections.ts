/**
 * GetHost of a target, each call on a connection of its own, in a process of its own:
 * `short_connections.ts TARGET COUNT`.
 */
import { MosaicClient } from "../src/wire/client/client.ts";
import { Mosaic } from "../src/gen/mosaic/v1/mosaic_pb.ts";

const AT_ONCE = 10;
const [target, count] = Deno.args;
let left = Number(count);
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  while (left-- > 0) {
    const client = new MosaicClient(target!);
    await client.unary(Mosaic.method.getHost, {});
    client.close();
  }
}));
Deno.exit(0);
