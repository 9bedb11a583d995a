/** `mosaic doctor` */
import { harmlessLines } from "../text.ts";
import { type Command, Option } from "commander";
import type { z } from "zod";
import type { Finding } from "../../doctor/finding.ts";
import { MosaicError } from "../../base/errors.ts";
import { resolveStateDir } from "../../base/layout.ts";
import { manual, oneOf } from "../command.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit.ts";
import type { Examination, PermissionsAudit } from "../../registry/contract.ts";
import { type Column, table } from "../table.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Examines a state directory: both databases, GPU slots, files that belong to no run, what is left of a daemon that " +
        "is gone, modes. Needs no daemon and only reads; with --repair it mends what it can, for which no daemon may run. " +
        "Nothing of a run is ever deleted: what belongs to nobody is moved to trainer/lost+found. With --permissions it " +
        "looks at something else: what this process, the daemon, a proxy and a client may do, and what they need.",
    )
    .option("--state-dir <dir>", "the directory (default: as for the daemon)")
    .option("--repair", "mend what can be mended, then examine again")
    .option("--permissions", "compare what each part is granted with what it needs")
    .addOption(oneOf(new Option("-o, --output <format>", "how to print"), ["text", "json"]).default("text"))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic doctor", "what is wrong, and what --repair would do about it"],
          ["mosaic doctor --repair", "mend it"],
          ["mosaic doctor --permissions", "what is granted, given up after the start, missing, and more than needed"],
          ["mosaic doctor -o json | jq '.findings[] | select(.severity == \"error\")'", "errors only"],
        ],
        exits: {
          0: "nothing is wrong (notes do not count)",
          1: "something is wrong, was not mended, or a permission that is needed is missing",
          4: "there is no such directory",
          6: "--repair while a daemon runs",
        },
      }),
    )
    .action(async (options: { stateDir?: string; repair?: boolean; permissions?: boolean; output: string }) => {
      if (options.permissions) {
        if (options.repair) throw new MosaicError("invalid_argument", "--permissions and --repair exclude each other");
        const stateDir = resolveStateDir(options.stateDir, context.env);
        result.code = await showPermissions(stateDir, options.output, context);
        return;
      }
      const { examine, repair } = await import("../../doctor/doctor.ts");
      const stateDir = resolveStateDir(options.stateDir, context.env);
      const { repaired, remaining } = options.repair
        ? repair(stateDir)
        : { repaired: [], remaining: examine(stateDir) };
      if (options.output === "json") {
        const json: z.infer<typeof Examination> = { state_dir: stateDir, repaired, findings: remaining };
        context.out.write(`${JSON.stringify(json)}\n`);
      } else {
        for (const { finding, done, outcome } of repaired) {
          const lines = `${done ? "mended" : "NOT mended"}  ${finding.path}\n    ${finding.message}\n    ${outcome}\n`;
          context.out.write(harmlessLines(lines));
        }
        for (const finding of remaining) context.out.write(harmlessLines(asText(finding, options.repair === true)));
        context.err.write(`${summary(stateDir, remaining)}\n`);
      }
      const wrong = remaining.some((finding) => finding.severity !== "note") || repaired.some(({ done }) => !done);
      result.code = wrong ? EXIT.failed : EXIT.ok;
    });
}

async function showPermissions(stateDir: string, format: string, context: Context): Promise<number> {
  const { auditParts } = await import("../../doctor/permissions.ts");
  const parts = await auditParts(stateDir);
  const rows = parts.flatMap(({ lines, ...part }) => lines.map((line) => ({ ...part, ...line })));
  const missing = rows.filter(({ standing }) => standing === "missing");
  if (format === "json") {
    const json: z.infer<typeof PermissionsAudit> = {
      state_dir: stateDir,
      parts: parts.map(({ part, source, pid, lines }) => ({
        part,
        source,
        pid: pid ?? null,
        permissions: lines.map((line) => ({ ...line, entries: line.entries === "all" ? "all" : [...line.entries] })),
      })),
    };
    context.out.write(`${JSON.stringify(json)}\n`);
    return missing.length === 0 ? EXIT.ok : EXIT.failed;
  }
  const columns: Column<typeof rows[number]>[] = [
    { name: "part", text: ({ part, pid }) => pid === undefined ? part : `${part} ${pid}` },
    { name: "known_from", text: ({ source }) => source },
    {
      name: "standing",
      text: ({ standing }) => standing,
      style: ({ standing }) => standing === "missing" ? "red" : standing === "surplus" ? "yellow" : undefined,
    },
    { name: "kind", text: ({ kind }) => kind },
    { name: "what", text: ({ entries }) => entries === "all" ? "everything" : shortList(entries), shrinkTo: 20 },
  ];
  const { isTty, width, color } = context.terminal;
  context.out.write(table(columns, rows, { width: isTty ? width : undefined, color }));
  for (const { part, kind, entries } of missing) {
    const flag = `--allow-${kind}${entries === "all" ? "" : `=${entries.join(",")}`}`;
    context.err.write(`${part}: ${flag} is missing\n`);
  }
  if (missing.length === 0) context.err.write(`${stateDir}: nothing is missing\n`);
  return missing.length === 0 ? EXIT.ok : EXIT.failed;
}

/** The daemon's variables are some sixty; JSON has them all. */
const LISTED = 8;

function shortList(entries: readonly string[]): string {
  const more = entries.length > LISTED ? `, and ${entries.length - LISTED} more` : "";
  return entries.slice(0, LISTED).join(", ") + more;
}

function asText(finding: Finding, afterRepair: boolean): string {
  const remedy = finding.remedy === "" || afterRepair ? "" : `    --repair would ${finding.remedy}\n`;
  return `${finding.severity.padEnd(8)}${finding.path}\n    ${finding.message}\n${remedy}`;
}

function summary(stateDir: string, findings: readonly Finding[]): string {
  if (findings.length === 0) return `${stateDir}: all is well`;
  const counted = (["error", "warning", "note"] as const)
    .map((severity) => [severity, findings.filter((finding) => finding.severity === severity).length] as const)
    .filter(([, n]) => n > 0)
    .map(([severity, n]) => `${n} ${severity}${n === 1 ? "" : "s"}`);
  return `${stateDir}: ${counted.join(", ")}`;
}
