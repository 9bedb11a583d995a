/** A real SMTP server, which keeps what it receives. */
import { SMTPServer } from "npm:smtp-server@3.21.6";

export interface ReceivedMail {
  from: string;
  to: string[];
  user: string;
  /** Whether it came over TLS. */
  secure: boolean;
  text: string;
}

export interface SmtpOptions {
  /** user → password; absent: nobody has to log in. */
  users?: Record<string, string>;
  /** PEM; absent: the server offers no STARTTLS. */
  tls?: { cert: string; key: string };
  /** Answers so many mails with "451 later" first. */
  refuseFirst?: number;
}

// deno-lint-ignore no-explicit-any -- the package has no types
type Any = any;

export async function smtpServer({ users, tls, refuseFirst = 0 }: SmtpOptions = {}) {
  const mails: ReceivedMail[] = [];
  let refusals = refuseFirst;
  const server: Any = new (SMTPServer as Any)({
    ...(tls === undefined ? { disabledCommands: ["STARTTLS"] } : tls),
    authOptional: users === undefined,
    allowInsecureAuth: true,
    logger: false,
    onAuth(auth: Any, _session: Any, done: Any) {
      if (users?.[auth.username] === auth.password) done(null, { user: auth.username });
      else done(Object.assign(new Error("wrong password"), { responseCode: 535 }));
    },
    onRcptTo(address: Any, _session: Any, done: Any) {
      if (address.address.startsWith("nobody@")) {
        done(Object.assign(new Error("no such mailbox"), { responseCode: 550 }));
      } else done();
    },
    onData(stream: Any, session: Any, done: Any) {
      let text = "";
      stream.on("data", (piece: Uint8Array) => text += new TextDecoder().decode(piece));
      stream.on("end", () => {
        if (refusals-- > 0) return done(Object.assign(new Error("later"), { responseCode: 451 }));
        mails.push({
          from: session.envelope.mailFrom.address,
          to: session.envelope.rcptTo.map((to: Any) => to.address),
          user: session.user ?? "",
          secure: session.secure,
          text,
        });
        done();
      });
    },
  });
  server.on("error", () => {});
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    mails,
    port: server.server.address().port as number,
    close: () => new Promise<void>((resolve) => server.close(resolve)),
  };
}
