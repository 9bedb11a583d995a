/** The portable executable: it unpacks itself once, safely, wherever it is dropped. */
import assert from "node:assert/strict";

const root = new URL("../..", import.meta.url).pathname;
const directory = Deno.makeTempDirSync();
const built = `${directory}/built/mosaic`;

interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

async function start(file: string, args: string[], env: Record<string, string>): Promise<Ended> {
  const out = await new Deno.Command(file, {
    args,
    env: { PATH: "/usr/bin:/bin", ...env },
    clearEnv: true,
    stdin: "null",
  }).output();
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code: out.code, stdout: decode(out.stdout), stderr: decode(out.stderr) };
}

function freshDir(name: string): string {
  const path = `${directory}/${name}`;
  Deno.mkdirSync(path, { recursive: true });
  return path;
}

/** The one directory below a cache that holds an unpacked mosaic. */
function unpackedIn(cache: string): string[] {
  return [...Deno.readDirSync(cache)].map((e) => e.name).sort();
}

async function build(): Promise<void> {
  freshDir("built");
  const made = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "scripts/compile.ts", "--offline", "--output", built],
    cwd: root,
    stdin: "null",
  }).output();
  assert.ok(made.success, new TextDecoder().decode(made.stderr));
}

Deno.test("portable executable", async (t) => {
  await build();
  try {
    await t.step("eight first starts at once all answer, and one copy is left", async () => {
      const cache = freshDir("eight");
      const all = await Promise.all(
        Array.from({ length: 8 }, () => start(built, ["--version"], { MOSAIC_CACHE_DIR: cache })),
      );
      for (const one of all) {
        assert.equal(one.code, 0, one.stderr);
        assert.match(one.stdout, /^mosaic \d+\.\d+\.\d+/);
      }
      assert.equal(unpackedIn(cache).length, 1);
    });

    await t.step("HOME is used when nothing else is named, and a name with spaces is fine", async () => {
      const home = freshDir("a home");
      const copy = `${freshDir("with space")}/my mosaic`;
      Deno.copyFileSync(built, copy);
      const one = await start(copy, ["--version"], { HOME: home });
      assert.equal(one.code, 0, one.stderr);
      assert.equal(unpackedIn(`${home}/.cache/mosaic`).length, 1);
    });

    await t.step("without HOME it unpacks below TMPDIR", async () => {
      const tmp = freshDir("tmp");
      const one = await start(built, ["--version"], { TMPDIR: tmp });
      assert.equal(one.code, 0, one.stderr);
      assert.equal(unpackedIn(tmp).length, 1);
    });

    await t.step("an emptied or shortened copy in the cache is made anew", async () => {
      const cache = freshDir("emptied");
      await start(built, ["--version"], { MOSAIC_CACHE_DIR: cache });
      const [key] = unpackedIn(cache);
      for (const file of ["deno", "mosaic.js"]) {
        Deno.truncateSync(`${cache}/${key}/${file}`, file === "deno" ? 1000 : 0);
        const again = await start(built, ["--version"], { MOSAIC_CACHE_DIR: cache });
        assert.equal(again.code, 0, again.stderr);
        assert.match(again.stdout, /^mosaic /);
      }
    });

    await t.step("a damaged executable says so and starts nothing", async () => {
      const copy = `${freshDir("damaged")}/mosaic`;
      Deno.copyFileSync(built, copy);
      Deno.truncateSync(copy, Math.floor(Deno.statSync(built).size * 0.9));
      const cache = freshDir("damaged-cache");
      const one = await start(copy, ["--version"], {
        MOSAIC_CACHE_DIR: cache,
        TMPDIR: freshDir("damaged-tmp"),
        HOME: freshDir("damaged-home"),
      });
      assert.equal(one.code, 4);
      assert.equal(one.stdout, "");
      assert.match(one.stderr, /damaged/);
      assert.deepEqual(unpackedIn(cache), []);
    });

    await t.step("a cache that cannot be written is passed over", async () => {
      const cache = `${freshDir("file-instead")}/cache`;
      Deno.writeTextFileSync(cache, "a file, not a directory");
      const tmp = freshDir("fallback");
      const one = await start(built, ["--version"], { MOSAIC_CACHE_DIR: cache, TMPDIR: tmp });
      assert.equal(one.code, 0, one.stderr);
      assert.equal(unpackedIn(tmp).length, 1);
    });

    await t.step("it names its version and commit, and exit codes are the program's own", async () => {
      const cache = freshDir("codes");
      const version = await start(built, ["--version"], { MOSAIC_CACHE_DIR: cache });
      assert.match(version.stdout, /^mosaic \d+\.\d+\.\d+ \(([0-9a-f]{12}(-dirty)?|unknown), deno /);
      const wrong = await start(built, ["no-such-verb"], { MOSAIC_CACHE_DIR: cache });
      assert.equal(wrong.code, 2);
      assert.match(wrong.stderr, /no-such-verb/);
    });

    await t.step("its checksum file is right", () => {
      const [sum] = Deno.readTextFileSync(`${built}.sha256`).split(" ");
      const checked = new Deno.Command("sha256sum", { args: [built], stdin: "null" }).outputSync();
      assert.equal(new TextDecoder().decode(checked.stdout).split(" ")[0], sum);
    });
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
