/** Details of an error travel in a header, whose size peers limit (8 KiB is common), three bytes for each that is not ASCII. */
const MAX_DETAILS = 2000;

export function boundedText(text: string): string {
  if (text.length <= MAX_DETAILS) return text;
  return `${text.slice(0, MAX_DETAILS)}… (${text.length - MAX_DETAILS} more characters)`;
}
