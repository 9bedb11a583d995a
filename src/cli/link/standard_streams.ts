/**
 * Names of standard input and output as files. Opening them by name needs all permissions; mosaic
 * uses its own streams.
 */

const nameOf = (
  descriptor: number,
  name: string,
) => ["-", name, `/dev/fd/${descriptor}`, `/proc/self/fd/${descriptor}`];
const INPUT = nameOf(0, "/dev/stdin");
const OUTPUT = nameOf(1, "/dev/stdout");

/** Whether a path that a command reads is its standard input. */
export function isStandardInput(path: string): boolean {
  return INPUT.includes(path);
}

/** Whether a path that a command writes is its standard output. */
export function isStandardOutput(path: string): boolean {
  return OUTPUT.includes(path);
}
