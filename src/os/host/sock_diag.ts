/**
 * Asks the kernel for the user of one TCP connection (sock_diag). The runtime has no such sockets,
 * so a perl process does, as for shared memory: 25 µs a query, however many sockets there are. It
 * ends with this process, or when it is not needed.
 */
import { messageOf } from "../../base/errors.ts";

/**
 * Requests are lines: address and port of the connection's end and of its other end, addresses in
 * hexadecimal. Answers are lines: the user, or "none" if there is no such established socket that a
 * process has open. An orphaned socket has inode 0. The kernel answers with a listener of that
 * address if there is no connection, so the state counts.
 */
const HELPER = String.raw`
use strict;
$SIG{$_} = "IGNORE" for qw(INT TERM HUP PIPE);
$| = 1;
socket(my $kernel, 16, 3, 4) or exit; # AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG
my $seq = 0;
while (<STDIN>) {
  my ($from, $from_port, $to, $to_port) = split;
  my $family = length $from == 8 ? 2 : 10;
  my $id = pack "nn a16 a16 L3", $from_port, $to_port, pack("H*", $from), pack("H*", $to), 0, 0xffffffff, 0xffffffff;
  my $asked = pack("C4 L", $family, 6, 0, 0, 0xffffffff) . $id;
  send $kernel, pack("L S S L L", 16 + length $asked, 20, 1, ++$seq, 0) . $asked, 0 or exit;
  defined recv $kernel, my $answer, 8192, 0 or exit;
  my (undef, $type, undef, $of) = unpack "L S S L", $answer;
  exit if $of != $seq;
  if ($type == 2) {
    exit if unpack("x16 l", $answer) != -2; # anything but ENOENT: there is no answer to be had
    print "none\n";
    next;
  }
  my ($state, $uid, $inode) = unpack "x17 C x62 L L", $answer;
  print $state == 1 && $inode ? "$uid\n" : "none\n";
}
`;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const ANSWER_MS = 2000;
const IDLE_MS = 5 * 60_000;
/** After a failure, the time until the next try. */
const AGAIN_MS = 60_000;
const POLL_MS = 1000;

interface Question {
  askedAt: number;
  answer: (uid: number | "none" | undefined) => void;
}

export class SocketDiagnosis implements Disposable {
  #child: Deno.ChildProcess | undefined;
  #in: WritableStreamDefaultWriter<Uint8Array> | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #asked: Question[] = [];
  /**
   * Lines that are not written yet: they are written together when all earlier ones are answered.
   */
  #lines = "";
  #written = 0;
  #usedAt = 0;
  #failedAt = -Infinity;
  /**
   * The kernel says "no such socket" also if it lacks the whole facility; not after it has found
   * one.
   */
  #proven = false;

  /**
   * The user of the socket whose end is `from`; addresses in hexadecimal.
   * @returns "none" if no process has such an established socket; undefined if that cannot be asked
   * here
   */
  async userOf(
    from: string,
    fromPort: number,
    to: string,
    toPort: number,
  ): Promise<number | "none" | undefined> {
    if (!this.#start()) return undefined;
    const { promise, resolve } = Promise.withResolvers<number | "none" | undefined>();
    this.#usedAt = performance.now();
    this.#asked.push({ askedAt: this.#usedAt, answer: resolve });
    this.#lines += `${from} ${fromPort} ${to} ${toPort}\n`;
    this.#send();
    const user = await promise;
    if (typeof user === "number") this.#proven = true;
    return user === "none" && !this.#proven ? undefined : user;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#in?.close().catch(() => {});
    this.#child = this.#in = undefined;
    this.#lines = "";
    this.#written = 0;
    for (const { answer } of this.#asked.splice(0)) answer(undefined);
  }

  #start(): boolean {
    if (this.#child !== undefined) return true;
    if (performance.now() - this.#failedAt < AGAIN_MS) return false;
    try {
      this.#child = new Deno.Command("/bin/sh", {
        args: ["-c", 'exec perl -e "$0"', HELPER],
        ...{
          stdin: "piped",
          stdout: "piped",
          stderr: "null",
          env: { LC_ALL: "C" },
          clearEnv: true,
        },
      }).spawn();
    } catch {
      // No descriptor or no process is left: the next way of asking may have more luck.
      this.#failedAt = performance.now();
      return false;
    }
    // It must not keep this process alive.
    this.#child.unref();
    this.#in = this.#child.stdin.getWriter();
    this.#timer = setInterval(() => this.#look(), POLL_MS);
    Deno.unrefTimer(this.#timer);
    this.#read(this.#child);
    return true;
  }

  #send(): void {
    if (this.#written > 0 || this.#lines === "") return;
    const child = this.#child;
    this.#in?.write(encoder.encode(this.#lines)).catch(() => this.#fail(child));
    this.#written = this.#asked.length;
    this.#lines = "";
  }

  async #read(child: Deno.ChildProcess): Promise<void> {
    let rest = "";
    try {
      for await (const bytes of child.stdout) {
        const lines = (rest + decoder.decode(bytes)).split("\n");
        rest = lines.pop()!;
        for (const { answer } of this.#asked.splice(0, lines.length)) {
          const line = lines.shift()!;
          answer(line === "none" ? line : Number(line));
          this.#written--;
        }
        this.#send();
      }
    } catch (error) {
      rest = messageOf(error);
    }
    this.#fail(child);
  }

  /**
   * There is no perl or no such socket, or the process has ended: whoever waits asks in another
   * way.
   */
  #fail(child: Deno.ChildProcess | undefined): void {
    if (child === undefined || child !== this.#child) return;
    this.#failedAt = performance.now();
    this[Symbol.dispose]();
  }

  #look(): void {
    const now = performance.now();
    const [oldest] = this.#asked;
    if (oldest !== undefined && now - oldest.askedAt > ANSWER_MS) {
      try {
        this.#child?.kill("SIGKILL");
      } catch (error) {
        // It has just ended.
        if (!(error instanceof TypeError)) throw error;
      }
      this.#fail(this.#child);
    } else if (oldest === undefined && now - this.#usedAt > IDLE_MS) this[Symbol.dispose]();
  }
}
