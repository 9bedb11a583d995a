/**
 * What the file of `--notify` needs: the hosts that it names, and the files and variables with
 * secrets.
 */
import { isPlainObject } from "../base/text/exact_numbers.ts";
import { urlGrant } from "./addresses.ts";

export interface NotifyGrants {
  net: string[];
  read: string[];
  env: string[];
}

const PORTS: Record<string, string> = { "smtp:": "587", "smtps:": "465" };

/** Of a file that is not as it must be, what can be read: the daemon says what is wrong. */
export function notifyGrants(text: string | undefined): NotifyGrants {
  const grants: NotifyGrants = { net: [], read: [], env: [] };
  let value: unknown;
  try {
    value = JSON.parse(text ?? "");
  } catch {
    return grants;
  }
  const receivers = isPlainObject(value) && Array.isArray(value.receivers) ? value.receivers : [];
  for (const receiver of receivers.filter(isPlainObject)) {
    const { slack, discord, teams, ntfy, telegram, http, mail } = receiver;
    const urls: unknown[] = [slack, discord, teams, ntfy];
    if (isPlainObject(telegram)) urls.push(telegram.api ?? "https://api.telegram.org");
    if (isPlainObject(http)) urls.push(http.url);
    if (isPlainObject(mail)) urls.push(mail.smtp);
    grants.net.push(...urls.flatMap(hostOf));
    if (typeof receiver.secret_file === "string") grants.read.push(receiver.secret_file);
    if (typeof receiver.secret_env === "string") grants.env.push(receiver.secret_env);
  }
  return grants;
}

function hostOf(url: unknown): string[] {
  if (typeof url !== "string" || !URL.canParse(url)) return [];
  const { protocol, hostname, port } = new URL(url);
  return protocol in PORTS
    ? [`${hostname}:${port || PORTS[protocol]}`]
    : [urlGrant(url, "--notify")];
}
