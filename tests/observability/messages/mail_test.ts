/** Mail to a real SMTP server, and to a program called sendmail. */
import assert from "node:assert/strict";
import { sendMessage } from "../../../src/observability/messages/send.ts";
import type { Receiver, Service } from "../../../src/observability/messages/receivers.ts";
import { curvePicture } from "../../../src/observability/messages/curve_picture.ts";
import { smtpServer } from "./smtp.ts";

const NOTICE = { title: "cart failed", text: "cart failed: exit_code_3\n.\nÜbung", urgent: true };
const PICTURE = curvePicture("loss", [{ name: "cart", points: [{ x: 0, y: 1 }, { x: 1, y: 2 }] }])!;

function receiver(service: Service, secret = ""): Receiver {
  return {
    name: "mail",
    service,
    secret,
    kinds: [],
    where: "",
    owners: [],
    digestMs: 0,
    picture: "",
  };
}
const smtp = (
  port: number,
  user = "",
  to = ["ann@lab.example", "Bob <bob@lab.example>"],
): Service => ({
  ...{ type: "smtp", url: `smtp://127.0.0.1:${port}`, user },
  ...{ from: "mosaic <mosaic@lab.example>", to },
});
const send = (to: Receiver, picture?: Uint8Array<ArrayBuffer>) =>
  sendMessage(to, NOTICE, picture, AbortSignal.timeout(20_000));

Deno.test("mail: an SMTP server receives subject, text and picture, after a login with the secret", async () => {
  const server = await smtpServer({ users: { mosaic: "pass word" } });
  try {
    assert.equal(
      await send(receiver(smtp(server.port, "mosaic"), "pass word"), PICTURE),
      undefined,
    );
    const [mail] = server.mails;
    assert.deepEqual([mail!.from, mail!.to, mail!.user], [
      "mosaic@lab.example",
      ["ann@lab.example", "bob@lab.example"],
      "mosaic",
    ]);
    assert.match(mail!.text, /^Subject: mosaic: cart failed\r$/m);
    assert.match(mail!.text, /^To: ann@lab.example, Bob <bob@lab.example>\r$/m);
    assert.match(mail!.text, /^Auto-Submitted: auto-generated\r$/m);
    const encoded = mail!.text.split(/filename=curve.png\r\n\r\n/)[1]!.split("--")[0]!.replaceAll(
      /\s/g,
      "",
    );
    assert.deepEqual(Uint8Array.fromBase64(encoded), PICTURE);
    // A line with a dot alone ends the data of SMTP: it has arrived, and what follows it.
    assert.ok(/=C3=9Cbung/.test(mail!.text) || mail!.text.includes("Übung"), mail!.text);
  } finally {
    await server.close();
  }
});

Deno.test("mail: a wrong password and an unknown mailbox are final, a busy server is not, and no error has the password", async () => {
  const server = await smtpServer({ users: { mosaic: "pass word" }, refuseFirst: 1 });
  try {
    const refused = await send(receiver(smtp(server.port, "mosaic"), "guess-work"));
    assert.ok(refused?.final && !refused.why.includes("guess-work"));
    const unknown = await send(
      receiver(smtp(server.port, "mosaic", ["nobody@lab.example"]), "pass word"),
    );
    assert.ok(unknown?.final);
    assert.match(unknown.why, /no such mailbox|nobody/);
    const busy = await send(receiver(smtp(server.port, "mosaic"), "pass word"));
    assert.deepEqual([busy?.final, /later/.test(busy?.why ?? "")], [false, true]);
    assert.equal(await send(receiver(smtp(server.port, "mosaic"), "pass word")), undefined);
    assert.equal(server.mails.length, 1);
  } finally {
    await server.close();
  }
  // Nobody listens there any more.
  const gone = await send(receiver(smtp(server.port))).catch((error) => ({
    why: error.message,
    final: false,
  }));
  assert.deepEqual(gone?.final, false);
  assert.match(gone!.why, /refused|ECONNREFUSED/i);
});

Deno.test("mail: sendmail gets the whole message and the recipients; its exit code says whether to try again", async () => {
  const directory = Deno.makeTempDirSync();
  const program = `${directory}/sendmail`;
  const write = (script: string) => {
    Deno.writeTextFileSync(program, `#!/bin/sh\n${script}\n`);
    Deno.chmodSync(program, 0o755);
  };
  const to: Service = {
    type: "sendmail",
    program,
    from: "mosaic <mosaic@lab.example>",
    to: ["ann@lab.example"],
  };
  try {
    write(`printf '%s\\n' "$@" > ${directory}/words; cat > ${directory}/mail`);
    assert.equal(await send(receiver(to), PICTURE), undefined);
    assert.deepEqual(Deno.readTextFileSync(`${directory}/words`).trim().split("\n"), [
      ...["-i", "-f", "mosaic@lab.example", "--", "ann@lab.example"],
    ]);
    const mail = Deno.readTextFileSync(`${directory}/mail`);
    assert.match(mail, /^Subject: mosaic: cart failed$/m);
    assert.match(mail, /filename=curve.png/);
    write("echo queue full >&2; exit 75");
    assert.deepEqual(await send(receiver(to)), {
      why: `${program} ended with 75: queue full`,
      final: false,
    });
    write("exit 64");
    assert.deepEqual(await send(receiver(to), PICTURE), {
      why: `${program} ended with 64`,
      final: true,
    });
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
