/**
 * The compiled form, as far as it goes without Deno's runtime base: what is handed to `deno
 * compile`, what is in the executable, and that it comes out the same twice. The stock runtime
 * stands in for the base: the result does not run.
 */
import assert from "node:assert/strict";
import { sha256 } from "../../scripts/compile/build.ts";
import { compileArguments, compiled, PROFILES } from "../../scripts/compile/compiled.ts";
import { graph, packagesOf } from "../../scripts/compile/licences.ts";
import { baseTrouble } from "../../scripts/compile/runtime_base.ts";
import { V8_FLAGS } from "../../src/os/processes/heap.ts";
import { selfCommand } from "../../src/os/processes/self.ts";
import stub from "../../scripts/compile/stub.sh" with { type: "text" };
import config from "../../deno.json" with { type: "json" };

const ROOT = new URL("../..", import.meta.url).pathname;

Deno.test("compile: nothing is asked for at run time, nothing is fetched, and one named set is built in", () => {
  const given = compileArguments(
    { output: "/o/mosaic", target: undefined, profile: "daemon" },
    "/app",
  );
  for (const flag of ["--no-prompt", "--no-remote", "--unstable-net", "-P=daemon", "--config"]) {
    assert.ok(given.includes(flag), `${flag} in ${given.join(" ")}`);
  }
  assert.deepEqual(given.slice(-3), ["-o", "/o/mosaic", "/app/main.js"]);
  for (const profile of PROFILES) {
    const words = compileArguments({ output: "m", target: undefined, profile }, "/app");
    assert.equal(words.includes("-A"), profile === "all");
    assert.ok(!words.some((word) => word.startsWith("--allow-")));
    if (profile !== "all") assert.ok(profile in config.permissions, profile);
  }
  const target = "aarch64-unknown-linux-gnu";
  assert.match(
    compileArguments({ output: "m", target, profile: "all" }, "/a").join(" "),
    new RegExp(`--target ${target}`),
  );
});

const X86 = "x86_64-unknown-linux-gnu";
const ARM = "aarch64-unknown-linux-gnu";
const ARCHIVE = "/c/dl/release/v2.9.3/denort-x86_64-unknown-linux-gnu.zip";
const bytesOf = (latin1: string) => Uint8Array.from(latin1, (letter) => letter.charCodeAt(0));

/** The beginning of an executable, and what it says that it is. */
function program(machine: number, text: string): Uint8Array {
  const header = new Uint8Array(64);
  header.set(bytesOf("\x7fELF\x02\x01\x01"));
  header.set([machine], 18);
  return new Uint8Array([...header, ...bytesOf(text)]);
}

function trouble(target: string, env: string | undefined, files: Record<string, Uint8Array>) {
  return baseTrouble(target, {
    cache: "/c",
    version: "2.9.3",
    env: () => env,
    read: (path) => files[path],
  });
}

Deno.test("every form of mosaic starts with the same bounds on its heap", () => {
  assert.ok(
    compileArguments({ output: "m", target: undefined, profile: "all" }, "/a").includes(V8_FLAGS),
  );
  assert.ok(selfCommand().argv.includes(V8_FLAGS));
  assert.match(stub, /^tuned=@V8_FLAGS@$/m);
  for (const task of [config.tasks.mosaic, config.tasks.demo]) {
    assert.ok(task.split(" ").includes(V8_FLAGS), task);
  }
});

Deno.test("compile: a base that is not at hand is named, with where to get it and where to put it", () => {
  assert.deepEqual(trouble(X86, undefined, { [ARCHIVE]: bytesOf("PK\x03\x04…") }), {});
  assert.match(
    trouble(X86, "/d/denort", {}).error!,
    /DENORT_BIN names \/d\/denort, which is not a file/,
  );
  const said = trouble(X86, undefined, {}).error!;
  for (
    const part of [
      "https://dl.deno.land/release/v2.9.3/denort-x86_64-unknown-linux-gnu.zip",
      ARCHIVE,
      "--offline",
    ]
  ) {
    assert.ok(said.includes(part), said);
  }
  assert.match(
    trouble(X86, undefined, { [ARCHIVE]: bytesOf("<html>403") }).error!,
    /denort-x86_64-unknown-linux-gnu\.zip is a web page.*\n.*https:/,
  );
});

Deno.test("compile: a base of another architecture, version or kind is refused with what it is and what it must be", () => {
  const [x86, arm] = [62, 183];
  const given = (target: string, bytes: Uint8Array) =>
    trouble(target, "/d/denort", { "/d/denort": bytes });
  assert.deepEqual(given(X86, program(x86, "…Deno/2.9.3+f39575e…Deno/2.9.3…")), {});
  assert.deepEqual(given(ARM, program(arm, "Deno/2.9.3")), {});
  assert.match(given(X86, program(x86, "hello")).warning!, /says nowhere which Deno/);
  const cases: [string, Uint8Array, RegExp][] = [
    [
      ARM,
      program(x86, "Deno/2.9.3"),
      /is for x86_64\. It must be denort of Deno 2\.9\.3 for aarch64-/,
    ],
    [X86, program(arm, "Deno/2.9.3"), /is for aarch64\./],
    [X86, program(243, ""), /is for riscv64\./],
    [X86, program(x86, "Deno/2.9.4"), /is of Deno 2\.9\.4\. It must be denort of Deno 2\.9\.3/],
    [X86, program(x86, "").subarray(0, 20), /is cut off/],
    [X86, bytesOf("PK\x03\x04…"), /is a zip archive: unpack it/],
    [X86, bytesOf("<!doctype html>"), /is a web page/],
    [X86, bytesOf("#!/bin/sh"), /is a script/],
    [X86, bytesOf("MZ"), /is a program for Windows/],
    [X86, bytesOf(""), /is empty/],
  ];
  for (const [target, bytes, expected] of cases) {
    const { error = "" } = given(target, bytes);
    assert.match(error, expected);
    assert.ok(error.startsWith("DENORT_BIN names /d/denort, which "), error);
    assert.ok(error.includes(`https://dl.deno.land/release/v2.9.3/denort-${target}.zip`), error);
  }
});

