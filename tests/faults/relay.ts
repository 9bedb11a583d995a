/** A TCP relay between proxies and the daemon, whose connections can be cut. */
export class Relay implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #target: { hostname: string; port: number };
  readonly #open = new Set<Deno.TcpConn>();
  #down = false;

  constructor(target: string) {
    const [hostname, port] = target.split(":");
    this.#target = { hostname: hostname!, port: Number(port) };
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    void this.#accept();
  }

  get address(): string {
    return `127.0.0.1:${this.#listener.addr.port}`;
  }

  /** Ends every connection at once, as a lost network does; new ones are taken. */
  cut(): void {
    for (const connection of [...this.#open]) this.#close(connection);
  }

  /** As cut(), and until up() nobody gets through. */
  down(): void {
    this.#down = true;
    this.cut();
  }

  up(): void {
    this.#down = false;
  }

  async #accept(): Promise<void> {
    for await (const inner of this.#listener) {
      this.#open.add(inner);
      if (this.#down) this.#close(inner);
      else void this.#join(inner);
    }
  }

  async #join(inner: Deno.TcpConn): Promise<void> {
    let outer: Deno.TcpConn | undefined;
    try {
      outer = await Deno.connect(this.#target);
      this.#open.add(outer);
      await Promise.all([
        inner.readable.pipeTo(outer.writable),
        outer.readable.pipeTo(inner.writable),
      ]);
    } catch {
      // Cut, or nobody listens at the other end: the peers find out by the closed connection.
    } finally {
      this.#close(inner);
      if (outer !== undefined) this.#close(outer);
    }
  }

  #close(connection: Deno.TcpConn): void {
    if (!this.#open.delete(connection)) return;
    try {
      connection.close();
    } catch {
      // The stream that was piped has closed it already.
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    this.cut();
    await Promise.resolve();
  }
}
