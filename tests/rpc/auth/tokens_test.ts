import assert from "node:assert/strict";
import { checkListener } from "../../../src/wire/address/tls.ts";
import {
  ensureTokens,
  readTokens,
  rotateTokens,
  sameToken,
  STANDARD_TOKENS,
  TokenFile,
} from "../../../src/wire/tokens.ts";
import { resolveDialOptions } from "../../../src/wire/client/target.ts";
import { hasCode } from "../../registry/fixture.ts";

function withDirectory(work: (directory: string, path: string) => void): void {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-tokens-" });
  try {
    work(directory, `${directory}/tokens.json`);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

Deno.test("tokens: made once, for the owner only, and kept", () => {
  withDirectory((_, path) => {
    const tokens = ensureTokens(path);
    assert.notEqual(tokens.admin, tokens.read);
    assert.ok(tokens.admin.length > 40);
    assert.equal(Deno.statSync(path).mode! & 0o777, 0o600);
    assert.deepEqual(ensureTokens(path), tokens);
  });
});

Deno.test("tokens: a file that others can read is refused, and the hint mends it", () => {
  withDirectory((_, path) => {
    const tokens = ensureTokens(path);
    Deno.chmodSync(path, 0o644);
    assert.throws(() => readTokens(path), (error) => {
      assert.match((error as { hint: string }).hint, /token rotate/);
      assert.ok(!(error as Error).message.includes(tokens.admin));
      return hasCode("failed_precondition", /644/)(error);
    });
    const fresh = rotateTokens(path, ["admin"]);
    assert.equal(Deno.statSync(path).mode! & 0o777, 0o600);
    assert.notEqual(fresh.admin, tokens.admin);
    assert.notEqual(fresh.read, tokens.read, "what others could read is replaced whole");
    Deno.writeTextFileSync(path, "{torn");
    assert.throws(() => readTokens(path), hasCode("failed_precondition", /holds no tokens/));
  });
});

Deno.test("tokens: a rotation takes effect on a running daemon, for the roles that were named", () => {
  withDirectory((_, path) => {
    const file = new TokenFile(path);
    const before = readTokens(path)!;
    assert.deepEqual([file.holderOf(before.admin)?.role, file.holderOf(before.read)?.role], [
      "admin",
      "read",
    ]);
    assert.equal(file.holderOf("")?.role, undefined);
    const after = rotateTokens(path, ["admin"]);
    assert.deepEqual([file.holderOf(before.admin)?.role, file.holderOf(after.admin)?.role], [
      undefined,
      "admin",
    ]);
    assert.equal(file.holderOf(before.read)?.role, "read");
    const all = rotateTokens(path, STANDARD_TOKENS);
    assert.equal(file.holderOf(before.read)?.role, undefined);
    // A file that is lost under the daemon locks nobody out who was in.
    Deno.removeSync(path);
    assert.equal(file.holderOf(all.read)?.role, "read");
  });
});

Deno.test("tokens: the same only when they are the same, and nothing is never a token", () => {
  assert.ok(sameToken("abc", "abc"));
  assert.ok(!sameToken("abc", "abd"));
  assert.ok(!sameToken("abc", "abcd"));
  assert.ok(!sameToken("", ""));
});

Deno.test("listeners: what other machines can reach needs TLS and a credential", () => {
  const tls = { cert: "c", key: "k" };
  for (const listen of ["127.0.0.1:0", "[::1]:1", "unix:/x"]) {
    checkListener({ listen, auth: "none" });
  }
  checkListener({ listen: "0.0.0.0:1", auth: "token", tls });
  checkListener({ listen: "0.0.0.0:1", auth: "none", tls: { ...tls, ca: "ca" } });
  const refused = (options: Parameters<typeof checkListener>[0], text: RegExp) =>
    assert.throws(() => checkListener(options), hasCode("failed_precondition", text));
  refused({ listen: "0.0.0.0:1", auth: "none" }, /TLS.*and a credential/);
  refused({ listen: "[::]:1", auth: "token" }, /TLS/);
  refused({ listen: "10.1.2.3:1", auth: "none", tls }, /a credential/);
});

Deno.test("clients: the state directory's daemon is entered by its socket, without a token; none travels unencrypted", () => {
  withDirectory((stateDir) => {
    Deno.mkdirSync(`${stateDir}/trainer`);
    ensureTokens(`${stateDir}/trainer/tokens.json`);
    Deno.writeTextFileSync(
      `${stateDir}/trainer/daemon.json`,
      '{"listen":"0.0.0.0:1","socket":"/run/d.sock"}',
    );
    const none = () => undefined;
    assert.deepEqual(resolveDialOptions({ stateDir, env: none }), {
      target: "unix:/run/d.sock",
      token: undefined,
      tls: undefined,
      serverName: undefined,
    });
    assert.equal(resolveDialOptions({ target: "127.0.0.1:9", env: none }).token, undefined);
    const env = (name: string) => ({ MOSAIC_TOKEN: "t", MOSAIC_TLS_CA: "/ca.pem" })[name];
    assert.deepEqual(resolveDialOptions({ target: "far:9", env }).tls?.ca, "/ca.pem");
    // As of a proxy with --tls-ca, whose own certificate is in its environment.
    const own = (name: string) =>
      ({ MOSAIC_TLS_CA: "/x", MOSAIC_TLS_CERT: "/c.pem", MOSAIC_TLS_KEY: "/k.pem" })[name];
    assert.deepEqual(
      resolveDialOptions({ target: "far:9", tls: { ca: "/ca.pem" }, env: own }).tls,
      {
        ca: "/ca.pem",
        cert: "/c.pem",
        key: "/k.pem",
      },
    );
    assert.throws(
      () => resolveDialOptions({ target: "far:9", token: "t", env: none }),
      hasCode("failed_precondition", /unencrypted/),
    );
    assert.throws(
      () => resolveDialOptions({ target: "http://far:9", env }),
      hasCode("failed_precondition", /unencrypted/),
    );
    assert.equal(resolveDialOptions({ target: "https://far:9", token: "t", env: none }).token, "t");
    assert.equal(resolveDialOptions({ target: "127.0.0.1:9", token: "t", env: none }).token, "t");
    assert.equal(
      resolveDialOptions({ target: "[2001:db8::1]:9", serverName: "far", env }).serverName,
      "far",
    );
    for (const target of ["far", "ftp://far:1", "https://far:9/api", "unix:", "far:70000"]) {
      assert.throws(
        () => resolveDialOptions({ target, env: none }),
        hasCode("invalid_argument", /no daemon can be called/),
      );
    }
    Deno.writeTextFileSync(`${stateDir}/trainer/daemon.json`, '{"listen":"0.0.0.0:1"}');
    assert.throws(
      () => resolveDialOptions({ stateDir, env: none }),
      hasCode("unavailable", /does not name the daemon's socket/),
    );
  });
});
