/** The hosts that `mosaic host add` has noted for this user: where `--host NAME` goes. */
import { MosaicError } from "../../base/errors.ts";
import { didYouMean } from "../../base/text/nearest.ts";
import { readTextIfThere, writeFileAtomic } from "../../os/files/files.ts";

export interface Host {
  name: string;
  /** What ssh is told: `gpu1`, `ada@gpu1.lab`, or a name of the user's ssh configuration. */
  ssh: string;
  /** The executable there: an absolute path, or `mosaic`. */
  mosaic: string;
}

type Env = (name: string) => string | undefined;

export const HOST_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
/** No word that ssh takes for an option, and no blank. */
const DESTINATION = /^[A-Za-z0-9_][^\s:]*$/;

/** @throws MosaicError `failed_precondition` without a home directory */
export function hostsFile(env: Env): string {
  const home = env("XDG_CONFIG_HOME") || (env("HOME") ? `${env("HOME")}/.config` : "");
  if (home !== "") return `${home}/mosaic/hosts.json`;
  throw new MosaicError(
    "failed_precondition",
    "neither XDG_CONFIG_HOME nor HOME is set, so there is no list of hosts",
  );
}

/** @throws MosaicError `failed_precondition` if the file is not one */
export function readHosts(env: Env): Host[] {
  const path = hostsFile(env);
  const text = readTextIfThere(path);
  if (text === undefined) return [];
  try {
    const hosts: unknown = JSON.parse(text);
    if (Array.isArray(hosts) && hosts.every(isHost)) return hosts;
  } catch {
    // The error below says so.
  }
  throw new MosaicError("failed_precondition", `${path} is not a list of hosts`, {
    hint: "Move it away, and add the hosts again: mosaic host add NAME",
  });
}

function isHost(value: unknown): value is Host {
  const { name, ssh, mosaic } = (value ?? {}) as Record<string, unknown>;
  return typeof name === "string" && HOST_NAME.test(name) && typeof ssh === "string" &&
    DESTINATION.test(ssh) &&
    typeof mosaic === "string";
}

/** @throws MosaicError `not_found` */
export function hostNamed(name: string, env: Env): Host {
  const hosts = readHosts(env);
  const found = hosts.find((host) => host.name === name);
  if (found !== undefined) return found;
  throw new MosaicError(
    "not_found",
    `there is no host "${name}".${didYouMean(name, hosts.map((host) => host.name))}`,
    {
      hint: `"mosaic host list" shows them, "mosaic host add ${name}" adds it.`,
    },
  );
}

/** @throws MosaicError `invalid_argument` for a name or destination that cannot be one */
export function requireHost({ name, ssh }: Pick<Host, "name" | "ssh">): void {
  if (!HOST_NAME.test(name)) {
    throw new MosaicError("invalid_argument", `the name of the host is ${JSON.stringify(name)}`, {
      hint:
        "It must have at most 63 letters, digits, dots, dashes and underscores, and begin with a letter or digit.",
    });
  }
  if (!DESTINATION.test(ssh)) {
    throw new MosaicError("invalid_argument", `--ssh is ${JSON.stringify(ssh)}`, {
      hint:
        "Give HOST, USER@HOST, or a name of your ssh configuration; ports and keys belong there.",
    });
  }
}

export function writeHosts(hosts: readonly Host[], env: Env): void {
  const path = hostsFile(env);
  Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true, mode: 0o700 });
  writeFileAtomic(path, `${JSON.stringify(hosts, null, 2)}\n`, { mode: 0o600 });
}
