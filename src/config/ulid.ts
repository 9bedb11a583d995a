/**
 * Run ids: ULIDs (48 bits of milliseconds, 80 random bits) in upper-case Crockford base 32, which
 * sort by time.
 */

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const PATTERN = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

export function isUlid(text: unknown): text is string {
  return typeof text === "string" && PATTERN.test(text);
}

let last = 0n;

/**
 * A new id, greater than every earlier one of this process, also within one millisecond and when
 * the clock steps back.
 * @param now Unix milliseconds
 */
export function newUlid(now: number = Date.now()): string {
  const random = crypto.getRandomValues(new Uint8Array(10)).reduce(
    (n, byte) => (n << 8n) | BigInt(byte),
    0n,
  );
  // The top random bit stays clear so that counting on from it within one millisecond does not
  // reach into the time.
  const fresh = (BigInt(now) << 80n) | (random >> 1n);
  last = fresh > last ? fresh : last + 1n;
  let text = "";
  for (let bits = 125n; bits >= 0n; bits -= 5n) text += ALPHABET[Number((last >> bits) & 31n)];
  return text;
}
