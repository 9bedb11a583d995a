/** `mosaic host`: other hosts, reached by ssh. */
import { Argument, type Command } from "commander";
import { MosaicError } from "../../../base/errors.ts";
import { escapeControl } from "../../../base/text/terminal_text.ts";
import { VERSION, VERSION_TEXT } from "../../../base/version.ts";
import { ownEnvironment } from "../../../os/processes/environment.ts";
import { type Host, hostNamed, readHosts, requireHost, writeHosts } from "../../hosts/host_list.ts";
import { mosaicThere, remoteLine, scriptThere, sshCommand } from "../../hosts/ssh.ts";
import type { Context } from "../../link/context.ts";
import { table } from "../../text/table.ts";
import { outputOption } from "../../verb/flags.ts";
import { manual, oneOf } from "../../verb/verb_parser.ts";

const ACTIONS = ["add", "list", "remove"] as const;
const COPY_MS = 600_000;

interface Flags {
  ssh?: string;
  yes?: boolean;
  output: string;
}

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Adds, lists and removes hosts on which --host NAME runs commands, by your own ssh.",
    )
    .addArgument(oneOf(new Argument("<what>", "action"), ACTIONS))
    .argument("[name]", "what the host is called here")
    .option(
      "--ssh <destination>",
      "what ssh connects to: HOST, USER@HOST or a name of your ssh configuration (default: the name)",
    )
    .option(
      "-y, --yes",
      "ask nothing: put the executable there and start a daemon if there is none",
    );
  outputOption(command, ["table", "json"])
    .addHelpText(
      "after",
      manual({
        details:
          "add looks for mosaic on the host; if this version is not there, it asks, and copies this executable to " +
          "~/.local/bin/mosaic. Then it starts your daemon there, if none runs (mosaic up).\n\n" +
          "Every verb takes --host NAME: the command runs on that host. run and sweep take the code along: the commit, and " +
          "what differs from it. Files that a command names are files of that host.",
        examples: [
          [
            "mosaic host add gpu1",
            "note the host; put mosaic there and start a daemon, after asking",
          ],
          ["mosaic host add lab --ssh ada@gpu2.lab.example", "under a name of your own"],
          [
            "mosaic run --host gpu1 --gpus 1 -- python train.py",
            "train there with the code from here",
          ],
          ["mosaic logs --host gpu1 -f @last", "any other verb, there"],
          ["mosaic open --host gpu1", "the page of that host, here"],
          ["mosaic list --all-hosts", "the runs of this host and all others"],
        ],
        exits: { 3: "the host cannot be reached", 4: "there is no such host" },
      }),
    )
    .action(async (what: typeof ACTIONS[number], name: string | undefined, flags: Flags) => {
      if (what === "list") {
        await list(context, flags);
        return;
      }
      if (name === undefined) return command.error(`"host ${what}" needs a name`);
      if (what === "remove") {
        hostNamed(name, context.env);
        writeHosts(readHosts(context.env).filter((host) => host.name !== name), context.env);
        return;
      }
      result.code = await add(context, { name, ssh: flags.ssh ?? name }, flags.yes === true);
    });
}

/** Notes the host after all else has worked. */
async function add(
  context: Context,
  wanted: Pick<Host, "name" | "ssh">,
  yes: boolean,
): Promise<number> {
  requireHost(wanted);
  // The directory of the list is where ssh keeps its connection.
  writeHosts(readHosts(context.env), context.env);
  const { stdout } = await scriptThere(context, wanted, FIND);
  const [, system = "", found = "", version = ""] = /^(.*)\n(.*)\n(.*)\n?$/.exec(stdout) ?? [];
  let mosaic = found;
  if (version !== VERSION_TEXT) {
    const have = found === "" ? "has no mosaic" : `has ${escapeControl(version || found)}`;
    const copy = `put this one (${VERSION}) at ~/.local/bin/mosaic there`;
    if (!yes && !await confirmed(context, `Host ${wanted.name} ${have}. Shall I ${copy}? [Y/n] `)) {
      throw new MosaicError(
        "failed_precondition",
        `host ${wanted.name} ${have}, and this is ${VERSION}`,
        {
          hint: `"mosaic host add --yes ${wanted.name}" would ${copy}.`,
        },
      );
    }
    mosaic = await copyExecutable(context, wanted, system);
  }
  const host = { ...wanted, mosaic };
  const code = await mosaicThere(context, host, ["up"]);
  if (code !== 0) return code;
  const others = readHosts(context.env).filter(({ name }) => name !== host.name);
  writeHosts([...others, host].toSorted((a, b) => a.name < b.name ? -1 : 1), context.env);
  context.err.write(`mosaic: host ${host.name} is added; try "mosaic list --host ${host.name}"\n`);
  return 0;
}

