/**
 * Holds COUNT TCP sockets on loopback until its standard input ends, and says when it has them:
 * `held_sockets.ts COUNT`.
 */
const pairs = Number(Deno.args[0]) / 2;
const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
const held: Deno.Conn[] = [];
for (let i = 0; i < pairs; i++) {
  held.push(
    ...await Promise.all([
      Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port }),
      listener.accept(),
    ]),
  );
}
console.log(`${held.length} sockets`);
await Deno.stdin.read(new Uint8Array(1));
Deno.exit(0);
