/**
 * The tokens of a state directory: a file that only its owner can read, created at the first start
 * with `--auth token`. It is read again when it changes, so that `mosaic token` takes effect at
 * once on a running daemon. It contains the secrets of two standard tokens, and a hash of each
 * named one.
 */
import type { Buffer } from "node:buffer";
import { nodeCrypto, sha256 } from "../base/node_modules.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import { readTextIfThere, writeFileAtomic } from "../os/files/files.ts";

/** What a token allows. Each role includes those before it. */
export const ROLES = ["read", "submit", "operate", "admin"] as const;
export type Role = typeof ROLES[number];

export function mayDo(role: Role, needs: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(needs);
}

export const STANDARD_TOKENS = ["admin", "read"] as const;
export type StandardToken = typeof STANDARD_TOKENS[number];

/** Only its bearer knows its secret. */
export interface NamedToken {
  name: string;
  role: Role;
  /** What it changes must be its own: runs and sweeps that it has submitted. */
  own?: boolean;
  /** It sees only what it has submitted, too. */
  alone?: boolean;
  /** SHA-256 of the secret, hexadecimal. */
  sha256: string;
  /** Unix milliseconds. */
  createdAt: number;
  /** Null: never. */
  expiresAt: number | null;
}

export type Tokens = Record<StandardToken, string> & { named: readonly NamedToken[] };

/** The token's owner. */
export interface Holder {
  name: string;
  role: Role;
  /** May change only its own runs and sweeps. */
  own?: boolean;
  /** Sees only its own, too. */
  alone?: boolean;
}

/** @param owner "": unknown; undefined: the call is about no single run */
export function notOwn(
  name: string,
  what: "run" | "sweep",
  owner: string | undefined,
): MosaicError {
  const whose = owner === undefined
    ? "this is none"
    : `this one is ${owner === "" ? "nobody's" : `${owner}'s`}`;
  return new MosaicError(
    "permission_denied",
    `the token ${name} may change only its own ${what}s, and ${whose}`,
    {
      hint:
        `"mosaic list --mine" shows them; "mosaic token create" without --own makes a token for all runs.`,
    },
  );
}

/** 256 bits; the prefix lets scanners for leaked secrets recognize it. */
function newToken(role: Role): string {
  return `mosaic_${role}_${nodeCrypto().randomBytes(32).toString("base64url")}`;
}

/** Compares in a time that does not depend on the difference or the lengths. */
export function sameToken(a: string, b: string): boolean {
  const digest = (text: string): Buffer => sha256().update(text).digest();
  return nodeCrypto().timingSafeEqual(digest(a), digest(b)) && a !== "";
}

/** @throws MosaicError `failed_precondition` if others can read the file, or it is not mosaic's. */
export function readTokens(path: string): Tokens | undefined {
  const text = readTextIfThere(path);
  if (text === undefined) return undefined;
  const mode = Deno.statSync(path).mode;
  if (mode !== null && (mode & 0o077) !== 0) {
    throw new MosaicError(
      "failed_precondition",
      `${path} can be read by others (mode ${(mode & 0o777).toString(8)})`,
      {
        hint: `The tokens in it may be known: run "mosaic token rotate", which also sets mode 600.`,
      },
    );
  }
  try {
    const { admin, read, named = [] } = JSON.parse(text) as Partial<Tokens>;
    const areSecrets = [admin, read].every((secret) => typeof secret === "string" && secret !== "");
    if (areSecrets && Array.isArray(named) && named.every(isNamed)) {
      return { admin: admin!, read: read!, named };
    }
  } catch {
    // Torn or foreign; the error below says so, without its text.
  }
  throw new MosaicError("failed_precondition", `${path} holds no tokens`, {
    hint: `Run "mosaic token rotate" to write new ones.`,
  });
}

function isNamed(token: Partial<NamedToken> | null): boolean {
  return typeof token?.name === "string" && ROLES.includes(token.role!) &&
    /^[0-9a-f]{64}$/.test(token.sha256 ?? "") &&
    typeof token.createdAt === "number" &&
    (token.expiresAt === null || typeof token.expiresAt === "number") &&
    [token.own, token.alone].every((flag) => typeof (flag ?? false) === "boolean");
}

/** The tokens; created if there are none. */
export function ensureTokens(path: string): Tokens {
  return readTokens(path) ?? changing(path, () => firstTokens(path));
}

function firstTokens(path: string): Tokens {
  return readTokens(path) ?? rotated(path, STANDARD_TOKENS);
}

/**
 * Changes of the file one after another: of two commands at one time, each would write what it has
 * read, and the token of one would be lost. The lock file stays.
 */
function changing<T>(path: string, change: () => T): T {
  let lock: Deno.FsFile | undefined;
  try {
    lock = Deno.openSync(`${path}.lock`, { read: true, write: true, create: true, mode: 0o600 });
    lock.lockSync(true);
  } catch (error) {
    // A file system without locks, or without its directory, which the change reports.
    if (error instanceof Deno.errors.NotCapable) throw error;
  }
  try {
    return change();
  } finally {
    lock?.close();
  }
}

/** Replaces standard tokens; the old ones are invalid from then on. Named ones stay. */
export function rotateTokens(path: string, which: readonly StandardToken[]): Tokens {
  return changing(path, () => rotated(path, which));
}

function rotated(path: string, which: readonly StandardToken[]): Tokens {
  let before: Partial<Tokens> = {};
  try {
    before = readTokens(path) ?? {};
  } catch {
    // Readable by others or damaged: all tokens are replaced.
    which = STANDARD_TOKENS;
  }
  const { admin = newToken("admin"), read = newToken("read"), named = [] } = before;
  const tokens = { admin, read, named };
  for (const name of which) tokens[name] = newToken(name);
  return writeTokens(path, tokens);
}

