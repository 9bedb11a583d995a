/** Sends a message to its service, in the form that this service takes. */
import { messageOf } from "../../base/errors.ts";
import { isPlainObject } from "../../base/text/exact_numbers.ts";
import { HIDDEN } from "../../base/text/secrets.ts";
import { SENT_BY_DAEMON } from "../../wire/sender_headers.ts";
import { discordContent, headerText, messageAs, type Notice } from "../webhooks/messages.ts";
import { isFinal, type Refusal } from "../webhooks/refusal.ts";
import { sendBySendmail, sendBySmtp } from "./mail.ts";
import type { Receiver, Service } from "./receivers.ts";

/** Characters of an answer that are logged. */
const LONGEST_ANSWER = 300;

type Posted = { body: BodyInit; headers: Record<string, string> };

/**
 * Undefined if it was taken. What it returns or throws does not contain the receiver's secret.
 * @param picture PNG
 */
export async function sendMessage(
  receiver: Receiver,
  notice: Notice,
  picture: Uint8Array<ArrayBuffer> | undefined,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  const { service, secret } = receiver;
  try {
    const refusal = service.type === "smtp"
      ? await sendBySmtp(service, secret, notice, picture, signal)
      : service.type === "sendmail"
      ? await sendBySendmail(service, notice, picture, signal)
      : await post(receiver, urlOf(service, picture), postedOf(receiver, notice, picture), signal);
    return refusal && { ...refusal, why: withoutSecret(refusal.why, secret) };
  } catch (error) {
    // The runtime's errors name the whole URL.
    throw new Error(withoutSecret(wholeMessage(error), secret));
  }
}

/** The runtime's "fetch failed" says why in its cause. */
function wholeMessage(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined
    ? `: ${messageOf(error.cause)}`
    : "";
  return `${messageOf(error)}${cause}`;
}

function urlOf(service: Extract<Service, { url: string }>, picture: unknown): string {
  if (service.type !== "telegram") return service.url;
  return `${service.url}/${picture === undefined ? "sendMessage" : "sendPhoto"}`;
}

function withoutSecret(text: string, secret: string): string {
  return secret === ""
    ? text
    : text.replaceAll(secret, HIDDEN).replaceAll(encodeURI(secret), HIDDEN);
}

async function post(
  { secret }: Receiver,
  url: string,
  { body, headers }: Posted,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  const response = await fetch(url.replaceAll("{secret}", secret), {
    method: "POST",
    headers: { ...headers, ...SENT_BY_DAEMON },
    body,
    // Followed, a redirect would lead past the check of the address.
    redirect: "manual",
    signal,
  });
  if (response.ok) {
    await response.body?.cancel();
    return undefined;
  }
  const answer = (await startOf(response)).trim();
  return {
    why: `HTTP ${response.status}${answer === "" ? "" : `: ${answer}`}`,
    final: isFinal(response.status),
  };
}

/** Services say in their answer what is wrong. */
async function startOf(response: Response): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const piece of response.body ?? []) {
    text += decoder.decode(piece, { stream: true });
    if (text.length >= LONGEST_ANSWER) break;
  }
  return text.slice(0, LONGEST_ANSWER);
}

function postedOf(
  { service, secret }: Receiver,
  notice: Notice,
  picture: Uint8Array<ArrayBuffer> | undefined,
): Posted {
  const image = picture && new File([picture], "curve.png", { type: "image/png" });
  switch (service.type) {
    case "telegram": {
      if (image === undefined) {
        return json({
          chat_id: service.chat,
          text: notice.text,
          link_preview_options: { is_disabled: true },
        });
      }
      return form({ chat_id: service.chat, caption: notice.text, photo: image });
    }
    case "discord":
      if (image === undefined) return messageAs("discord", notice);
      return form({ payload_json: JSON.stringify(discordContent(notice.text)), "files[0]": image });
    case "ntfy": {
      const { body, headers } = messageAs("ntfy", notice);
      // A topic's token, unless it is a part of the address.
      const access: Record<string, string> = secret === "" || service.url.includes("{secret}")
        ? {}
        : { authorization: `Bearer ${secret}` };
      if (picture === undefined) return { body, headers: { ...headers, ...access } };
      const { "content-type": _, ...others } = headers;
      // The picture is the body; the text goes into a header, of one line.
      const message = headerText(notice.text.replaceAll("\n", "\\n"));
      return { body: picture, headers: { ...others, ...access, filename: "curve.png", message } };
    }
    case "slack":
    case "teams":
      return messageAs(service.type, notice);
    case "http": {
      const { title, text } = notice;
      const values = { title, text, secret };
      const headers = Object.fromEntries(
        Object.entries(service.headers).map((
          [name, value],
        ) => [name.toLowerCase(), headerText(oneLine(filled(value, values)))]),
      );
      const body = filledIn(service.body, values);
      const isText = typeof body === "string";
      const type = isText ? "text/plain; charset=utf-8" : "application/json";
      return {
        body: isText ? body : JSON.stringify(body),
        headers: { "content-type": type, ...headers },
      };
    }
    default:
      throw new Error(`${service.type} takes no request`);
  }
}

const oneLine = (text: string) => text.replace(/\s+/g, " ");

function json(value: unknown): Posted {
  return { body: JSON.stringify(value), headers: { "content-type": "application/json" } };
}

/** The runtime sets the content type, with its boundary. */
function form(fields: Record<string, string | File>): Posted {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  return { body, headers: {} };
}

type Values = Record<string, string>;

/** `{title}`, `{text}` and `{secret}` replaced; other braces stay. */
function filled(template: string, values: Values): string {
  return template.replace(/\{(title|text|secret)\}/g, (_, name: string) => values[name]!);
}

/** In every text of a template in JSON, so that nothing has to be quoted. */
function filledIn(template: unknown, values: Values): unknown {
  if (typeof template === "string") return filled(template, values);
  if (Array.isArray(template)) return template.map((item) => filledIn(item, values));
  if (!isPlainObject(template)) return template;
  return Object.fromEntries(
    Object.entries(template).map(([key, value]) => [key, filledIn(value, values)]),
  );
}
