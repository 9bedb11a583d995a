/**
 * Opens a file that a worker can change where this process's permission set ends: below the working
 * directory of a run. A perl process does so, as for shared memory, by the rules of untrusted.ts:
 * no link on the way, a plain file only, the one that was found there. It holds every directory by
 * entering it, so no exchanged name can lead it elsewhere.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { notRegular } from "./untrusted_way.ts";

/** Enough to recognise any type of file. */
export const BEGINNING_BYTES = 16;

/** An open plain file, to be sent to somebody. */
export interface ServedFile {
  size: number;
  ino: number;
  mtimeMs: number;
  uid: number;
  gid: number;
  mode: number;
  /** Its first bytes, at most BEGINNING_BYTES. */
  beginning: Uint8Array;
  /** The bytes from `begin` up to `end`, once; the file is closed when they are read. */
  readable(begin: number, end: number): ReadableStream<Uint8Array<ArrayBuffer>>;
  close(): void;
}

/**
 * Arguments: the directory, and the path below it. Prints "ok SIZE INO MTIME UID GID MODE LENGTH",
 * a line, and LENGTH first bytes; or "gone" or "other". Then it reads a line "BEGIN END", prints
 * these bytes and ends.
 */
const HELPER = String.raw`
use strict;
use Fcntl qw(:DEFAULT :mode);
$| = 1;
alarm 20;
sub say_and_end { print "$_[0]\n"; exit }
sub failed { say_and_end($!{ENOENT} || $!{ENOTDIR} ? "gone" : "no $!") }
my ($directory, $path) = @ARGV;
chdir $directory or failed();
my @names = split m{/}, $path;
my $name = pop @names;
for my $one (grep { $_ ne "" && $_ ne "." } @names) {
  my @before = lstat $one or failed();
  say_and_end("other") if $one eq ".." || !S_ISDIR($before[2]);
  chdir $one or failed();
  my @after = lstat "." or failed();
  say_and_end("other") if $after[0] != $before[0] || $after[1] != $before[1];
}
my @found = lstat $name or failed();
say_and_end("other") if !S_ISREG($found[2]);
sysopen my $file, $name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW or failed();
my @opened = stat $file;
say_and_end("other") if !S_ISREG($opened[2]) || $opened[0] != $found[0] || $opened[1] != $found[1];
my $have = sysread $file, my $beginning, 16;
print join(" ", "ok", @opened[7, 1, 9, 4, 5, 2], $have // 0), "\n", $beginning;
my $line = <STDIN> // exit;
alarm 0;
my ($at, $end) = split " ", $line;
sysseek $file, $at, 0 or exit 1;
while ($at < $end) {
  my $read = sysread $file, my $bytes, $end - $at < 65536 ? $end - $at : 65536 or last;
  print $bytes or exit;
  $at += $read;
}
`;

/** A reader who stops holds a process: there are at most so many. */
const MOST_AT_ONCE = 32;
let open = 0;

/**
 * The plain file at `path` below a directory; undefined if there is none.
 *
 * @param path relative
 * @throws `permission_denied` for anything but a plain file, and behind any link;
 * `failed_precondition` without perl;
 *   `resource_exhausted` if many are being read
 */
export async function openElsewhere(
  directory: string,
  path: string,
): Promise<ServedFile | undefined> {
  if (open >= MOST_AT_ONCE) {
    throw new MosaicError(
      "resource_exhausted",
      `${open} files of workers are being sent: try again in a moment`,
    );
  }
  open++;
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", 'exec perl -e "$0" -- "$@"', HELPER, directory, path],
    ...{ stdin: "piped", stdout: "piped", stderr: "null", env: { LC_ALL: "C" }, clearEnv: true },
  }).spawn();
  child.status.finally(() => open--);
  const output = new Output(child.stdout.getReader());
  const input = child.stdin.getWriter();
  const close = () => {
    input.close().catch(() => {});
    output.cancel();
    try {
      child.kill("SIGKILL");
    } catch {
      // It has ended.
    }
  };
  try {
    const line = await output.line();
    const [word, ...numbers] = line.split(" ");
    if (word === "ok") {
      const [size, ino, mtime, uid, gid, mode, length] = numbers.map(Number) as [
        ...[number, number, number],
        ...[number, number, number, number],
      ];
      return {
        ...{ size, ino, uid, gid, mode, mtimeMs: mtime * 1000, close },
        beginning: await output.bytes(length),
        readable: (begin, end) => {
          input.write(new TextEncoder().encode(`${begin} ${end}\n`)).catch(() => {});
          return output.rest(close);
        },
      };
    }
    close();
    if (word === "gone") return undefined;
    if (word === "other") throw notRegular(path);
    if (word === "no") {
      throw new MosaicError("permission_denied", `"${path}" cannot be opened: ${line.slice(3)}`);
    }
    throw new MosaicError(
      "failed_precondition",
      `"${path}" cannot be read: there is no perl, or it has ended`,
      {
        hint:
          "The daemon may not read the run's working directory itself, so perl does: install it (Debian: perl-base).",
      },
    );
  } catch (error) {
    close();
    if (error instanceof MosaicError) throw error;
    throw new MosaicError("failed_precondition", `"${path}" cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** Longer is no line of the helper's. */
const MOST_LINE = 4096;

/** What the helper prints: a line, some bytes, and a stream. */
class Output {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;
  #ahead = new Uint8Array(0);

  constructor(reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>) {
    this.#reader = reader;
  }

  /** @returns whether more came */
  async #more(): Promise<boolean> {
    const { value } = await this.#reader.read();
    if (value === undefined) return false;
    const joined = new Uint8Array(this.#ahead.length + value.length);
    joined.set(this.#ahead);
    joined.set(value, this.#ahead.length);
    this.#ahead = joined;
    return true;
  }

  /** "" if it has ended. */
  async line(): Promise<string> {
    let end: number;
    while ((end = this.#ahead.indexOf(10)) < 0) {
      if (this.#ahead.length > MOST_LINE || !await this.#more()) return "";
    }
    const text = new TextDecoder().decode(this.#ahead.subarray(0, end));
    this.#ahead = this.#ahead.slice(end + 1);
    return text;
  }

  async bytes(length: number): Promise<Uint8Array> {
    while (this.#ahead.length < length && await this.#more());
    const bytes = this.#ahead.slice(0, length);
    this.#ahead = this.#ahead.slice(length);
    return bytes;
  }

  rest(ended: () => void): ReadableStream<Uint8Array<ArrayBuffer>> {
    return new ReadableStream({
      pull: async (controller) => {
        if (this.#ahead.length === 0 && !await this.#more()) {
          ended();
          return controller.close();
        }
        controller.enqueue(this.#ahead);
        this.#ahead = new Uint8Array(0);
      },
      cancel: ended,
    }, { highWaterMark: 0 });
  }

  cancel(): void {
    this.#reader.cancel().catch(() => {});
  }
}