/**
 * @param token.own only for the role operate, which alone changes runs of others without being
 * allowed everything
 * @param token.alone it sees only its own runs; with the role operate, `own` as well
 * @param token.ttlMs validity; undefined: until it is revoked
 * @returns its secret, which is not stored
 * @throws MosaicError `invalid_argument` for a name that is invalid or taken
 */
export function createToken(
  path: string,
  token: {
    name: string;
    role: Role;
    own?: boolean;
    alone?: boolean;
    ttlMs?: number | undefined;
  },
): string {
  const { name, role, alone = false, ttlMs } = token;
  const own = token.own || alone && role === "operate";
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) {
    throw new MosaicError("invalid_argument", `the name of a token is ${JSON.stringify(name)}`, {
      hint:
        "It must have 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit.",
    });
  }
  if (own && role !== "operate") {
    throw new MosaicError(
      "invalid_argument",
      `a token of the role ${role} cannot be limited to its own runs`,
      {
        hint:
          "read and submit change no run of others, and admin may do everything: use the role operate.",
      },
    );
  }
  if (alone && !["submit", "operate"].includes(role)) {
    throw new MosaicError(
      "invalid_argument",
      `a token of the role ${role} cannot be limited to seeing its own runs`,
      {
        hint: role === "read"
          ? "read submits none, so it would see nothing: use the role submit or operate."
          : "admin may do everything: use the role submit or operate.",
      },
    );
  }
  return changing(path, () => added(path, { name, role, own: own === true, alone, ttlMs }));
}

function added(
  path: string,
  { name, role, own, alone, ttlMs }: {
    name: string;
    role: Role;
    own: boolean;
    alone: boolean;
    ttlMs: number | undefined;
  },
): string {
  const tokens = firstTokens(path);
  const now = Date.now();
  const taken = [...STANDARD_TOKENS, ...tokens.named.map((other) => other.name)].includes(name);
  if (taken) {
    throw new MosaicError("invalid_argument", `there is a token ${name}`, {
      hint: `Choose another name, or remove it first: mosaic token revoke --name ${name}`,
    });
  }
  const secret = newToken(role);
  const expiresAt = ttlMs === undefined ? null : now + ttlMs;
  const rights = { role, ...(own && { own }), ...(alone && { alone }) };
  const named = [...tokens.named, {
    name,
    ...rights,
    sha256: hashOf(secret),
    createdAt: now,
    expiresAt,
  }];
  writeTokens(path, { ...tokens, named });
  return secret;
}

/** The named token is invalid from then on. @throws MosaicError `not_found` */
export function revokeToken(path: string, name: string): void {
  changing(path, () => revoked(path, name));
}

function revoked(path: string, name: string): void {
  const tokens = readTokens(path);
  const named = tokens?.named.filter((token) => token.name !== name) ?? [];
  if (tokens === undefined || named.length === tokens.named.length) {
    throw new MosaicError("not_found", `there is no token ${JSON.stringify(name)}`, {
      hint:
        '"mosaic token list" shows the named ones; the tokens admin and read are replaced by "mosaic token rotate".',
    });
  }
  writeTokens(path, { ...tokens, named });
}

function writeTokens(path: string, tokens: Tokens): Tokens {
  try {
    writeFileAtomic(path, JSON.stringify(tokens, null, 2) + "\n", { mode: 0o600, durable: true });
  } catch (error) {
    throw new MosaicError("unavailable", `cannot write ${path}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  return tokens;
}

function hashOf(secret: string): string {
  return sha256().update(secret).digest("hex");
}

/** The file as the daemon uses it. */
export class TokenFile {
  readonly path: string;
  #tokens: Tokens | undefined;
  #seen: string;

  /**
   * @param options.create whether to create a missing file; otherwise no token is valid until it
   * exists
   */
  constructor(path: string, { create = true } = {}) {
    this.path = path;
    this.#tokens = create ? ensureTokens(path) : readTokens(path);
    this.#seen = this.#tokens === undefined ? "" : this.#signature();
  }

  /** The token's owner; undefined if the file does not have it, or it has expired. */
  holderOf(token: string): Holder | undefined {
    this.#refresh();
    if (this.#tokens === undefined) return undefined;
    // Both are always compared, so that the time does not reveal which one matched.
    const [admin, read] = [
      sameToken(token, this.#tokens.admin),
      sameToken(token, this.#tokens.read),
    ];
    if (admin) return { name: "admin", role: "admin" };
    if (read) return { name: "read", role: "read" };
    const hash = hashOf(token);
    const named = this.#tokens.named.find(({ sha256 }) => sha256 === hash);
    if (named === undefined || (named.expiresAt !== null && named.expiresAt <= Date.now())) {
      return undefined;
    }
    const { name, role, own = false, alone = false } = named;
    return { name, role, ...(own && { own }), ...(alone && { alone }) };
  }

  #signature(): string {
    const { ino, mtime, size } = Deno.statSync(this.path);
    return `${ino} ${mtime?.getTime()} ${size}`;
  }

  #refresh(): void {
    try {
      const seen = this.#signature();
      if (seen === this.#seen) return;
      this.#tokens = readTokens(this.path) ?? this.#tokens;
      this.#seen = seen;
    } catch {
      // Removed, or made readable by others, while the daemon runs: the last valid content applies
      // until there is a valid file.
    }
  }
}
