/**
 * `mosaic list --all-hosts`: the runs of this host and of every host of `mosaic host list`, each by
 * its own daemon.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { parsedJson } from "../../base/text/json_text.ts";
import { shortIds } from "../../base/text/format.ts";
import { escapeControl } from "../../base/text/terminal_text.ts";
import { selfCommand } from "../../os/processes/self.ts";
import { chooseColumns } from "../../runs/fields/run_columns.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";
import type { Context } from "../link/context.ts";
import { EXIT } from "../link/exit.ts";
import { DEFAULT_COLUMNS, listColumns } from "../text/runs_table.ts";
import { table } from "../text/table.ts";
import { commaSeparated } from "../verb/flags.ts";
import { type Host, readHosts } from "./host_list.ts";
import { remoteLine, scriptThere } from "./ssh.ts";

type Found = RunJson & { host: string };

const HERE = "(here)";
const LIMIT_MS = 60_000;
const UNSUPPORTED = ["watch", "groupBy", "quiet", "target", "host"];

/**
 * @param args of `list`
 * @returns the exit code: 3 if a host did not answer, whose name is on standard error
 * @throws MosaicError `invalid_argument` for an option that is about one host
 */
export async function listAllHosts(
  context: Context,
  args: readonly string[],
  flags: Record<string, unknown>,
): Promise<number> {
  const [wrong] = UNSUPPORTED.filter((name) => flags[name] !== undefined);
  if (wrong !== undefined) {
    throw new MosaicError("invalid_argument", `--all-hosts cannot be together with --${wrong}`);
  }
  const words = ["list", ...withoutOutput(args), "-o", "json"];
  const hosts = readHosts(context.env);
  const asked = await Promise.all(
    [undefined, ...hosts].map(async (host) => await listOf(context, host, words)),
  );
  const runs = asked.flatMap((one) => one.runs).toSorted((a, b) =>
    a.submitted_at < b.submitted_at ? 1 : -1
  );
  for (const { why } of asked) {
    if (why !== undefined) context.err.write(`mosaic: ${escapeControl(why)}\n`);
  }
  const code = asked.some(({ why }) => why !== undefined) ? EXIT.unreachable : EXIT.ok;
  if (flags["output"] === "json") context.out.write(`${JSON.stringify(runs, null, 2)}\n`);
  else if (flags["output"] === "jsonl") {
    context.out.write(runs.map((run) => `${JSON.stringify(run)}\n`).join(""));
  } else {
    const ids = shortIds(runs.map(({ run_id }) => run_id));
    const all = listColumns({ now: context.now(), shortId: (id) => ids.get(id) ?? id });
    const chosen = typeof flags["columns"] === "string"
      ? commaSeparated(flags["columns"])
      : DEFAULT_COLUMNS;
    const { isTty, width, color } = context.terminal;
    const columns = [
      { name: "host", text: (run: Found) => run.host },
      ...chooseColumns(chosen, all),
    ];
    context.out.write(table<Found>(columns, runs, { width: isTty ? width : undefined, color }));
  }
  return code;
}

/** The format is for here; a host answers in JSON. */
function withoutOutput(args: readonly string[]): string[] {
  const words = args.filter((word) => word !== "--all-hosts" && !/^(--output=|-o.)/.test(word));
  const at = words.findIndex((word) => word === "-o" || word === "--output");
  return at < 0 ? words : words.toSpliced(at, 2);
}

/** @param host undefined: this one */
async function listOf(
  context: Context,
  host: Host | undefined,
  words: readonly string[],
): Promise<{ runs: Found[]; why?: string }> {
  const name = host?.name ?? HERE;
  try {
    const { argv, env } = selfCommand();
    const { code, stdout, stderr } = host === undefined
      ? await context.runScript('exec "$@"', ["sh", ...argv, ...words], {
        env: { ...context.variables(), ...env },
        cwd: "/",
        limitMs: LIMIT_MS,
      })
      : await scriptThere(context, host, remoteLine([host.mosaic, ...words]), LIMIT_MS);
    if (code !== 0) {
      return {
        runs: [],
        why: `host ${name}: ${stderr.trim().split("\n")[0]!.replace(/^mosaic: /, "")}`,
      };
    }
    // The name of the host is this side's word, whatever the other side says.
    return { runs: runsIn(stdout).map((run) => ({ ...run, host: name })) };
  } catch (error) {
    return { runs: [], why: `host ${name}: ${messageOf(error)}` };
  }
}

/**
 * A host's answer is the word of others: one that cannot be shown must not take those of the other
 * hosts with it. @throws MosaicError `internal`
 */
function runsIn(stdout: string): RunJson[] {
  const columns = listColumns({ now: 0, shortId: (id) => id.slice(0, 1) });
  try {
    const runs = parsedJson(stdout) as RunJson[];
    for (const run of runs) {
      run.submitted_at.slice(0, 1);
      for (const column of columns) column.text(run);
    }
    return runs;
  } catch {
    throw new MosaicError("internal", "its answer is not a list of runs, as this version has them");
  }
}
