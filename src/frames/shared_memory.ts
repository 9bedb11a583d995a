/**
 * Files of shared memory. Under a permission set the runtime opens nothing below /dev, so a child
 * of the permitted /bin/sh does: a perl process that reads and writes on request, while somebody
 * needs it. It removes the files that it has created when its input ends, also if the requesting
 * process was killed. If the helper itself is killed, the next one reuses the name: files created
 * here have a mode that no other program uses, and are locked while their creator is alive.
 */
import { messageOf, MosaicError } from "../base/errors.ts";

/**
 * Requests are lines, followed by bytes after `write`; answers are a length, a line feed and that
 * many bytes.
 */
const HELPER = String.raw`
use strict; use Fcntl qw(:DEFAULT :flock :seek);
$SIG{$_} = "IGNORE" for qw(INT TERM HUP PIPE);
binmode STDIN; binmode STDOUT; $| = 1;
fcntl STDOUT, 1031, 1 << 20; # F_SETPIPE_SZ: a frame goes at once
my %made; my $mark = 01600;
sub answer { print length($_[0]), "\n", $_[0] }
sub drop {
  my $file = delete $made{$_[0]} or return;
  my @is = lstat "/dev/shm/$_[0]"; my @was = stat $file;
  unlink "/dev/shm/$_[0]" if @is && $is[0] == $was[0] && $is[1] == $was[1];
}
sub leftover {
  my ($path, $file) = "/dev/shm/$_[0]";
  sysopen($file, $path, O_RDWR | O_NOFOLLOW | O_NONBLOCK) && -f $file or return;
  my ($mode, $owner) = (stat _)[2, 4];
  unlink $path if $owner == $> && ($mode & 07777) == $mark && flock $file, LOCK_EX | LOCK_NB;
}
sub foreign {
  my ($path, $file, $begin) = ("/dev/shm/$_[0]", undef, "");
  sysopen($file, $path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) && -f $file or return;
  return if ((stat _)[2] & 07777) == $mark;
  sysread $file, $begin, length $_[1];
  unlink $path if $begin eq $_[1];
}
while (defined(my $line = <STDIN>)) {
  chomp $line;
  my ($op, $name, @n) = split / /, $line;
  if ($op eq "list") {
    opendir(my $d, "/dev/shm") or do { answer(""); next };
    answer(join "\n", grep { index($_, $name) == 0 } readdir $d);
  } elsif ($op eq "read") {
    my ($out, $file) = "";
    if (sysopen($file, "/dev/shm/$name", O_RDONLY | O_NOFOLLOW | O_NONBLOCK) and -f $file) {
      $out = pack "Q<", -s $file;
      while (@n) {
        my ($at, $length) = splice @n, 0, 2;
        my $bytes = "";
        sysseek $file, $at, SEEK_SET;
        last if (sysread($file, $bytes, $length) // 0) < $length;
        $out .= $bytes;
      }
    }
    answer($out);
  } elsif ($op eq "make") {
    drop($name);
    leftover($name);
    my $file;
    if (sysopen($file, "/dev/shm/$name", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600)) {
      $made{$name} = $file;
      flock $file, LOCK_EX | LOCK_NB;
      chmod $mark, $file;
      answer(truncate($file, $n[0]) ? "" : "$!");
    } else { answer($!{EEXIST} ? "exists" : "$!") }
  } elsif ($op eq "write") {
    my $trouble = "";
    while (@n) {
      my ($at, $length) = splice @n, 0, 2;
      last if read(STDIN, my $bytes, $length) != $length;
      my $file = $made{$name} or next;
      sysseek $file, $at, SEEK_SET;
      $trouble = "$!" if (syswrite($file, $bytes) // -1) != $length;
    }
    answer($trouble);
  } elsif ($op eq "drop") { drop($name); leftover($name); answer("") }
  elsif ($op eq "clear") { foreign($name, $n[0]); answer("") }
}
drop($_) for keys %made;
`;

/** A request that is not answered in this time has failed; the next one starts another helper. */
const LIMIT_MS = 10_000;
/** Space for an answer of unknown length. */
const HEAD_BYTES = 4096;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export interface Range {
  at: number;
  bytes: Uint8Array;
}

export class SharedMemory implements Disposable {
  #child: Deno.ChildProcess | undefined;
  #in: WritableStreamDefaultWriter<Uint8Array> | undefined;
  #out: ReadableStreamBYOBReader | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  /** Buffer of the last answer, reused: frames are large, and thirty a second would be garbage. */
  #buffer = new Uint8Array(0);

  /** Names that begin with `prefix`. */
  async list(prefix: string): Promise<string[]> {
    return decoder.decode(await this.#request(`list ${prefix}`)).split("\n").filter((name) =>
      name !== ""
    );
  }

