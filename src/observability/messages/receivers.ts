/**
 * Who hears of runs: the file of `--notify`. Pure, apart from the secrets, which a parameter reads.
 */
import * as z from "zod";
import {
  closed,
  either,
  filledText,
  list,
  matching,
  oneOf,
  record,
  text,
} from "../../config/field_kinds.ts";
import { MosaicError } from "../../base/errors.ts";
import { parseDuration } from "../../base/text/format.ts";
import { hideSecret } from "../../base/text/secrets.ts";
import { EVENT_KINDS } from "../../registry/event_kinds.ts";
import { MESSAGE_KINDS } from "../webhooks/messages.ts";

export type Service =
  | { type: "slack" | "discord" | "teams" | "ntfy"; url: string }
  | { type: "telegram"; url: string; chat: string }
  | { type: "http"; url: string; headers: Record<string, string>; body: unknown }
  | { type: "smtp"; url: string; user: string; from: string; to: string[] }
  | { type: "sendmail"; program: string; from: string; to: string[] };

export interface Receiver {
  /** Unique; the cursor's key. */
  name: string;
  service: Service;
  /** "" if it needs none. */
  secret: string;
  kinds: readonly string[];
  /** A filter of `mosaic list --where`; "": every run. */
  where: string;
  /** Owners of runs; empty: everybody's. */
  owners: readonly string[];
  /** Messages are gathered this long, from the first one on. */
  digestMs: number;
  /** The metric whose curve is sent with the message; "": none. */
  picture: string;
}

export interface Receivers {
  /** The page's address, for links; "": none. */
  page: string;
  receivers: Receiver[];
}

const DIGEST = "1m";
const LONGEST_DIGEST_MS = 24 * 3_600_000;
const HTTP = /^https?:\/\/[^\s/]+/;
const web = () => matching(HTTP, "an http or https URL");

