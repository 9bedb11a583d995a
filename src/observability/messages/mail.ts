/** Mail, by SMTP or by the host's sendmail. The library is loaded with the first mail. */
import { connect } from "node:net";
import { Buffer } from "node:buffer";
import { messageOf } from "../../base/errors.ts";
import { runProgram } from "../../os/processes/external_program.ts";
import { isLoopback } from "../../wire/address/address.ts";
import type { Notice } from "../webhooks/messages.ts";
import type { Refusal } from "../webhooks/refusal.ts";
import type { Service } from "./receivers.ts";

type Smtp = Extract<Service, { type: "smtp" }>;
type Sendmail = Extract<Service, { type: "sendmail" }>;

const TIMEOUT_MS = 10_000;
/** sysexits.h: a temporary failure. */
const TEMPORARY = 75;

function mailOf(
  { from, to }: Smtp | Sendmail,
  { title, text, urgent }: Notice,
  picture: Uint8Array | undefined,
) {
  return {
    from,
    to,
    subject: `mosaic: ${title}`,
    text,
    ...(urgent ? { priority: "high" as const } : {}),
    // Answers of absences go nowhere.
    headers: { "auto-submitted": "auto-generated" },
    attachments: picture === undefined
      ? []
      : [{ filename: "curve.png", content: Buffer.from(picture), contentType: "image/png" }],
  };
}

/** Undefined if the server has taken it. @throws if it cannot be reached */
export async function sendBySmtp(
  service: Smtp,
  secret: string,
  notice: Notice,
  picture: Uint8Array | undefined,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  const { createTransport } = (await import("nodemailer")).default;
  const { hostname, port, protocol } = new URL(service.url);
  const host = hostname.replace(/^\[|\]$/g, "");
  const isHere = host === "localhost" || isLoopback({ type: "tcp", host, port: 0 });
  // The library would resolve the name itself and connect to a number, for which the daemon has no
  // permission.
  const connection = connect({ host, port: Number(port) });
  const end = () => connection.destroy(new Error(`${host}:${port} has not answered in time`));
  signal.addEventListener("abort", end, { once: true });
  try {
    await new Promise<void>((resolve, reject) => {
      connection.once("connect", resolve);
      connection.once("error", reject);
    });
    const transport = createTransport({
      connection,
      host,
      secure: protocol === "smtps:",
      // A password is never sent in clear over a network; on this host there is no network, and
      // often no certificate.
      requireTLS: service.user !== "" && !isHere,
      ignoreTLS: protocol === "smtp:" && isHere,
      ...(service.user === "" ? {} : { auth: { user: service.user, pass: secret } }),
      connectionTimeout: TIMEOUT_MS,
      greetingTimeout: TIMEOUT_MS,
      socketTimeout: TIMEOUT_MS,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
    const { rejected } = await transport.sendMail(mailOf(service, notice, picture));
    // The others have it: sending it again would repeat it for them.
    if (rejected.length > 0) {
      return { why: `the server refused ${rejected.map(String).join(", ")}`, final: true };
    }
    return undefined;
  } catch (error) {
    const { responseCode } = error as { responseCode?: number };
    return { why: messageOf(error), final: responseCode !== undefined && responseCode >= 500 };
  } finally {
    signal.removeEventListener("abort", end);
    connection.destroy();
  }
}

/** Undefined if the program has taken it. */
export async function sendBySendmail(
  service: Sendmail,
  notice: Notice,
  picture: Uint8Array | undefined,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  const { createTransport } = (await import("nodemailer")).default;
  const composed = await createTransport({ streamTransport: true, buffer: true, newline: "unix" })
    .sendMail(mailOf(service, notice, picture));
  const { code, stderr } = await runProgram([
    service.program,
    "-i",
    "-f",
    addressOf(service.from),
    ...[
      "--",
      ...service.to.map(addressOf),
    ],
  ], {
    env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
    limitMs: TIMEOUT_MS,
    stdin: composed.message as Buffer,
    signal,
  });
  if (code === 0) return undefined;
  const why = `${service.program} ended with ${code}${
    stderr.trim() === "" ? "" : `: ${stderr.trim()}`
  }`;
  return { why, final: code !== TEMPORARY };
}

/** `Name <address>` without the name. */
function addressOf(text: string): string {
  return /<([^<>]+)>\s*$/.exec(text)?.[1] ?? text.trim();
}
