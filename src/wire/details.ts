/**
 * Details of an error are sent in a header, whose size peers limit (8 KiB is common), with three bytes for each non-ASCII
 * byte.
 */
const MAX_DETAILS = 2000;

export function boundedText(text: string): string {
  if (text.length <= MAX_DETAILS) return text;
  return `${text.slice(0, MAX_DETAILS)}… (${text.length - MAX_DETAILS} more characters)`;
}
