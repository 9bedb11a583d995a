/**
 * Requests to HOST:PORT, each on a connection of its own: `new_connections.ts HOST:PORT PATH COUNT
 * AT_ONCE`. Prints, as JSON, connections per second and the median and 99th percentile of the
 * milliseconds from connecting to the first byte.
 */
import { median, quantile } from "./measure.ts";

const [address, path, count, atOnce] = Deno.args;
const [hostname, port] = address!.split(":");
const request = new TextEncoder().encode(
  `GET ${path} HTTP/1.1\r\nhost: ${address}\r\nconnection: close\r\n\r\n`,
);
const OK = new TextEncoder().encode("HTTP/1.1 200");
const times: number[] = [];
let left = Number(count);

async function one(): Promise<void> {
  const buffer = new Uint8Array(4096);
  const began = performance.now();
  using connection = await Deno.connect({ hostname: hostname!, port: Number(port) });
  await connection.write(request);
  const length = await connection.read(buffer);
  times.push(performance.now() - began);
  if (length === null || !OK.every((byte, at) => buffer[at] === byte)) {
    throw new Error(`${path}: ${new TextDecoder().decode(buffer.subarray(0, length ?? 0))}`);
  }
  while (await connection.read(buffer) !== null);
}

const began = performance.now();
await Promise.all(Array.from({ length: Number(atOnce) }, async () => {
  while (left-- > 0) await one();
}));
const perSecond = times.length / (performance.now() - began) * 1000;
console.log(JSON.stringify({ perSecond, p50: median(times), p99: quantile(times, 0.99) }));
