/**
 * The tokens of a state directory: a file that only its owner can read, made at the first start with `--auth token`. It is
 * read again when it changes, so that `mosaic token rotate` takes effect at once on a running daemon.
 */
import { Buffer } from "node:buffer";
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { messageOf, MosaicError } from "../base/errors.ts";
import { readTextIfThere, writeFileAtomic } from "../os/files.ts";

/** What a token lets its bearer do: look, or everything. */
export type Role = "read" | "admin";

export const ROLES: readonly Role[] = ["admin", "read"];
export type Tokens = Record<Role, string>;

/** 256 bits; the prefix lets scanners for leaked secrets know what they found. */
function newToken(role: Role): string {
  return `mosaic_${role}_${randomBytes(32).toString("base64url")}`;
}

/** Equal, in a time that does not depend on where they differ or how long they are. */
export function sameToken(a: string, b: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(a), digest(b)) && a !== "";
}

/**
 * What a run's worker is given to publish with. It is made from the run's session token, so that it lives as long and is
 * kept nowhere else, and does not tell it: delivering, and reporting the worker's exit, stays its proxy's.
 */
export function workerToken(sessionToken: string): string {
  return createHash("sha256").update(`mosaic worker ${sessionToken}`).digest("hex").slice(0, 32);
}

/** @throws MosaicError `failed_precondition` when others can read the file, or it is none of ours. */
export function readTokens(path: string): Tokens | undefined {
  const text = readTextIfThere(path);
  if (text === undefined) return undefined;
  const mode = Deno.statSync(path).mode;
  if (mode !== null && (mode & 0o077) !== 0) {
    throw new MosaicError(
      "failed_precondition",
      `${path} can be read by others (mode ${(mode & 0o777).toString(8)})`,
      { hint: `The tokens in it may be known: run "mosaic token rotate", which also sets mode 600.` },
    );
  }
  try {
    const { admin, read } = JSON.parse(text) as Partial<Tokens>;
    if (typeof admin === "string" && admin !== "" && typeof read === "string" && read !== "") return { admin, read };
  } catch {
    // Torn or foreign; said below, without its text.
  }
  throw new MosaicError("failed_precondition", `${path} holds no tokens`, {
    hint: `Run "mosaic token rotate" to write new ones.`,
  });
}

/** The tokens; made when there are none. */
export function ensureTokens(path: string): Tokens {
  return readTokens(path) ?? rotateTokens(path, ROLES);
}

/** Gives the roles new tokens; the old ones are worth nothing from then on. */
export function rotateTokens(path: string, roles: readonly Role[]): Tokens {
  let before: Partial<Tokens> = {};
  try {
    before = readTokens(path) ?? {};
  } catch {
    // Readable by others or broken: all of it is replaced.
    roles = ROLES;
  }
  const tokens = { admin: before.admin ?? newToken("admin"), read: before.read ?? newToken("read") };
  for (const role of roles) tokens[role] = newToken(role);
  try {
    writeFileAtomic(path, JSON.stringify(tokens, null, 2) + "\n", { mode: 0o600, durable: true });
  } catch (error) {
    throw new MosaicError("unavailable", `cannot write ${path}: ${messageOf(error)}`, { cause: error });
  }
  return tokens;
}

/** The file as the daemon uses it. */
export class TokenFile {
  readonly path: string;
  #tokens: Tokens | undefined;
  #seen: string;

  /** @param options.create whether the file is made when it is not there; else nobody has a token until it is */
  constructor(path: string, { create = true } = {}) {
    this.path = path;
    this.#tokens = create ? ensureTokens(path) : readTokens(path);
    this.#seen = this.#tokens === undefined ? "" : this.#look();
  }

  /** The role a token stands for; undefined when it is none of the file's. */
  roleOf(token: string): Role | undefined {
    this.#refresh();
    if (this.#tokens === undefined) return undefined;
    // Both are compared whatever the first gives: the time tells nothing of which it was.
    const [admin, read] = [sameToken(token, this.#tokens.admin), sameToken(token, this.#tokens.read)];
    return admin ? "admin" : read ? "read" : undefined;
  }

  #look(): string {
    const { ino, mtime, size } = Deno.statSync(this.path);
    return `${ino} ${mtime?.getTime()} ${size}`;
  }

  #refresh(): void {
    try {
      const seen = this.#look();
      if (seen === this.#seen) return;
      this.#tokens = readTokens(this.path) ?? this.#tokens;
      this.#seen = seen;
    } catch {
      // Gone, or made readable by others under a running daemon: what was read last holds until there is a good one.
    }
  }
}
