/** Certificates for tests, made by openssl. */
import assert from "node:assert/strict";

function openssl(...args: string[]): void {
  const { success, stderr } = new Deno.Command("openssl", { args }).outputSync();
  assert.ok(success, new TextDecoder().decode(stderr));
}

/** An authority, and certificates of it for `localhost`, for a further address and for a client. */
export function certificates(directory: string, address?: string) {
  const at = (name: string) => `${directory}/${name}.pem`;
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const days = ["-days", "2"];
  const further = address === undefined ? "" : `,IP:${address}`;
  openssl("req", "-x509", ...key, ...days, "-subj", "/CN=test authority", "-keyout", at("ca-key"), "-out", at("ca"));
  for (const name of ["server", "client"]) {
    // X.509 version 3, by the extensions: the runtime takes no older ones.
    const extensions = `${directory}/${name}.ext`;
    Deno.writeTextFileSync(extensions, `subjectAltName=DNS:localhost,IP:127.0.0.1${further}\n`);
    openssl("req", ...key, "-subj", `/CN=${name}`, "-keyout", at(`${name}-key`), "-out", at(`${name}-csr`));
    openssl(
      ...["x509", "-req", "-in", at(`${name}-csr`), "-CA", at("ca"), "-CAkey", at("ca-key"), "-CAcreateserial"],
      ...[...days, "-extfile", extensions, "-out", at(name)],
    );
  }
  return {
    ca: at("ca"),
    server: { cert: at("server"), key: at("server-key") },
    client: { cert: at("client"), key: at("client-key") },
  };
}