const shape = () =>
  closed({
    page: web().optional(),
    receivers: list(
      closed({
        name: matching(/^[\w. -]{1,60}$/, "a name of letters, digits, spaces, . _ -").optional(),
        slack: web().optional(),
        discord: web().optional(),
        teams: web().optional(),
        ntfy: web().optional(),
        telegram: closed({
          chat: either("a chat's id or @name", [text(), z.int()]),
          api: web().optional(),
        }).optional(),
        http: closed({
          url: web(),
          headers: record(z.string(), text(), "an object of texts").optional(),
          body: z.unknown().optional(),
        }).optional(),
        mail: closed({
          from: filledText(),
          to: either("an address or an array of them", [
            filledText(),
            list(filledText(), "addresses"),
          ]),
          smtp: matching(/^smtps?:\/\/[^\s/]+\/?$/, "smtp://USER@HOST:587 or smtps://USER@HOST")
            .optional(),
          sendmail: matching(/^\//, "the absolute path of a sendmail").optional(),
        }).optional(),
        secret_file: matching(/^\//, "an absolute path").optional(),
        secret_env: matching(/^[A-Za-z_]\w*$/, "a variable's name").optional(),
        events: list(oneOf(EVENT_KINDS), "event kinds").optional(),
        where: text().optional(),
        owner: either("an owner or an array of them", [filledText(), list(filledText(), "owners")])
          .optional(),
        digest: filledText().optional(),
        picture: filledText(250).optional(),
      }),
      "receivers",
    ),
  });
type Given = z.infer<ReturnType<typeof shape>>["receivers"][number];

const SERVICES = ["slack", "discord", "teams", "ntfy", "telegram", "http", "mail"] as const;

/** Where a secret is read: of a file its text, of a variable its value. @throws if there is none */
export type ReadSecret = (from: { file: string } | { variable: string }) => string;

/** @throws MosaicError `invalid_argument` that names the field, its value and the remedy */
export function receiversOf(content: string, readSecret: ReadSecret): Receivers {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (error) {
    throw wrong(`it is no JSON: ${(error as Error).message}`);
  }
  const parsed = shape().safeParse(value);
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!;
    const at = issue.path.length === 0 ? "it" : issue.path.join(".");
    if (issue.code === "unrecognized_keys") {
      throw wrong(`${at} has an unknown field: ${issue.keys.join(", ")}`);
    }
    // The message shows the value.
    throw wrong(`${at} ${hideSecret("", issue.message)}`);
  }
  const { page = "", receivers } = parsed.data;
  const names = new Set<string>();
  return {
    page: page.replace(/\/+$/, ""),
    receivers: receivers.map((given, i) => {
      const receiver = receiverOf(given, `receivers.${i}`, readSecret);
      if (names.has(receiver.name)) {
        throw wrong(
          `receivers.${i} is a second one called "${receiver.name}"`,
          "Give each a name of its own.",
        );
      }
      names.add(receiver.name);
      return receiver;
    }),
  };
}

function wrong(why: string, hint?: string): MosaicError {
  return new MosaicError("invalid_argument", why, hint === undefined ? {} : { hint });
}

function receiverOf(given: Given, at: string, readSecret: ReadSecret): Receiver {
  const named = SERVICES.filter((service) => given[service] !== undefined);
  const type = named[0];
  if (type === undefined || named.length > 1) {
    throw wrong(
      `${at} names ${named.length === 0 ? "no service" : named.join(" and ")}: give one of ${
        SERVICES.join(", ")
      }`,
    );
  }
  const secret = secretOf(given, at, readSecret);
  const digest = given.digest ?? DIGEST;
  const digestMs = digest === "off" ? 0 : parseDuration(digest);
  if (digestMs === undefined || digestMs > LONGEST_DIGEST_MS) {
    throw wrong(
      `${at}.digest must be off or a duration of at most a day such as 10m or 1h, not "${digest}"`,
    );
  }
  const service = serviceOf(given, type, `${at}.${type}`);
  if (service.type === "telegram" && secret === "") {
    throw wrong(
      `${at} has no secret`,
      "Write the bot's token to a file, and its path as secret_file.",
    );
  }
  return {
    name: given.name ?? type,
    service,
    secret,
    kinds: given.events ?? MESSAGE_KINDS,
    where: given.where ?? "",
    owners: asList(given.owner),
    digestMs,
    picture: given.picture ?? "",
  };
}

const asList = (value: string | string[] | undefined) =>
  typeof value === "string" ? [value] : value ?? [];

function secretOf(
  { secret_file: file, secret_env: variable }: Given,
  at: string,
  readSecret: ReadSecret,
): string {
  if (file !== undefined && variable !== undefined) {
    throw wrong(`${at} has both secret_file and secret_env: give one`);
  }
  if (file === undefined && variable === undefined) return "";
  const field = file === undefined ? "secret_env" : "secret_file";
  let secret: string;
  try {
    secret = readSecret(file === undefined ? { variable: variable! } : { file }).trim();
  } catch (error) {
    throw wrong(`${at}.${field} ${file ?? variable}: ${(error as Error).message}`);
  }
  if (secret === "") throw wrong(`${at}.${field} ${file ?? variable} is empty or not set`);
  return secret;
}

function serviceOf(given: Given, type: typeof SERVICES[number], at: string): Service {
  switch (type) {
    case "telegram": {
      const { chat, api = "https://api.telegram.org" } = given.telegram!;
      return { type, url: `${api.replace(/\/+$/, "")}/bot{secret}`, chat: String(chat) };
    }
    case "http": {
      const { url, headers = {}, body = "{text}" } = given.http!;
      return { type, url: open(url, at), headers, body };
    }
    case "mail": {
      const { from, to, smtp, sendmail } = given.mail!;
      if ((smtp === undefined) === (sendmail === undefined)) {
        throw wrong(`${at} needs one of smtp and sendmail`);
      }
      if (asList(to).length === 0) throw wrong(`${at}.to names nobody`);
      if (sendmail !== undefined) {
        return { type: "sendmail", program: sendmail, from, to: asList(to) };
      }
      const { protocol, hostname, port, username, password } = new URL(smtp!);
      if (password !== "") {
        throw wrong(
          `${at}.smtp has a password in it`,
          "Write it to a file, and the file's path as secret_file.",
        );
      }
      const url = `${protocol}//${hostname}:${port || (protocol === "smtps:" ? 465 : 587)}`;
      return { type: "smtp", url, user: decodeURIComponent(username), from, to: asList(to) };
    }
    default:
      return { type, url: open(given[type]!, at) };
  }
}

/** A URL in which nothing is secret. */
function open(url: string, at: string): string {
  if (url.includes("{secret}") || hideSecret("", url) === url) return url;
  throw wrong(
    `${at} has a secret in its URL, which who can read the file could use`,
    "Write {secret} in its place, the secret to a file of mode 0600, and that file's path as secret_file.",
  );
}

/** @throws MosaicError `invalid_argument` for the first filter that `check` refuses */
export function checkFilters({ receivers }: Receivers, check: (where: string) => void): void {
  for (const [i, { where }] of receivers.entries()) {
    try {
      if (where !== "") check(where);
    } catch (error) {
      if (!(error instanceof MosaicError)) throw error;
      throw new MosaicError("invalid_argument", `receivers.${i}.where: ${error.message}`, {
        hint: error.hint ?? "",
      });
    }
  }
}
