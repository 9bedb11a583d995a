/** Recognizes secrets by their name and by their form, and hides them. Pure. */
import { isPlainObject } from "./exact_numbers.ts";

/**
 * Names whose text values are hidden until somebody asks for them. (Tokenizers, numbers of tokens,
 * PWD and paths are no secrets.)
 */
const SECRET_NAME = new RegExp(
  [
    "token(?!i[sz]|s)|secret|passw|passphrase|credential|authorization|bearer|cookie",
    "(?:api|access|private)[_-]?key|(?:^|[_-])key(?:$|[_-])",
    "(?:^|[_-])(?:pass|pat)$|[_-]pwd$|[_-]webhook(?:[_-]?url)?$",
  ].join("|"),
  "i",
);

/**
 * Secrets that are recognized by their form, anywhere in a text. The first group, if there is one,
 * stays visible. Configs are untrusted and may be long: no pattern reads any part of one more than
 * some hundred times.
 */
const SECRET_FORMS: readonly RegExp[] = [
  // user:password@ in URLs, and a user so long that it is a key (Sentry); a password may contain
  // "@".
  /(\w:\/\/[^\s:@/]*:)[^\s/]+(?=@)/g,
  /(\w:\/\/)[^\s:@/]{20,}(?=@)/g,
  // user:password@tcp(host) of Go's MySQL driver.
  /((?<![\w.-])[\w.-]{1,64}:)[^\s@/]{1,128}(?=@(?:tcp|unix)\()/g,
  // Personal access tokens: GitHub, GitLab, Hugging Face, OpenAI and others of its form, Slack,
  // npm, PyPI; signed JSON.
  /(?<!\w)(?:gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|hf_\w{16,}|npm_\w{30,}|pypi-[\w-]{30,})/g,
  /(?<!\w)sk-(?=[\w-]{0,64}\d)[\w-]{16,}/g,
  /(?<!\w)xox[a-z]-[\w-]{10,}/g,
  /(?<!\w)eyJ[\w-]{10,400}\.[\w-]{10,}\.[\w-]*/g,
  // The URL of such a webhook is sufficient to post to it.
  /(https?:\/\/hooks\.slack(?:-gov)?\.com\/)[^\s'"]+/gi,
  /(https?:\/\/(?:\w+\.)?discord(?:app)?\.com\/api\/(?:v\d+\/)?webhooks\/)[^\s'"]+/gi,
  /(https?:\/\/[\w.-]+\.webhook\.office\.com\/)[^\s'"]+/gi,
];

/** And by what stands before them, in command lines, addresses and configs. */
const SECRET_TEXTS: readonly RegExp[] = [
  ...SECRET_FORMS,
  // password=… and token=… of connection strings and queries.
  /((?:^|[?&;\s])(?:[\w-]*(?:token|secret|passwd|password|pwd|api[_-]?key|access[_-]?key))=)[^\s&;'"]+/gi,
  // Headers of requests.
  /(\b(?:authorization|proxy-authorization)\s*:\s*(?:(?:bearer|basic|token|digest)\s+)?)[^\s'"]+/gi,
  /((?<![\w-])[\w-]*(?:api-?key|token|secret):\s+)[^\s'"]+/gi,
  /(\bbearer\s+)[\w.~+/=-]{8,}/gi,
];

/**
 * In source code `token=token` and `token: str` are no secrets: a value is quoted, or belongs to a
 * variable of a shell.
 */
const SECRETS_IN_CODE: readonly RegExp[] = [
  ...SECRET_FORMS,
  /((?:token|secret|passwd|password|api_?key|access_?key)["']?\s{0,8}[:=]\s{0,8}["'])[^\s"']{8,}(?=["'])/gi,
  // In YAML and INI: nothing but letters and several digits, to the line's end.
  /((?:token|secret|passwd|password|api_?key|access_?key)\s{0,8}[:=]\s{0,8})(?=(?:[^\W\d]*\d){3})[A-Za-z0-9+/_-]{20,}={0,2}(?=[ \t]{0,8}(?:#|\r?$))/gim,
  /((?:^|\s)[A-Z0-9_]{0,64}(?:TOKEN|SECRET|PASSWORD|API_KEY|ACCESS_KEY|SECRET_KEY)=)[^\s"'$]{8,}/gm,
  /(\bbearer\s+)[\w.~+/=-]{16,}/gi,
];
export const HIDDEN = "••••••••";
/** ASCII, for texts that have a character for each byte. */
export const MASK = "********";

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** A text with its secrets hidden. */
export function hideSecret(name: string, text: string): string {
  if (text !== "" && isSecretName(name)) return HIDDEN;
  return SECRET_TEXTS.reduce(
    (shown, pattern) =>
      shown.replace(
        pattern,
        (_, stays: unknown) => `${typeof stays === "string" ? stays : ""}${HIDDEN}`,
      ),
    text,
  );
}

const PRIVATE_KEY = /(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)([^-]{1,20000})(?=-----END)/g;

/**
 * Source code, or a diff of it, with its secrets replaced by `MASK`; lines stay lines, with their
 * first characters.
 */
export function maskCode(text: string): string {
  const shown = text.replace(
    PRIVATE_KEY,
    (_, head: string, body: string) => head + body.replace(/^(.)(.+)$/gm, `$1${MASK}`),
  );
  return SECRETS_IN_CODE.reduce(
    (shown, pattern) =>
      shown.replace(
        pattern,
        (_, stays: unknown) => `${typeof stays === "string" ? stays : ""}${MASK}`,
      ),
    shown,
  );
}

/**
 * Words of a command line: `--api-key=VALUE`, `--api-key VALUE` and `API_KEY=VALUE` lose their
 * values.
 */
export function hideSecretArguments(words: readonly unknown[]): unknown[] {
  return words.map((word, i) => {
    if (typeof word !== "string") return word;
    const [, name, value] = /^(-{0,2}[A-Za-z][\w-]*)=([^]+)$/.exec(word) ?? [];
    if (name !== undefined) return `${name}=${hideSecret(name, value!)}`;
    const before = words[i - 1];
    if (typeof before === "string" && /^(?:bearer|basic)$/i.test(before)) return HIDDEN;
    const isValue = typeof before === "string" && /^-{1,2}[A-Za-z][\w-]*$/.test(before) &&
      !word.startsWith("-");
    return hideSecret(isValue ? before : "", word);
  });
}

/**
 * A value of a config with its secrets hidden. All values below a secret name are secret; a name
 * may have parts (`logger.key`).
 */
export function withoutSecrets(name: string, value: unknown): unknown {
  if (typeof value === "string") return hideSecret(name, value);
  const isSecret = isSecretName(name);
  if (Array.isArray(value)) {
    const words = isSecret ? value : hideSecretArguments(value);
    return words.map((word) =>
      typeof word === "string" && !isSecret ? word : withoutSecrets(isSecret ? name : "", word)
    );
  }
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      withoutSecrets(isSecret ? name : key.split(/[./]/).find(isSecretName) ?? key, inner),
    ]),
  );
}
