/**
 * The user of a TCP connection on this machine, from the kernel: by a query of that connection, or
 * from its table of all sockets. Only on Linux: elsewhere users are unknown.
 */
import { SocketDiagnosis } from "./sock_diag.ts";
import { shellOutputLater } from "../processes/external_program.ts";

const TABLES = ["/proc/net/tcp", "/proc/net/tcp6"];
const ESTABLISHED = "01";
const LISTEN = "0A";
/** The kernel shows this uid for users that have no number in this user namespace. */
const OVERFLOW_UID = 65534;

export interface TcpEnd {
  /** An IP address, without brackets. */
  address: string;
  port: number;
}

/** Whether only this machine has the address, including IPv4 addresses of IPv6 sockets. */
function isLoopbackAddress(address: string): boolean {
  return address === "::1" || /^(::ffff:)?127\./i.test(address);
}

/** The text of the kernel's tables; "" if there are none. */
export async function readSocketTables(): Promise<string> {
  let text = "";
  for (const path of TABLES) {
    try {
      text += await Deno.readTextFile(path);
    } catch (error) {
      // Under a permission set the runtime may not read it; a shell may.
      if (error instanceof Deno.errors.NotCapable) {
        return await shellOutputLater(`cat ${TABLES.join(" ")}; :`) ?? "";
      }
      // The protocol does not exist, or the kernel has no such tables.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return text;
}

/**
 * The user of the socket `peer`, the other end of a connection to `port` of this machine. Only an
 * established connection with an inode counts: the row of a closed socket shows user 0.
 * @returns undefined if no user is known, or several are possible
 */
export function ownerOfPeer(tables: string, peer: TcpEnd, port: number): number | undefined {
  return onlyUser(tables, peer, ESTABLISHED, (remote) => remote.port === port && remote.loopback);
}

/** The user of a listener. @returns undefined if there is none, or several are possible */
export function ownerOfListener(tables: string, at: TcpEnd): number | undefined {
  const any = at.address.includes(":") ? "::" : "0.0.0.0";
  const ends = [at.address, any, "::"].map((address) => ({ address, port: at.port }));
  const users = new Set(
    ends.map((end) => onlyUser(tables, end, LISTEN, () => true)).filter((uid) => uid !== undefined),
  );
  return users.size === 1 ? [...users][0] : undefined;
}

function onlyUser(
  tables: string,
  local: TcpEnd,
  state: string,
  isMeant: (remote: { port: number; loopback: boolean }) => boolean,
): number | undefined {
  const ends = new Set(formsOf(local.address).map((form) => `${form}:${hex(local.port, 4)}`));
  const port = `:${hex(local.port, 4)} `;
  const users = new Set<number>();
  for (let at = tables.indexOf(port); at !== -1; at = tables.indexOf(port, at + 1)) {
    const begin = tables.lastIndexOf("\n", at) + 1;
    const end = tables.indexOf("\n", at);
    const fields = tables.slice(begin, end === -1 ? undefined : end).trim().split(/\s+/);
    const [, from = "", to = "", found, , , , uid, , inode] = fields;
    if (!ends.has(from) || found !== state || inode === "0" || !/^\d+$/.test(uid ?? "")) continue;
    const [address = "", remotePort = ""] = to.split(":");
    if (!isMeant({ port: parseInt(remotePort, 16), loopback: LOOPBACK.test(address) })) continue;
    users.add(Number(uid));
  }
  const [user] = users;
  return users.size === 1 && user !== OVERFLOW_UID ? user : undefined;
}

/**
 * 127.0.0.0/8, the same within IPv6, and ::1, in the form of the tables: words of 32 bits in the
 * machine's byte order.
 */
const LOOPBACK = /^(0000000000000000FFFF0000)?[0-9A-F]{6}7F$|^0{24}01000000$/;

/** Forms in which the tables may show an address. */
function formsOf(address: string): string[] {
  const bytes = bytesOf(address);
  if (bytes === undefined) return [];
  const words = bytes.match(/.{8}/g)!.map((word) => word.match(/../g)!.reverse().join("")).join("");
  return words.length === 8 ? [words, `0000000000000000FFFF0000${words}`] : [words];
}

/**
 * The bytes of an address in hexadecimal, 4 for an IPv4 address of an IPv6 socket; undefined if it
 * is invalid.
 */
function bytesOf(address: string): string | undefined {
  const four = /^(?:::ffff:)?(\d+)\.(\d+)\.(\d+)\.(\d+)$/i.exec(address);
  if (four !== null) return four.slice(1).map((byte) => hex(Number(byte), 2)).join("");
  return groupsOf(address)?.map((group) => hex(group, 4)).join("");
}

/** The eight groups of an IPv6 address; undefined if it is invalid. */
function groupsOf(address: string): number[] | undefined {
  const [head = "", tail] = address.split("::");
  const groups = (text: string | undefined) =>
    text ? text.split(":").map((group) => parseInt(group, 16)) : [];
  const [before, after] = [groups(head), groups(tail)];
  const all = tail === undefined ? before : [
    ...before,
    ...Array<number>(Math.max(0, 8 - before.length - after.length)).fill(0),
    ...after,
  ];
  return all.length === 8 && all.every((group) => group >= 0 && group <= 0xffff) ? all : undefined;
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, "0");
}

/**
 * Asks about one connection; @returns "none" or a user, undefined if that cannot be asked
 * (src/os/host/sock_diag.ts).
 */
type Ask = SocketDiagnosis["userOf"];

/**
 * The users of peers. Where one connection cannot be asked for, all who asked before a reading of
 * the tables began share it, so that each sees its own connection, and one reading follows the
 * other.
 */
export class PeerOwners {
  readonly #ask: Ask;
  readonly #read: () => Promise<string>;
  #current: Promise<unknown> = Promise.resolve();
  #next: Promise<string> | undefined;

  constructor(ask: Ask = askKernel(), read: () => Promise<string> = readSocketTables) {
    this.#ask = ask;
    this.#read = read;
  }

  /**
   * @param local end of the connection that this process has @returns undefined also if nothing can
   * be read: such a peer is
   *   unknown
   */
  async of(peer: TcpEnd, local: TcpEnd): Promise<number | undefined> {
    if (!isLoopbackAddress(peer.address)) return undefined;
    const [from, to] = [bytesOf(peer.address), bytesOf(local.address)];
    if (from !== undefined && to !== undefined) {
      const user = await this.#ask(from, peer.port, to, local.port);
      if (user !== undefined) return user === "none" || user === OVERFLOW_UID ? undefined : user;
    }
    const tables = await (this.#next ??= this.#readNext()).catch(() => "");
    return ownerOfPeer(tables, peer, local.port);
  }

  async #readNext(): Promise<string> {
    await this.#current;
    this.#next = undefined;
    const reading = this.#read();
    this.#current = reading.catch(() => {});
    return await reading;
  }
}

function askKernel(): Ask {
  const kernel = new SocketDiagnosis();
  return (...connection) => kernel.userOf(...connection);
}