  /**
   * Bytes of a plain file, the ranges joined, and its size; fewer if a range does not exist.
   * undefined: there is no such plain file. The bytes are valid until the next request.
   */
  async read(
    name: string,
    ...ranges: [at: number, length: number][]
  ): Promise<{ size: number; bytes: Uint8Array } | undefined> {
    const capacity = ranges.reduce((sum, [, length]) => sum + length, 32);
    const answer = await this.#request(["read", name, ...ranges.flat()].join(" "), [], capacity);
    if (answer.length < 8) return undefined;
    const size = Number(new DataView(answer.buffer, answer.byteOffset).getBigUint64(0, true));
    return { size, bytes: answer.subarray(8) };
  }

  /** Creates a file of zeros for this user. @returns "exists", another reason of failure, or "" */
  async make(name: string, bytes: number): Promise<string> {
    return decoder.decode(await this.#request(`make ${name} ${bytes}`));
  }

  /** Writes ranges to a file that was created here. @returns the reason of failure, or "" */
  async write(name: string, ranges: readonly Range[]): Promise<string> {
    const line = ["write", name, ...ranges.flatMap(({ at, bytes }) => [at, bytes.length])].join(
      " ",
    );
    return decoder.decode(await this.#request(line, ranges.map(({ bytes }) => bytes)));
  }

  /** Removes a file that was created here, or by a helper that was killed. */
  async drop(name: string): Promise<void> {
    await this.#request(`drop ${name}`);
  }

  /**
   * Removes another program's plain file that begins with `magic` (no spaces), if this user may.
   */
  async clear(name: string, magic: string): Promise<void> {
    await this.#request(`clear ${name} ${magic}`);
  }

  /** Removes the files created here. */
  [Symbol.dispose](): void {
    this.#in?.close().catch(() => {});
    this.#out?.cancel().catch(() => {});
    this.#child = this.#in = this.#out = undefined;
  }

  /**
   * One request after the other. @param capacity approximate length of the answer @throws
   * MosaicError `failed_precondition` if the helper cannot run
   */
  #request(
    line: string,
    bodies: readonly Uint8Array[] = [],
    capacity = HEAD_BYTES,
  ): Promise<Uint8Array> {
    const response = this.#turn.then(async () => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(
          () => reject(new Error(`perl has not answered in ${LIMIT_MS / 1000} s`)),
          LIMIT_MS,
        );
      });
      try {
        this.#start();
        return await Promise.race([late, this.#exchange(line, bodies, capacity)]);
      } catch (error) {
        this[Symbol.dispose]();
        throw new MosaicError(
          "failed_precondition",
          `shared memory cannot be reached: ${messageOf(error)}`,
          {
            hint:
              "mosaic reads and writes /dev/shm by perl: install it (Debian: perl-base), or start it again.",
            cause: error,
          },
        );
      } finally {
        clearTimeout(timer);
      }
    });
    this.#turn = response.catch(() => {});
    return response;
  }

  async #exchange(
    line: string,
    bodies: readonly Uint8Array[],
    capacity: number,
  ): Promise<Uint8Array> {
    await this.#in!.write(encoder.encode(`${line}\n`));
    for (const body of bodies) await this.#in!.write(body);
    return await this.#answer(capacity);
  }

  #start(): void {
    if (this.#child !== undefined) return;
    this.#child = new Deno.Command("/bin/sh", {
      args: ["-c", 'exec perl -e "$0"', HELPER],
      ...{ stdin: "piped", stdout: "piped", stderr: "null", env: { LC_ALL: "C" }, clearEnv: true },
    }).spawn();
    // The helper must not keep this process alive.
    this.#child.unref();
    this.#in = this.#child.stdin.getWriter();
    this.#out = this.#child.stdout.getReader({ mode: "byob" });
  }

  /** Answers come one at a time, and nothing follows before the next request. */
  async #answer(capacity: number): Promise<Uint8Array> {
    let buffer = this.#buffer.length >= capacity ? this.#buffer : new Uint8Array(capacity);
    let have = 0;
    let [begin, end] = [0, Infinity];
    while (have < end) {
      const { value, done } = await this.#out!.read(buffer.subarray(have));
      if (done || value === undefined) throw new Error("there is no perl, or it has ended");
      buffer = new Uint8Array(value.buffer);
      have += value.length;
      if (end < Infinity) continue;
      begin = buffer.indexOf(10) + 1;
      if (begin === 0) continue;
      end = begin + Number(decoder.decode(buffer.subarray(0, begin - 1)));
      if (end <= buffer.length) continue;
      const whole = new Uint8Array(end);
      whole.set(buffer.subarray(0, have));
      buffer = whole;
    }
    this.#buffer = buffer;
    return buffer.subarray(begin, end);
  }
}
