/** Events in the form that a chat or a phone reads. Pure. */
import type { EventRow } from "../../registry/row_types.ts";

export type MessageForm = "signed" | "slack" | "discord" | "teams" | "ntfy";

const FORMS: readonly MessageForm[] = ["signed", "slack", "discord", "teams", "ntfy"];

/** Addresses of services that take no other form. */
const SERVICES: readonly [RegExp, MessageForm][] = [
  [/^https:\/\/hooks\.slack(?:-gov)?\.com\//, "slack"],
  [/^https:\/\/(?:\w+\.)?discord(?:app)?\.com\/api\/(?:v\d+\/)?webhooks\//, "discord"],
  [/^https:\/\/[\w.-]+\.(?:webhook\.office\.com|logic\.azure\.com|environment\.api\.powerplatform\.com)[:/]/, "teams"],
  [/^https:\/\/ntfy\.sh\//, "ntfy"],
];

/** The form that the address asks for by its fragment (`#slack`), which is not sent; else that of a known service. */
export function formOf(url: string): MessageForm {
  const named = /#(\w+)$/.exec(url)?.[1];
  return FORMS.find((form) => form === named) ?? SERVICES.find(([address]) => address.test(url))?.[1] ?? "signed";
}

/** What people want to hear of, unless kinds are named: the ends of runs, and alerts. */
export const MESSAGE_KINDS: readonly string[] = ["failed", "completed", "cancelled", "alert"];

/** Characters of a message; Discord takes 2000. */
const LONGEST = 1500;

export interface Message {
  body: string;
  headers: Record<string, string>;
}

/** @throws for data that is no JSON object */
export function messageIn(form: Exclude<MessageForm, "signed">, event: EventRow): Message {
  const text = textOf(event);
  const json = (value: unknown) => ({ body: JSON.stringify(value), headers: { "content-type": "application/json" } });
  switch (form) {
    case "slack":
      return json({ text: text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;") });
    case "discord":
      // A run's name must not call everybody.
      return json({ content: text, allowed_mentions: { parse: [] } });
    case "teams":
      return json({ type: "message", attachments: [card(text)] });
    case "ntfy":
      return {
        body: text,
        headers: {
          "content-type": "text/plain; charset=utf-8",
          title: `mosaic: ${event.kind}`,
          priority: event.kind === "failed" || event.kind === "alert" ? "high" : "default",
        },
      };
  }
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

/** "cart-1 failed: exit_code_3 (attempt 2, run 01J…)". */
function textOf({ runName, runId, kind, attempt, dataJson }: EventRow): string {
  const data = JSON.parse(dataJson) as Record<string, unknown>;
  const words = (...names: string[]) =>
    names.map((name) => data[name]).filter((value) => typeof value === "string" && value !== "").join(": ");
  const what = kind === "alert" ? words("alert", "what") : words("reason");
  const verb = kind.replaceAll("_", " ");
  const which = `${attempt > 1 ? `attempt ${attempt}, ` : ""}run ${runId}`;
  const text = `${runName} ${verb}${what === "" ? "" : `: ${what}`}`;
  // deno-lint-ignore no-control-regex -- names are texts of others
  return `${text.replace(/[\u0000-\u001f\u007f]+/g, " ").slice(0, LONGEST)} (${which})`;
}
