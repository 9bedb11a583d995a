/**
 * Whether the daemon has the permissions for a webhook that a run's config names. The permissions
 * are planned from the daemon's options, before any config is known; so a webhook beyond them is
 * refused at submission.
 */
import { MosaicError } from "../../base/errors.ts";
import { urlGrant } from "../../permissions/addresses.ts";
import { isGranted } from "../../permissions/granted.ts";
import { howToAllow } from "../../permissions/missing.ts";

export interface NamedWebhook {
  url: string;
  secretFile: string | null;
}

/**
 * @throws MosaicError `permission_denied` naming the field, the host or file, and what to start the
 * daemon with
 */
export function requireReach(webhook: NamedWebhook, granted: typeof isGranted = isGranted): void {
  const host = urlGrant(webhook.url, "metadata.webhook");
  const flags: string[] = [];
  const lacks: string[] = [];
  if (!granted("net", host)) {
    flags.push(`--allow-net=${host}`);
    lacks.push(`metadata.webhook: this daemon may not connect to ${host}`);
  }
  if (webhook.secretFile !== null && !granted("read", webhook.secretFile)) {
    flags.push(`--allow-read=${webhook.secretFile}`);
    lacks.push(`metadata.webhook.secret_file: this daemon may not read ${webhook.secretFile}`);
  }
  if (lacks.length === 0) return;
  throw new MosaicError("permission_denied", lacks.join("; "), {
    hint: howToAllow(flags, "the daemon"),
  });
}
