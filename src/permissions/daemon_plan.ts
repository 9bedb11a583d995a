/** The permissions that `mosaic daemon ARGS` needs, and those needed only for its start. */
import { DEFAULT_HTTP, DEFAULT_LISTEN, GPU_LOCKS } from "../base/agreed.ts";
import { Layout, resolveStateDir } from "../base/layout.ts";
import { socketPlace, tlsSocket } from "../os/files/socket_path.ts";
import { addressGrant, urlGrant } from "./addresses.ts";
import { absolutePath, optionValue, ownWords } from "./find_option.ts";
import { notifyGrants } from "./notify_grants.ts";
import { COLLECTOR_VARIABLES, daemonVariables } from "./variables.ts";
import { type Permissions, permissions, together } from "./permissions.ts";
import type { World } from "./world.ts";

/** Options that name a file to be read. */
const FILES = ["--tls-cert", "--tls-key", "--tls-ca"];

export interface DaemonNeeds {
  /**
   * Only for the start: certificates, the secrets of --notify, the environment, listening on a port
   * that the system selects.
   */
  start: Permissions;
  /** As long as it runs: includes its listeners, because a failed one is started again. */
  always: Permissions;
}

export function daemonPlan(args: readonly string[], world: World): Permissions {
  const { start, always } = daemonNeeds(args, world);
  return together(start, always);
}

export function daemonNeeds(args: readonly string[], world: World): DaemonNeeds {
  const words = ownWords(args);
  const stateDir = stateDirectory(optionValue(words, "--state-dir"), world);
  const net: string[] = [];
  const certificates: string[] = [];
  // /dev/null is opened as a placeholder for descriptors that must be kept free.
  const read = [stateDir, "/dev/null"];
  const write = [stateDir];
  const own = socketPlace(new Layout(stateDir).trainer, (name) => world.env(name));
  net.push(`unix:${own.path}`);
  if (own.directory !== undefined) {
    read.push(own.directory);
    write.push(own.directory);
  }
  const listeners = [
    ["--listen", optionValue(words, "--listen") ?? DEFAULT_LISTEN],
    ["--http", optionValue(words, "--http") ?? DEFAULT_HTTP],
  ] as const;
  const isTls = optionValue(words, "--tls-cert") !== undefined;
  // To know its own addresses: no webhook may be sent there.
  const onAll = listeners.some(([, address]) => /^(0\.0\.0\.0|\[::\]):/.test(address));
  for (const [option, address] of listeners) {
    if (address === "none" || (option === "--http" && address === "off")) continue;
    if (isTls && option === "--http") net.push(`unix:${tlsSocket(own.path)}`);
    const grant = addressGrant(address, option, world.cwd);
    net.push(...grant.net);
    if (grant.socket === undefined) continue;
    read.push(grant.socket);
    write.push(grant.socket);
  }
  const locks = optionValue(words, "--gpu-locks") ?? GPU_LOCKS;
  if (locks !== "off" && optionValue(words, "--gpus") !== "0") {
    read.push(absolutePath(locks, world.cwd));
    write.push(absolutePath(locks, world.cwd));
  }
  // GROUP:PATH; the daemon reads its directory's mode.
  const shared = optionValue(words, "--group-socket")?.replace(/^[^:]*:/, "");
  if (shared !== undefined) {
    const socket = absolutePath(shared, world.cwd);
    net.push(`unix:${socket}`);
    read.push(socket.replace(/(.)\/[^/]*$/, "$1"));
    write.push(socket);
  }
  // In addition to a listener with TLS there is a plain one on loopback, for the daemon's own
  // proxies.
  if (isTls) net.push("127.0.0.1:0");
  const webhook = optionValue(words, "--webhook");
  if (webhook !== undefined) net.push(urlGrant(webhook, "--webhook"));
  const messages = optionValue(words, "--notify");
  const secrets: string[] = [];
  if (messages !== undefined) {
    const file = absolutePath(messages, world.cwd);
    const grants = notifyGrants(world.readText(file));
    // A successor of this daemon is planned by it.
    read.push(file);
    certificates.push(...grants.read);
    net.push(...grants.net);
    secrets.push(...grants.env);
  }
  for (const name of COLLECTOR_VARIABLES) {
    const endpoint = world.env(name);
    if (endpoint) net.push(urlGrant(endpoint, name));
  }
  for (const option of FILES) {
    const file = optionValue(words, option);
    if (file !== undefined) certificates.push(absolutePath(file, world.cwd));
  }
  const notify = world.env("NOTIFY_SOCKET");
  if (notify) {
    const from = notifyFrom(stateDir, (name) => world.env(name));
    net.push(`unix:${from}`, `unix:${notify}`);
    read.push(from);
    write.push(from);
    if (notify.startsWith("/")) {
      read.push(notify);
      write.push(notify);
    }
  }
  // Port 0 means any free port, so all ports of the host are granted.
  const [anyPort, fixed] = [
    net.filter((entry) => entry.endsWith(":0")),
    net.filter((entry) => !entry.endsWith(":0")),
  ];
  return {
    start: permissions({
      read: certificates,
      net: anyPort,
      env: [...daemonVariables(world), ...secrets],
      sys: ["hostname", "uid"],
    }),
    always: permissions({
      read,
      write,
      net: fixed,
      run: ["/bin/sh"],
      sys: ["loadavg", "systemMemoryInfo", "statfs", ...(onAll ? ["networkInterfaces"] : [])],
    }),
  };
}

/** Path of the daemon's own end of the service manager's socket. */
export function notifyFrom(stateDir: string, env: (name: string) => string | undefined): string {
  // Systemd may name several, separated by colons.
  const runtime = env("RUNTIME_DIRECTORY")?.split(":")[0];
  return `${runtime || stateDir}/notify.sock`;
}

function stateDirectory(option: string | undefined, world: World): string {
  return resolveStateDir(option && absolutePath(option, world.cwd), (name) => world.env(name));
}
