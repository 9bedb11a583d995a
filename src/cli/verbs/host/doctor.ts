/** `mosaic doctor` */
import { escapeControlLines } from "../../text/text.ts";
import { type Command, Option } from "commander";
import type { z } from "zod";
import type { Finding } from "../../../state/doctor/finding.ts";
import { resolveStateDir } from "../../../base/layout.ts";
import { manual, oneOf } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { EXIT } from "../../link/exit.ts";
import type { Examination } from "../../../registry/contract.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Checks a state directory: both databases, GPU slots, files without a run, files left by an earlier daemon, file " +
        "modes. Needs no daemon and changes nothing; with --repair it repairs what it can, and no daemon may be running. " +
        "Files of runs are never deleted: files without a run are moved to trainer/lost+found.",
    )
    .option("--state-dir <dir>", "state directory (default: as for the daemon)")
    .option("--repair", "repair what can be repaired, then check again")
    .addOption(
      oneOf(new Option("-o, --output <format>", "output format"), ["text", "json"]).default("text"),
    )
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic doctor", "list problems, and what --repair would do about them"],
          ["mosaic doctor --repair", "repair it"],
          [
            "mosaic doctor -o json | jq '.findings[] | select(.severity == \"error\")'",
            "errors only",
          ],
        ],
        exits: {
          0: "no problems (notes do not count)",
          1: "there are problems, or a repair failed",
          4: "no such directory",
          6: "--repair while a daemon runs",
        },
      }),
    )
    .action(async (options: { stateDir?: string; repair?: boolean; output: string }) => {
      const { examine, repair } = await import("../../../state/doctor/doctor.ts");
      const stateDir = resolveStateDir(options.stateDir, context.env);
      const { repaired, remaining } = options.repair
        ? repair(stateDir)
        : { repaired: [], remaining: examine(stateDir) };
      if (options.output === "json") {
        const json: z.infer<typeof Examination> = {
          state_dir: stateDir,
          repaired,
          findings: remaining,
        };
        context.out.write(`${JSON.stringify(json)}\n`);
      } else {
        for (const { finding, done, outcome } of repaired) {
          const lines = `${
            done ? "repaired" : "NOT repaired"
          }  ${finding.path}\n    ${finding.message}\n    ${outcome}\n`;
          context.out.write(escapeControlLines(lines));
        }
        for (const finding of remaining) {
          context.out.write(escapeControlLines(asText(finding, options.repair === true)));
        }
        context.err.write(`${summary(stateDir, remaining)}\n`);
      }
      const wrong = remaining.some((finding) => finding.severity !== "note") ||
        repaired.some(({ done }) => !done);
      result.code = wrong ? EXIT.failed : EXIT.ok;
    });
}

function asText(finding: Finding, afterRepair: boolean): string {
  const remedy = finding.remedy === "" || afterRepair
    ? ""
    : `    --repair would ${finding.remedy}\n`;
  return `${finding.severity.padEnd(8)}${finding.path}\n    ${finding.message}\n${remedy}`;
}

function summary(stateDir: string, findings: readonly Finding[]): string {
  if (findings.length === 0) return `${stateDir}: no problems`;
  const counted = (["error", "warning", "note"] as const)
    .map((severity) =>
      [severity, findings.filter((finding) => finding.severity === severity).length] as const
    )
    .filter(([, n]) => n > 0)
    .map(([severity, n]) => `${n} ${severity}${n === 1 ? "" : "s"}`);
  return `${stateDir}: ${counted.join(", ")}`;
}
