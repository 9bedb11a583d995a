/** Writes series in Prometheus' text format, version 0.0.4. Pure. */
import type { Family, Labels } from "./daemon_metrics.ts";

export const PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export function prometheusText(families: readonly Family[]): string {
  return families.map(familyText).join("");
}

function familyText(family: Family): string {
  const { name, help, type } = family;
  const lines = [
    `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}`,
    `# TYPE ${name} ${type}`,
  ];
  if (family.type === "histogram") {
    const { bounds, counts, sum, count } = family.histogram;
    let below = 0;
    counts.forEach((n, bucket) => {
      below += n;
      lines.push(sample(`${name}_bucket`, { le: numberText(bounds[bucket] ?? Infinity) }, below));
    });
    lines.push(sample(`${name}_sum`, {}, sum), sample(`${name}_count`, {}, count));
  } else {
    for (const { labels, value } of family.samples) lines.push(sample(name, labels, value));
  }
  return `${lines.join("\n")}\n`;
}

function sample(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${numberText(value)}`;
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

function numberText(value: number): string {
  if (value === Infinity) return "+Inf";
  return value === -Infinity ? "-Inf" : String(value);
}
