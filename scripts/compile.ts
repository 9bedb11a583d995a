/**
 * `deno task compile [--offline] [--target TRIPLE] [--profile NAME] [--output FILE] [--compression
 * N] [--sign KEY]`: one executable, `dist/mosaic`.
 * - The compiled form is made by `deno compile`. It needs Deno's runtime base `denort`, searched at
 *   `DENORT_BIN`, then in `$DENO_DIR/dl/release/vVERSION/denort-TARGET.zip`; if it is at neither,
 *   the command says what to download and where to put it. `--profile` is the permission set of
 *   deno.json that is built in: workstation (default), daemon, proxy, client, or all.
 * - `--offline` makes the portable form: a shell stub, the Deno that runs this script, and the
 *   bundled program. `--profile least` (default) gives each part only what it needs
 *   (docs/reference/permissions.md), `all` gives it everything.
 * Beside it: `mosaic.sha256` (checksums of the executable and the next file), `mosaic.cdx.json`
 * (CycloneDX) and `THIRD_PARTY_LICENSES`; with `--sign` and an OpenSSH key `mosaic.sha256.sig`. The
 * same inputs give the same bytes.
 */
import { fail, ROOT, sha256 } from "./compile/build.ts";
import { compiled, type Profile, PROFILES } from "./compile/compiled.ts";
import { licences } from "./compile/licences.ts";
import { portable } from "./compile/portable.ts";
import { sbom } from "./compile/sbom.ts";
import { sign } from "./compile/sign.ts";
import { taskArguments } from "./task_arguments.ts";

const { values: options } = taskArguments(import.meta.url, {
  offline: { type: "boolean" },
  target: { type: "string" },
  profile: { type: "string" },
  output: { type: "string" },
  compression: { type: "string", default: "6" },
  sign: { type: "string" },
});
const output = options.output ?? `${ROOT}dist/mosaic`;
Deno.mkdirSync(output.replace(/[^/]*$/, "") || ".", { recursive: true });
const profile = options.profile ?? (options.offline ? "least" : "workstation");
const allowed: readonly string[] = options.offline ? ["least", "all"] : PROFILES;
if (!allowed.includes(profile)) {
  fail(`--profile ${profile}: here it is one of ${allowed.join(", ")}`);
}
const compression = Number(options.compression);
if (!(compression >= 1 && compression <= 9)) {
  fail(`--compression ${options.compression}: it is a number from 1 to 9`);
}
Deno.mkdirSync(`${ROOT}dist`, { recursive: true });
if (options.offline && options.target !== undefined && options.target !== Deno.build.target) {
  fail(
    `--offline packs the Deno at hand (${Deno.build.target}); run it on a ${options.target} machine instead`,
  );
}
if (options.offline) portable({ output, profile: profile as "least" | "all", compression });
else compiled({ output, target: options.target, profile: profile as Profile });
Deno.writeTextFileSync(`${output.replace(/[^/]*$/, "")}THIRD_PARTY_LICENSES`, licences());
Deno.writeTextFileSync(`${output}.cdx.json`, sbom(Deno.readFileSync(output)));
const sums = [output, `${output}.cdx.json`].map((file) =>
  `${sha256(Deno.readFileSync(file))}  ${file.replace(/^.*\//, "")}\n`
);
Deno.writeTextFileSync(`${output}.sha256`, sums.join(""));
if (options.sign !== undefined) sign(`${output}.sha256`, options.sign);
console.log(
  `${output}  ${(Deno.statSync(output).size / 1e6).toFixed(1)} MB  ` +
    `${options.offline ? "portable" : "compiled"}, permissions: ${profile}`,
);