/** System, path of mosaic, its version; one line each. */
const FIND = `uname -sm
found=$(command -v mosaic) || found=$HOME/.local/bin/mosaic
[ -x "$found" ] || found=
printf '%s\\n' "$found"
[ -z "$found" ] || "$found" --version 2>/dev/null || echo`;

async function confirmed(context: Context, question: string): Promise<boolean> {
  return context.canAsk && /^(y|yes)?$/i.test((await context.ask(question) ?? "n").trim());
}

/** @returns its path there */
async function copyExecutable(
  context: Context,
  { name, ssh }: Pick<Host, "name" | "ssh">,
  system: string,
): Promise<string> {
  const own = ownEnvironment().MOSAIC_EXECUTABLE;
  if (!own) {
    throw new MosaicError(
      "failed_precondition",
      "this mosaic runs from its source, and only the executable can be copied",
      {
        hint: "Build it (deno task compile) and use dist/mosaic.",
      },
    );
  }
  const here = `${Deno.build.os === "linux" ? "Linux" : Deno.build.os} ${Deno.build.arch}`;
  if (system !== here) {
    throw new MosaicError(
      "failed_precondition",
      `host ${name} is ${escapeControl(system)}, and this executable is for ${here}`,
    );
  }
  // Complete, or not there: a running program keeps its own file.
  const receive =
    `mkdir -p "$HOME/.local/bin" && cat >"$HOME/.local/bin/mosaic.part" && chmod 755 "$HOME/.local/bin/mosaic.part" &&
    mv "$HOME/.local/bin/mosaic.part" "$HOME/.local/bin/mosaic" && printf %s "$HOME/.local/bin/mosaic"`;
  const words = [...sshCommand(context), "--", ssh, `exec sh -c ${remoteLine([receive])}`];
  const options = { env: { ...context.variables() }, cwd: "/", limitMs: COPY_MS };
  const { code, stdout, stderr } = await context.runScript(
    'file=$1; shift; exec "$@" <"$file"',
    ["sh", own, ...words],
    options,
  );
  if (code === 0) return stdout;
  throw new MosaicError(
    "unavailable",
    `the executable could not be copied to host ${name}: ${escapeControl(stderr.trim())}`,
  );
}

async function list(context: Context, { output }: Flags): Promise<void> {
  const hosts = await Promise.all(
    readHosts(context.env).map(async (host) => ({ ...host, ...await stateOf(context, host) })),
  );
  if (output === "json") {
    context.out.write(`${JSON.stringify(hosts, null, 2)}\n`);
    return;
  }
  const columns = (["name", "ssh", "version", "state"] as const).map((name) => ({
    name,
    text: (host: typeof hosts[number]) => host[name],
  }));
  context.out.write(table(columns, hosts, { width: undefined, color: context.terminal.color }));
}

async function stateOf(context: Context, host: Host): Promise<{ version: string; state: string }> {
  try {
    const { stdout, stderr, code } = await scriptThere(
      context,
      host,
      `${remoteLine([host.mosaic])} --version && ${remoteLine([host.mosaic, "status"])} >/dev/null`,
    );
    const version = stdout.split("\n")[0]!.replace(/^mosaic /, "");
    return {
      version,
      state: code === 0 ? "ready" : stderr.trim().split("\n")[0]!.replace(/^mosaic: /, ""),
    };
  } catch (error) {
    if (error instanceof MosaicError) return { version: "", state: error.message };
    throw error;
  }
}
