/**
 * A second host with a link to this one: a network namespace and a pair of interfaces. Needs root
 * and `ip`.
 */

/** Why there cannot be one here; undefined: there can. */
export function noSecondHost(): string | undefined {
  if (Deno.uid() !== 0) return "only root makes network namespaces";
  const name = `mosaic-probe-${Deno.pid}`;
  const { success } = new Deno.Command("sh", {
    args: ["-c", `ip netns add ${name} && ip netns del ${name}`],
  })
    .outputSync();
  return success ? undefined : "network namespaces cannot be made";
}

export class SecondHost implements Disposable {
  readonly #name = `mosaic-${Deno.pid}`;
  readonly #net = `10.83.${Deno.pid % 250}`;

  constructor() {
    const [name, here, there] = [this.#name, `mo${Deno.pid}a`, `mo${Deno.pid}b`];
    ip("netns", "add", name);
    ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name);
    ip("addr", "add", `${this.address}/24`, "dev", here);
    ip("link", "set", here, "up");
    ip("-n", name, "addr", "add", `${this.#net}.2/24`, "dev", there);
    ip("-n", name, "link", "set", there, "up");
    ip("-n", name, "link", "set", "lo", "up");
  }

  /** This host's address for the other. */
  get address(): string {
    return `${this.#net}.1`;
  }

  /** argv that runs a program there. */
  on(...argv: string[]): string[] {
    return ["ip", "netns", "exec", this.#name, ...argv];
  }

  /** From now on nothing of this host arrives there, without notice. */
  cut(): void {
    ip("route", "add", "blackhole", `${this.#net}.2/32`);
  }
  heal(): void {
    ip("route", "del", "blackhole", `${this.#net}.2/32`);
  }

  [Symbol.dispose](): void {
    // The interfaces and their routes go with it; the blackhole does not.
    new Deno.Command("ip", {
      args: ["route", "del", "blackhole", `${this.#net}.2/32`],
      stderr: "null",
    }).outputSync();
    ip("netns", "del", this.#name);
  }
}

function ip(...args: string[]): void {
  const { success, stderr } = new Deno.Command("ip", { args }).outputSync();
  if (!success) throw new Error(`ip ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}
