/**
 * Names the caller's variables that a failed run did not get, if its last lines suggest that one
 * was missing. Pure.
 */

/** Services whose libraries do not name the variable that they lack. */
const SERVICES: readonly { said: RegExp; variable: RegExp }[] = [
  { said: /wandb|Weights & Biases/i, variable: /^WANDB_/ },
  { said: /hugging ?face|gated repo|hf auth/i, variable: /^(?:HF_|HUGGING)/ },
  {
    said: /botocore|boto3|credentials.*aws|aws.*credentials|Unable to locate credentials/i,
    variable: /^AWS_/,
  },
  { said: /google\.auth|DefaultCredentialsError/i, variable: /^(?:GOOGLE_|GCP_|CLOUDSDK_)/ },
  { said: /mlflow/i, variable: /^MLFLOW_/ },
  { said: /comet/i, variable: /^COMET_/ },
  { said: /neptune/i, variable: /^NEPTUNE_/ },
  { said: /openai/i, variable: /^OPENAI_/ },
  { said: /anthropic/i, variable: /^ANTHROPIC_/ },
  {
    said: /LD_PRELOAD|undefined symbol|cannot allocate memory in static TLS block/i,
    variable: /^LD_/,
  },
];
/** Any service that was not given what it wants. */
const REFUSED =
  /api[ _-]?key|\b(?:401|403)\b|unauthori[sz]ed|authentication|credentials?\b|log ?in first|invalid token|missing token/i;
/** Bounds of what is read and named. */
const LINES = 50;
const NAMED = 6;

/**
 * @param lines the worker's last lines, oldest first
 * @param leftOut names of the caller's variables that were not passed on
 * @returns undefined if nothing suggests that one was missing
 */
export function leftOutHint(
  lines: readonly string[],
  leftOut: readonly string[],
): string | undefined {
  if (leftOut.length === 0) return undefined;
  const text = lines.slice(-LINES).map((line) => line.slice(0, 2000)).join("\n");
  const words = new Set(text.match(/[A-Za-z_]\w*/g) ?? []);
  const named = leftOut.filter((name) => words.has(name));
  const ofServices = SERVICES.filter(({ said }) => said.test(text))
    .flatMap(({ variable }) => leftOut.filter((name) => variable.test(name)));
  const found = named.length > 0
    ? named
    : ofServices.length > 0
    ? ofServices
    : REFUSED.test(text)
    ? leftOut
    : [];
  if (found.length === 0) return undefined;
  const all = [...new Set(found)];
  const names = all.slice(0, NAMED).map((name) => `-e ${name}`).join(" ");
  const more = all.length > NAMED ? `, and ${all.length - NAMED} more` : "";
  return `The shell that submitted it has ${
    all.length === 1 ? "a variable that the run did" : "variables that the run did"
  } not get; to pass ${all.length === 1 ? "it" : "them"} on: mosaic run ${names}${more}`;
}
