/** Events in the form that a chat or a phone reads. Pure. */
import type { EventRow } from "../../registry/row_types.ts";

export type MessageForm = "signed" | "slack" | "discord" | "teams" | "ntfy";

const FORMS: readonly MessageForm[] = ["signed", "slack", "discord", "teams", "ntfy"];

/** Addresses of services that take no other form. */
const SERVICES: readonly [RegExp, MessageForm][] = [
  [/^https:\/\/hooks\.slack(?:-gov)?\.com\//, "slack"],
  [/^https:\/\/(?:\w+\.)?discord(?:app)?\.com\/api\/(?:v\d+\/)?webhooks\//, "discord"],
  [
    /^https:\/\/[\w.-]+\.(?:webhook\.office\.com|logic\.azure\.com|environment\.api\.powerplatform\.com)[:/]/,
    "teams",
  ],
  [/^https:\/\/ntfy\.sh\//, "ntfy"],
];

/**
 * The form that the address asks for by its fragment (`#slack`), which is not sent; else that of a
 * known service.
 */
export function formOf(url: string): MessageForm {
  const named = /#(\w+)$/.exec(url)?.[1];
  return FORMS.find((form) => form === named) ??
    SERVICES.find(([address]) => address.test(url))?.[1] ?? "signed";
}

/** What people want to hear of, unless kinds are named: the ends of runs, and alerts. */
export const MESSAGE_KINDS: readonly string[] = ["failed", "completed", "cancelled", "alert"];

/** Characters of a message; Discord takes 2000. */
const LONGEST = 1500;

export interface Message {
  body: string;
  headers: Record<string, string>;
}

/** What people read; each service has its form of it. */
export interface Notice {
  title: string;
  text: string;
  /** Something failed, or an alert. */
  urgent: boolean;
}

/** @throws for data that is no JSON object */
export function messageIn(form: Exclude<MessageForm, "signed">, event: EventRow): Message {
  return messageAs(form, {
    title: `mosaic: ${event.kind}`,
    text: textOf(event),
    urgent: isUrgent(event.kind),
  });
}

export const isUrgent = (kind: string): boolean => kind === "failed" || kind === "alert";

export function messageAs(
  form: Exclude<MessageForm, "signed">,
  { title, text, urgent }: Notice,
): Message {
  const json = (value: unknown) => ({
    body: JSON.stringify(value),
    headers: { "content-type": "application/json" },
  });
  switch (form) {
    case "slack":
      return json({
        text: text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"),
      });
    case "discord":
      return json(discordContent(text));
    case "teams":
      return json({ type: "message", attachments: [card(text)] });
    case "ntfy":
      return {
        body: text,
        headers: {
          "content-type": "text/plain; charset=utf-8",
          title: headerText(title),
          priority: urgent ? "high" : "default",
        },
      };
  }
}

/** A run's name must not call everybody. */
export function discordContent(text: string) {
  return { content: text, allowed_mentions: { parse: [] } };
}

/** ASCII; other characters encoded as RFC 2047 says, which ntfy decodes. */
export function headerText(text: string): string {
  return /^[ -~]*$/.test(text) ? text : `=?UTF-8?B?${new TextEncoder().encode(text).toBase64()}?=`;
}

function card(text: string) {
  return {
    contentType: "application/vnd.microsoft.card.adaptive",
    content: {
      $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
      type: "AdaptiveCard",
      version: "1.4",
      body: [{ type: "TextBlock", wrap: true, text }],
    },
  };
}

/** "cart-1 failed: exit_code_3 (attempt 2, run 01J…)". @throws for data that is no JSON object */
export function textOf(event: EventRow): string {
  const { runName, runId, kind, attempt } = event;
  const what = reasonOf(event);
  const which = `${attempt > 1 ? `attempt ${attempt}, ` : ""}run ${runId}`;
  const text = `${runName} ${kind.replaceAll("_", " ")}${what === "" ? "" : `: ${what}`}`;
  return `${oneLine(text).slice(0, LONGEST)} (${which})`;
}

/**
 * Of an alert, which and what; else the reason; "" if there is none. @throws for data that is no
 * JSON object
 */
export function reasonOf({ kind, dataJson }: EventRow): string {
  const data = JSON.parse(dataJson) as Record<string, unknown>;
  const names = kind === "alert" ? ["alert", "what"] : ["reason"];
  return names.map((name) => data[name]).filter((value) =>
    typeof value === "string" && value !== ""
  ).join(": ");
}

/** Names are texts of others. */
export function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\u0000-\u001f\u007f]+/g, " ");
}