/**
 * What main.js imports, at once or later, and so on. The bundler leaves parts behind that nothing
 * imports.
 */
function reachable(program: Map<string, string>): string[] {
  const found = ["main.js"];
  for (const name of found) {
    for (const [, other] of program.get(name)!.matchAll(/"\.\/([\w.-]+\.js)"/g)) {
      if (program.has(other!) && !found.includes(other!)) found.push(other!);
    }
  }
  return found;
}

async function compile(
  args: string[],
  base = Deno.execPath(),
): Promise<{ code: number; err: string }> {
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "scripts/compile.ts", ...args],
    cwd: ROOT,
    env: { DENORT_BIN: base },
    stdin: "null",
    stdout: "null",
  }).output();
  return { code, err: new TextDecoder().decode(stderr) };
}

Deno.test("compile: an unknown target or profile is refused with those that there are", async () => {
  const target = await compile(["--target", "x86_64-pc-windows-msvc"]);
  assert.equal(target.code, 1);
  assert.match(
    target.err,
    /x86_64-pc-windows-msvc.*x86_64-unknown-linux-gnu and aarch64-unknown-linux-gnu/,
  );
  assert.match(
    (await compile(["--profile", "root"])).err,
    /--profile root.*workstation, daemon, proxy, client, all/,
  );
});

Deno.test("compile: with a base for another machine nothing is built", async () => {
  const directory = Deno.makeTempDirSync();
  try {
    const [base, output] = [`${directory}/denort`, `${directory}/mosaic`];
    Deno.writeFileSync(base, program(62, "Deno/2.9.3"));
    const made = await compile(["--target", ARM, "--output", output], base);
    assert.equal(made.code, 1);
    assert.match(made.err, /^compile: DENORT_BIN names .*\/denort, which is for x86_64\./);
    assert.throws(() => Deno.statSync(output), Deno.errors.NotFound);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("compile: the whole program is in it, with its flags and its commit; two builds are the same bytes", async (t) => {
  const directory = Deno.makeTempDirSync();
  try {
    const [one, two] = [`${directory}/one/mosaic`, `${directory}/two/mosaic`];
    const made = await compile(["--profile", "daemon", "--output", one]);
    assert.equal(made.code, 0, made.err);
    assert.match(made.err, /DENORT_BIN is the deno command itself, not denort/);
    const bytes = Deno.readFileSync(one);
    // The second is built here, which also tells what it was built of.
    Deno.mkdirSync(`${directory}/two`);
    Deno.env.set("DENORT_BIN", Deno.execPath());
    const program = compiled({ output: two, target: undefined, profile: "daemon" });
    Deno.env.delete("DENORT_BIN");
    await t.step("the same bytes, and a checksum file that is right", () => {
      assert.equal(sha256(bytes), sha256(Deno.readFileSync(two)));
      assert.equal(
        Deno.readTextFileSync(`${one}.sha256`).split("\n")[0],
        `${sha256(bytes)}  mosaic`,
      );
    });
    // The program lies behind the base.
    const text = new TextDecoder("latin1").decode(
      bytes.subarray(Deno.statSync(Deno.execPath()).size),
    );
    await t.step("every part of the bundle, also what is loaded when it is needed", () => {
      const names = reachable(program);
      assert.ok(names.length > 50 && names.some((name) => name.startsWith("daemon-")));
      for (const name of names) assert.ok(text.includes(`"n":"${name}"`), name);
    });
    await t.step(
      "what is no module is in the bundle as text: proto files, the page, the schema",
      () => {
        const texts = reachable(program).map((name) => program.get(name)!).join("\n");
        for (
          const part of ['"gymgui/trainer.proto"', "<!doctype html>", "https://json-schema.org/"]
        ) {
          assert.ok(texts.toLowerCase().includes(part.toLowerCase()), part);
        }
      },
    );
    await t.step(
      "descriptors of well-known types are in the part that is loaded for them alone",
      () => {
        const having = reachable(program).filter((name) =>
          program.get(name)!.includes("google.protobuf.FieldOptions")
        );
        assert.deepEqual(having, ["well_known.js"]);
      },
    );
    await t.step("no prompts, the daemon's set, the commit", () => {
      assert.match(text, /"no_prompt":true|"prompt":false/);
      assert.ok(text.includes('"/var/lib/mosaic"') && text.includes('"/bin/sh"'));
      assert.doesNotMatch(text, /"allow_all":true/);
      assert.match(text, /globalThis\.MOSAIC_COMMIT="(?:[0-9a-f]{12}(?:-dirty)?|unknown)"/);
    });
    await t.step("the licences of every package of the module graph, and the runtime's", () => {
      const licences = Deno.readTextFileSync(`${directory}/one/THIRD_PARTY_LICENSES`);
      const packages = packagesOf(graph());
      const expected = [
        "@grpc/grpc-js",
        "@bufbuild/protobuf",
        "hono",
        "zod",
        "commander",
        "preact",
        "uplot",
        "protobufjs",
      ];
      for (const name of expected) assert.ok(packages.some((one) => one.name === name), name);
      for (const { name, version } of packages) {
        assert.ok(licences.includes(`${name} ${version} (`), name);
      }
      assert.ok(licences.startsWith(`Deno ${Deno.version.deno} (MIT)`));
      assert.ok(
        !/^(playwright-core|axe-core|typescript) /m.test(licences),
        "what tests use is not in it",
      );
    });
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
