/** Signatures by the Standard Webhooks specification, version 1 (symmetric). */
import { nodeCrypto } from "../../base/node_modules.ts";

/** A new secret in the form of the specification. */
export function newSecret(): string {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`;
}

/**
 * Headers of one delivery. `id` is the same at every retry, so that a receiver can recognize
 * repetitions.
 */
export function signedHeaders(
  secret: string,
  id: string,
  atSeconds: number,
  body: string,
): Record<string, string> {
  const key = Uint8Array.from(atob(secret.replace(/^whsec_/, "")), (c) => c.charCodeAt(0));
  const signature = nodeCrypto().createHmac("sha256", key).update(`${id}.${atSeconds}.${body}`)
    .digest("base64");
  return {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": String(atSeconds),
    "webhook-signature": `v1,${signature}`,
  };
}
