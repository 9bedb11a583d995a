/**
 * Certificates for tests: X.509 version 3, ECDSA on P-256, written here so that the tests need no
 * openssl.
 */
import { Buffer } from "node:buffer";
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

const SEQUENCE = 0x30;
const SET = 0x31;
const OID = 0x06;
const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const UTF8_STRING = 0x0c;
const UTC_TIME = 0x17;
/** BOOLEAN true. */
const TRUE = Uint8Array.of(0x01, 0x01, 0xff);
/** In a SubjectAltName. */
const [DNS_NAME, IP_ADDRESS] = [0x82, 0x87];

const COMMON_NAME = Uint8Array.of(OID, 3, 0x55, 0x04, 0x03);
const BASIC_CONSTRAINTS = Uint8Array.of(OID, 3, 0x55, 0x1d, 0x13);
const SUBJECT_ALT_NAME = Uint8Array.of(OID, 3, 0x55, 0x1d, 0x11);
const ECDSA_WITH_SHA256 = Uint8Array.of(OID, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02);

const DAY_MS = 86_400_000;

/** One value of DER: tag, length, content. */
function der(tag: number, ...content: Uint8Array[]): Uint8Array {
  const size = content.reduce((n, part) => n + part.length, 0);
  const length = size < 0x80
    ? [size]
    : size < 0x100
    ? [0x81, size]
    : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([Uint8Array.of(tag, ...length), ...content]);
}

const text = (tag: number, value: string) => der(tag, new TextEncoder().encode(value));
const nameOf = (name: string) =>
  der(SEQUENCE, der(SET, der(SEQUENCE, COMMON_NAME, text(UTF8_STRING, name))));
const timeOf = (ms: number) =>
  text(UTC_TIME, new Date(ms).toISOString().replace(/^..|[-:T]|\..*$/g, "") + "Z");
const algorithm = der(SEQUENCE, ECDSA_WITH_SHA256);
const bits = (bytes: Uint8Array) => der(BIT_STRING, Uint8Array.of(0), bytes);

interface Subject {
  name: string;
  publicKey: KeyObject;
  extension: Uint8Array;
}

function certificate(
  { name, publicKey, extension }: Subject,
  issuer: { name: string; privateKey: KeyObject },
): string {
  const now = Date.now();
  const body = der(
    SEQUENCE,
    der(0xa0, der(INTEGER, Uint8Array.of(2))),
    // Not negative, and without a leading zero.
    der(INTEGER, Uint8Array.of(0x40, ...randomBytes(15))),
    algorithm,
    nameOf(issuer.name),
    der(SEQUENCE, timeOf(now - DAY_MS), timeOf(now + 2 * DAY_MS)),
    nameOf(name),
    publicKey.export({ type: "spki", format: "der" }) as Uint8Array,
    der(0xa3, der(SEQUENCE, extension)),
  );
  const whole = der(SEQUENCE, body, algorithm, bits(sign("sha256", body, issuer.privateKey)));
  const lines = Buffer.from(whole).toString("base64").match(/.{1,64}/g)!;
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}

/**
 * An authority, and certificates of it for `localhost`, for a further IPv4 address and for a
 * client.
 */
export function certificates(directory: string, address?: string) {
  const at = (name: string) => `${directory}/${name}.pem`;
  const keys = () => generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const ca = { name: "test authority", ...keys() };
  const isAuthority = der(
    SEQUENCE,
    BASIC_CONSTRAINTS,
    TRUE,
    der(OCTET_STRING, der(SEQUENCE, TRUE)),
  );
  Deno.writeTextFileSync(at("ca"), certificate({ ...ca, extension: isAuthority }, ca));
  const addresses = ["127.0.0.1", ...(address === undefined ? [] : [address])];
  const names = der(
    SEQUENCE,
    text(DNS_NAME, "localhost"),
    ...addresses.map((one) => der(IP_ADDRESS, Uint8Array.from(one.split("."), Number))),
  );
  const extension = der(SEQUENCE, SUBJECT_ALT_NAME, der(OCTET_STRING, names));
  for (const name of ["server", "client"]) {
    const { publicKey, privateKey } = keys();
    Deno.writeTextFileSync(
      at(`${name}-key`),
      privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    );
    Deno.writeTextFileSync(at(name), certificate({ name, publicKey, extension }, ca));
  }
  return {
    ca: at("ca"),
    server: { cert: at("server"), key: at("server-key") },
    client: { cert: at("client"), key: at("client-key") },
  };
}
