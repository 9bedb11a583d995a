/** The contents of an executable as a software bill of materials: CycloneDX 1.6, JSON. */
import { VERSION } from "../../src/base/version.ts";
import { commit, fail, ROOT, sha256 } from "./build.ts";
import { graph, packagesOf } from "./licences.ts";

interface Lock {
  npm: Record<string, { integrity: string }>;
}

/**
 * @param executable its bytes. The same inputs give the same text: it contains no time and no
 * random number
 */
export function sbom(executable: Uint8Array): string {
  const lock = JSON.parse(Deno.readTextFileSync(`${ROOT}dev.lock`)) as Lock;
  const packages = packagesOf(graph()).map(({ name, version, localPath }) => {
    const id = `${name}@${version}`;
    const found = Object.entries(lock.npm).find(([key]) => key === id || key.startsWith(`${id}_`));
    if (found === undefined) fail(`dev.lock does not name ${id}`);
    const { license } = JSON.parse(Deno.readTextFileSync(`${localPath}/package.json`)) as {
      license?: string;
    };
    const [algorithm, digest] = found[1].integrity.split("-", 2);
    if (algorithm !== "sha512") {
      fail(`dev.lock gives ${id} the digest ${algorithm}, and not sha512`);
    }
    return {
      type: "library",
      "bom-ref": purlOf(name, version),
      name,
      version,
      hashes: [{ alg: "SHA-512", content: Uint8Array.fromBase64(digest!).toHex() }],
      licenses: license === undefined ? [] : [{ expression: license }],
      purl: purlOf(name, version),
    };
  });
  const deno = {
    type: "platform",
    "bom-ref": "deno",
    name: "deno",
    version: Deno.version.deno,
    licenses: [{ expression: "MIT" }],
    purl: `pkg:github/denoland/deno@v${Deno.version.deno}`,
    properties: [
      { name: "v8", value: Deno.version.v8 },
      { name: "target", value: Deno.build.target },
    ],
  };
  const made = {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      component: {
        type: "application",
        "bom-ref": "mosaic",
        name: "mosaic",
        version: VERSION,
        hashes: [{ alg: "SHA-256", content: sha256(executable) }],
        properties: [{ name: "commit", value: commit() }],
      },
    },
    components: [deno, ...packages],
    dependencies: [{
      ref: "mosaic",
      dependsOn: [deno, ...packages].map((component) => component["bom-ref"]),
    }],
  };
  return `${JSON.stringify(made, null, 2)}\n`;
}

const purlOf = (name: string, version: string): string =>
  `pkg:npm/${name.replace(/^@/, "%40")}@${version}`;
