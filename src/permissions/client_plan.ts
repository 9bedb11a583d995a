/** What the verbs of the client need: a connection to the daemon, the files they were given, and nothing to run. */
import { Layout } from "../base/layout.ts";
import { addressGrant } from "./addresses.ts";
import { absolutePath, type CommandLine, hasFlag, optionValue, positionals, splitCommand } from "./arguments.ts";
import { stateDirectory } from "./daemon_plan.ts";
import { CLIENT_VARIABLES, daemonVariables, tlsFiles } from "./environment.ts";
import { type Permissions, permissions, together } from "./permissions.ts";
import type { World } from "./world.ts";

type Plan = (line: CommandLine, world: World) => Permissions;

const NOTHING = permissions({ env: [...CLIENT_VARIABLES] });

/** Variables that name a file to be read. */

const connecting: Plan = (line, world) => {
  const own = optionValue(line, "--state-dir");
  const given = optionValue(line, "--target") || (own ? undefined : world.env("MOSAIC_TARGET"));
  const read: string[] = [];
  let target = given;
  if (!target) {
    const { daemonJson, tokensFile } = new Layout(stateDirectory(own, world));
    read.push(daemonJson, tokensFile);
    target = socketOf(world.readText(daemonJson));
  }
  const net: string[] = [];
  const write: string[] = [];
  // Without a daemon the verb will say so, and needs no network for it.
  if (target) {
    const grant = addressGrant(target, "--target", world.cwd);
    net.push(...grant.net);
    if (grant.socket !== undefined) {
      read.push(grant.socket);
      write.push(grant.socket);
    }
  }
  read.push(...tlsFiles(world));
  return together(NOTHING, permissions({ read, write, net }));
};

function socketOf(text: string | undefined): string | undefined {
  try {
    const { socket } = JSON.parse(text ?? "") as { socket?: unknown };
    return typeof socket === "string" && socket !== "" ? `unix:${socket}` : undefined;
  } catch {
    return undefined;
  }
}

/** Options with a value, before the first word that is the config or the command. */
const WITH_VALUE = ["-n", "-e", "-t", "-o", "--output", "--name", "--gpus", "--env", "--tag", "--priority", "--cwd"]
  .concat(["--max-steps", "--max-duration", "--stall-timeout", "--attempts", "--backoff", "--worker-id", "--run-id"])
  .concat(["--target", "--state-dir"]);

/** The config's file, the first word. */
const configFile: Plan = (line, world) => {
  const [file] = positionals(line, WITH_VALUE);
  return permissions({ read: file === undefined || file === "-" ? [] : [absolutePath(file, world.cwd)] });
};

/** Where the program may be that `mosaic run` looks for, and the variables of its own that it is to have. */
const program: Plan = (line, world) => {
  const words = positionals(line, WITH_VALUE);
  const name = words[0] ?? line.rest[0];
  const passed = line.own.flatMap((word, at) => word === "-e" || word === "--env" ? [line.own[at + 1] ?? ""] : [])
    .filter((variable) => variable !== "" && !variable.includes("="));
  if (name === undefined) return permissions({ env: passed });
  const cwd = absolutePath(optionValue(line, "--cwd") ?? ".", world.cwd);
  const read = name.includes("/")
    ? [absolutePath(name, cwd)]
    : (world.env("PATH") ?? "").split(":").filter((directory) => directory !== "")
      .map((directory) => absolutePath(`${directory}/${name}`, cwd));
  return permissions({ read: [...read, cwd], env: passed });
};

const exported: Plan = (line, world) => {
  const out = optionValue(line, "--out");
  return permissions({ write: out === "-" ? [] : [absolutePath(out ?? ".", world.cwd)] });
};

/** Finds a fault without a daemon, and mends it. Under --permissions it looks at a daemon's command line by a shell. */
const doctor: Plan = (line, world) => {
  const stateDir = stateDirectory(optionValue(line, "--state-dir"), world);
  const own = permissions({
    read: [stateDir],
    write: hasFlag(line, "--repair") ? [stateDir] : [],
    run: ["/bin/sh"],
  });
  return hasFlag(line, "--permissions") ? together(own, planner(line, world)) : own;
};

/** Reads and replaces the tokens' file: a new one beside it first. */
const token: Plan = (line, world) => {
  const { trainer } = new Layout(stateDirectory(optionValue(line, "--state-dir"), world));
  // The new file is written beside the old one and renamed, which the runtime counts as reading it.
  return permissions({ read: [trainer], write: [trainer] });
};

/** A plan of another's permissions depends on the environment and on what says where the daemon is. */
const planner: Plan = () => permissions({ read: "all", env: "all" });

/** A daemon and a client of it in one. */
const demo: Plan = (line, world) => {
  const stateDir = optionValue(line, "--state-dir");
  const place = absolutePath(stateDir ?? (world.env("TMPDIR") || "/tmp"), world.cwd);
  return permissions({
    read: [place],
    write: [place],
    // Ports are free ones, known when the daemon listens.
    net: ["127.0.0.1"],
    run: ["/bin/sh"],
    env: daemonVariables(world),
  });
};

const demoWorker: Plan = (line, world) => {
  const directory = world.env("MOSAIC_CHECKPOINT_DIR") ||
    (world.env("MOSAIC_RUN_DIR") ? `${world.env("MOSAIC_RUN_DIR")}/checkpoints` : undefined);
  const directories = directory === undefined ? [] : [absolutePath(directory, world.cwd)];
  const files = [optionValue(line, "--config"), world.env("MOSAIC_RESUME_FROM")]
    .filter((file) => file !== undefined && file !== "").map((file) => absolutePath(file!, world.cwd));
  return permissions({ read: [...directories, ...files], write: directories, env: ["RUN_ID"] });
};

const CONNECTING = [
  ...["list", "ls", "ps", "show", "watch", "wait", "delete", "rm", "prune", "du", "compare", "steps", "episodes"],
  ...[
    "metrics",
    "events",
    "logs",
    "plot",
    "cancel",
    "stop",
    "pause",
    "resume",
    "throttle",
    "retry",
    "reset",
    "status",
    "top",
  ],
];

const PLANS: Readonly<Record<string, readonly Plan[]>> = {
  ...Object.fromEntries(CONNECTING.map((verb) => [verb, [connecting]])),
  submit: [connecting, configFile],
  run: [connecting, program],
  export: [connecting, exported],
  validate: [configFile],
  completions: [],
  token: [token],
  doctor: [doctor],
  permissions: [planner],
  demo: [demo],
  "demo-worker": [demoWorker],
};

export function clientPlan(verb: string, args: readonly string[], world: World): Permissions | undefined {
  const plans = Object.hasOwn(PLANS, verb) ? PLANS[verb]! : undefined;
  const line = splitCommand(args);
  return plans?.reduce((sum, plan) => together(sum, plan(line, world)), NOTHING);
}
