/**
 * `deno task fuzz [TARGET…] [--seconds N] [--seed S] [--verbose]`: gives the readers of text and
 * bytes of others inputs of many shapes, N seconds for each target. Prints bytes, time and the
 * worst time per byte, and exits with 1 if there are findings. `--verbose` prints each input before
 * it is read: the last one is that of a reader that does not come back.
 */
import { hunt } from "../tests/fuzz/hunt.ts";
import { TARGETS } from "../tests/fuzz/readers.ts";
import { taskArguments } from "./task_arguments.ts";

const { values, words: positionals } = taskArguments(
  import.meta.url,
  {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
    verbose: { type: "boolean", default: false },
  },
  { positionals: true, more: `\nTargets: ${TARGETS.map(({ name }) => name).join(", ")}` },
);
const [seconds, seed] = [Number(values.seconds), Number(values.seed)];
const unknown = positionals.find((name) => TARGETS.every((target) => target.name !== name));
if (unknown !== undefined || ![seconds, seed].every((n) => n > 0)) {
  const names = TARGETS.map(({ name }) => name).join(", ");
  console.error(
    unknown === undefined
      ? "fuzz: --seconds and --seed take numbers above 0"
      : `fuzz: targets are ${names}`,
  );
  Deno.exit(2);
}

let failed = false;
for (const target of TARGETS) {
  if (positionals.length > 0 && !(positionals as string[]).includes(target.name)) continue;
  const { inputs, bytes, ms, worst, findings } = await hunt(
    target,
    seed,
    seconds,
    values.verbose ? (text) => console.error(text) : undefined,
  );
  const mib = (bytes / (1 << 20)).toFixed(1);
  console.log(
    `${target.name.padEnd(10)} ${inputs} inputs, ${mib} MiB in ${(ms / 1000).toFixed(1)} s, ` +
      `worst ${worst.nsPerByte.toFixed(0)} ns a byte (${worst.input})`,
  );
  for (const finding of findings) console.log(`  FOUND ${finding.replaceAll("\n", "\n    ")}`);
  failed ||= findings.length > 0;
}
Deno.exit(failed ? 1 : 0);
