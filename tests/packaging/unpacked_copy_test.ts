/**
 * The portable executable's unpacked copy, when other users of the machine prepare the places where
 * it is sought. The stub is the real one; a few lines of shell replace the runtime, so that each
 * attack is tried under each shell.
 */
import assert from "node:assert/strict";
import { type Ended, start } from "../harness/built.ts";
import { findProgram } from "../../src/proxy/worker/program.ts";
import { writePortable } from "../../scripts/compile/portable.ts";

const PATH = "/usr/bin:/bin:/usr/sbin:/sbin";
const OTHER = 65533;
const has = (name: string) => "path" in findProgram(name, "/", PATH);

const shells = [["dash"], ["bash"], ["busybox", "sh"]].filter(([name]) => {
  if (!has(name!)) {
    console.log(`SKIPPED: ${name} is not installed, so the stub does not run under it`);
  }
  return has(name!);
});
const others = Deno.uid() === 0 && has("setpriv") && has("unshare");
if (!others) {
  console.log(
    "NOT ALLOWED HERE: this is not root with setpriv and unshare, so no other user prepares a cache",
  );
}

// Other users must get there, so it is not below the runner's directory, which is private.
const directory = Deno.makeTempDirSync({ dir: "/tmp", prefix: "mosaic-unpacked-" });
addEventListener("unload", () => Deno.removeSync(directory, { recursive: true }));
Deno.chmodSync(directory, 0o755);

function portableOf(name: string, runtime: string, interpreter = "/bin/sh"): string {
  const output = `${directory}/${name}`;
  const encoder = new TextEncoder();
  writePortable({
    ...{ output, profile: "all", compression: 1, commit: "0", interpreter },
    runtime: encoder.encode(`#!/bin/sh\n${runtime}\n`),
    files: [{ name: "main.js", bytes: encoder.encode("// the program") }],
  });
  return output;
}

const mosaic = portableOf("mosaic", "echo right");
const older = portableOf("older", "echo older");

interface Place {
  shell: string[];
  /** A directory of its own, that everybody may enter. */
  root: string;
  /** A temporary directory that everybody may write to, with the sticky bit. */
  tmp: string;
  run(env: Record<string, string>, file?: string, before?: string[]): Promise<Ended>;
}

let places = 0;

function attack(name: string, body: (place: Place) => Promise<void>, ignore = !others): void {
  for (const shell of shells) {
    Deno.test({
      name: `unpacked copy: ${name} (${shell[0]})`,
      ignore,
      fn: () => {
        const root = `${directory}/${++places}`;
        const tmp = `${root}/tmp`;
        Deno.mkdirSync(tmp, { recursive: true });
        Deno.chmodSync(tmp, 0o1777);
        const run: Place["run"] = (env, file = mosaic, before = []) => {
          const [program, ...args] = [...before, ...shell, file, "list"];
          return start(program!, args, { PATH, TMPDIR: tmp, ...env });
        };
        return body({ shell, root, tmp, run });
      },
    });
  }
}

function namesIn(path: string): string[] {
  return [...Deno.readDirSync(path)].map(({ name }) => name).sort();
}

function isRight({ code, stdout, stderr }: Ended): void {
  assert.deepEqual([stdout, stderr, code], ["right\n", "", 0]);
}

/** The directory of a file's copy: its name is the same everywhere. */
async function keyOf(place: Place, file = mosaic): Promise<string> {
  const cache = `${place.root}/key`;
  await place.run({ MOSAIC_CACHE_DIR: cache }, file);
  const [key] = namesIn(cache);
  Deno.removeSync(cache, { recursive: true });
  return key!;
}

attack(
  "a directory of another user's is not used, whatever it links to, and the fresh one is found again",
  async (place) => {
    const squatted = `${place.tmp}/mosaic-cache-0`;
    const home = `${place.root}/home`;
    assert.equal((await place.run({ HOME: home }, older)).stdout, "older\n");
    const [old] = namesIn(`${home}/.cache/mosaic`);
    Deno.mkdirSync(squatted);
    Deno.symlinkSync(`${home}/.cache/mosaic/${old}`, `${squatted}/${await keyOf(place)}`);
    Deno.chownSync(squatted, OTHER, OTHER);
    isRight(await place.run({}));
    isRight(await place.run({}));
    const [, fresh, ...more] = namesIn(place.tmp);
    assert.match(fresh!, /^mosaic-cache-0\.\w{6}$/);
    assert.deepEqual(more, []);
    const { uid, mode } = Deno.lstatSync(`${place.tmp}/${fresh}`);
    assert.deepEqual([uid, mode! & 0o777], [0, 0o700]);
    isRight(await place.run({ HOME: home }));
  },
);

attack("another user's link is not followed, and nothing is made where it leads", async (place) => {
  const led = `${place.root}/private`;
  Deno.mkdirSync(led);
  const old = `${place.root}/old`;
  assert.equal((await place.run({ MOSAIC_CACHE_DIR: old }, older)).stdout, "older\n");
  Deno.symlinkSync(`${old}/${namesIn(old)[0]}`, `${led}/${await keyOf(place)}`);
  Deno.symlinkSync(led, `${place.tmp}/mosaic-cache-0`);
  isRight(await place.run({}));
  assert.equal(namesIn(led).length, 1);
  assert.equal(namesIn(place.tmp).length, 2);
});

attack(
  "an older copy under this file's name is replaced, also one whose own record is right",
  async (place) => {
    const cache = `${place.root}/cache`;
    await place.run({ MOSAIC_CACHE_DIR: cache }, older);
    const key = await keyOf(place);
    Deno.renameSync(`${cache}/${namesIn(cache)[0]}`, `${cache}/${key}`);
    isRight(await place.run({ MOSAIC_CACHE_DIR: cache }));
    assert.deepEqual(namesIn(cache), [key]);
  },
);

attack("a cache below a directory that others can write to is passed over", async (place) => {
  for (
    const [name, mode, owner, group] of [
      ["open", 0o777, 0, 0],
      ["group", 0o775, 0, OTHER],
      ["theirs", 0o755, OTHER, OTHER],
    ] as const
  ) {
    const above = `${place.root}/${name}`;
    Deno.mkdirSync(`${above}/cache`, { recursive: true });
    const made = `${above}/cache`;
    isRight(await place.run({ MOSAIC_CACHE_DIR: made }));
    assert.equal(namesIn(made).length, 1, "below a safe directory it is used");
    const copy = `${made}/${namesIn(made)[0]}`;
    Deno.chownSync(above, owner, group);
    Deno.chmodSync(above, mode);
    // Whoever replaced it would be found out by this.
    Deno.writeTextFileSync(`${copy}/deno`, "#!/bin/sh\necho theirs\n");
    isRight(await place.run({ MOSAIC_CACHE_DIR: made }));
    isRight(await place.run({ MOSAIC_CACHE_DIR: `${above}/further` }));
    assert.deepEqual(namesIn(above), ["cache"], "nothing is made there");
    Deno.removeSync(`${place.tmp}/mosaic-cache-0`, { recursive: true });
  }
});

attack(
  "a directory that the user's own group may write to is used, until somebody else is in the group",
  async (place) => {
    const above = `${place.root}/home`;
    const groups = `${place.root}/groups`;
    const cache = `${above}/cache`;
    const asUser = `setpriv --reuid=${OTHER} --regid=${OTHER} --clear-groups`;
    const inside = `mount --bind ${groups} /etc/group || exit 9; exec ${asUser} "$@"`;
    const run = () =>
      place.run({ MOSAIC_CACHE_DIR: cache }, mosaic, [
        "unshare",
        "--mount",
        "sh",
        "-c",
        inside,
        "sh",
      ]);
    Deno.mkdirSync(above);
    Deno.chownSync(above, OTHER, OTHER);
    Deno.chmodSync(above, 0o775);
    Deno.writeTextFileSync(groups, `root:x:0:\nme:x:${OTHER}:\n`);
    isRight(await run());
    assert.equal(namesIn(cache).length, 1);
    assert.deepEqual(namesIn(place.tmp), []);
    Deno.writeTextFileSync(groups, `root:x:0:\nme:x:${OTHER}:me,somebody\n`);
    isRight(await run());
    assert.deepEqual(namesIn(place.tmp), [`mosaic-cache-${OTHER}`]);
  },
);

attack("a copy that others may write to is replaced", async (place) => {
  const cache = `${place.root}/cache`;
  isRight(await place.run({ MOSAIC_CACHE_DIR: cache }));
  const copy = `${cache}/${namesIn(cache)[0]}`;
  for (const part of ["", "/app", "/deno"]) {
    Deno.writeTextFileSync(`${copy}/mark`, "");
    Deno.chmodSync(copy + part, 0o777);
    isRight(await place.run({ MOSAIC_CACHE_DIR: cache }));
    assert.equal(Deno.statSync(copy + part).mode! & 0o022, 0, part);
    assert.ok(!namesIn(copy).includes("mark"), part);
  }
});

attack(
  "a copy that root has made for all is used as it is, if it is of this file",
  async (place) => {
    const cache = `${place.root}/cache`;
    isRight(await place.run({ MOSAIC_CACHE_DIR: cache }));
    assert.ok(new Deno.Command("chmod", { args: ["-R", "a+rX", cache] }).outputSync().success);
    const asOther = ["setpriv", `--reuid=${OTHER}`, "--clear-groups"];
    isRight(await place.run({ MOSAIC_CACHE_DIR: cache }, mosaic, asOther));
    assert.deepEqual(namesIn(place.tmp), []);
    const copy = `${cache}/${namesIn(cache)[0]}`;
    Deno.renameSync(copy, `${cache}/${await keyOf(place, older)}`);
    assert.equal((await place.run({ MOSAIC_CACHE_DIR: cache }, older, asOther)).stdout, "older\n");
    assert.deepEqual(namesIn(place.tmp), [`mosaic-cache-${OTHER}`]);
  },
);

attack(
  "a mount with root's name on its files, in a temporary directory, is not used",
  async (place) => {
    const key = await keyOf(place);
    const inside = `mount -t tmpfs -o mode=700 none "$TMPDIR/mosaic-cache-0" || exit 9
    MOSAIC_CACHE_DIR=$TMPDIR/mosaic-cache-0 "$@" && echo changed >"$TMPDIR/mosaic-cache-0/${key}/mark" && "$@" &&
    ls -d "$TMPDIR"/*`;
    Deno.mkdirSync(`${place.tmp}/mosaic-cache-0`);
    const { stdout, stderr } = await place.run({}, mosaic, [
      "unshare",
      "--mount",
      "sh",
      "-c",
      inside,
      "sh",
    ]);
    const [first, second, , fresh] = stdout.split("\n");
    assert.deepEqual([first, second], ["right", "right"], stderr);
    assert.match(fresh!, /mosaic-cache-0\.\w{6}$/);
  },
);

attack(
  "in a user namespace without root, and below an open directory of a container, it still unpacks once",
  async (place) => {
    const cache = `${place.root}/cache`;
    Deno.mkdirSync(cache, { mode: 0o700 });
    Deno.chownSync(cache, OTHER, OTHER);
    const user = [
      "setpriv",
      `--reuid=${OTHER}`,
      `--regid=${OTHER}`,
      "--clear-groups",
      "unshare",
      "--user",
    ];
    if ((await start(user[0]!, [...user.slice(1), "true"], { PATH })).code !== 0) {
      console.log(
        "NOT ALLOWED HERE: an unprivileged user namespace, so none without root is tried",
      );
    } else {
      isRight(
        await place.run({ MOSAIC_CACHE_DIR: cache }, mosaic, [...user, `--map-user=${OTHER}`]),
      );
      assert.equal(namesIn(cache).length, 1);
    }
    const volume = `${place.root}/volume`;
    Deno.mkdirSync(volume);
    Deno.chmodSync(volume, 0o777);
    const first = ["unshare", "--pid", "--fork", "--mount-proc"];
    isRight(await place.run({ MOSAIC_CACHE_DIR: `${volume}/cache` }, mosaic, first));
    assert.equal(namesIn(`${volume}/cache`).length, 1);
  },
);

attack("where programs may not be executed it says so", async (place) => {
  const inside =
    `mount -t tmpfs -o noexec none "$TMPDIR" && mount -t tmpfs -o noexec none /dev/shm || exit 9
    "$@"; code=$?; find "$TMPDIR" /dev/shm -type f; exit $code`;
  const { code, stdout, stderr } = await place.run({}, mosaic, [
    "unshare",
    "--mount",
    "sh",
    "-c",
    inside,
    "sh",
  ]);
  assert.deepEqual([code, stdout], [4, ""], stderr);
  assert.match(
    stderr,
    /^mosaic: there is no directory to unpack into;.*:\n {2}programs cannot be executed in .*\/tmp\/mosaic-cache-0 \(mounted noexec\)\n {2}.*\/dev\/shm\//,
  );
});

attack("without /proc it says so", async (place) => {
  const inside = `mount -t tmpfs none /proc || exit 9; exec "$@"`;
  const { code, stderr } = await place.run({}, mosaic, [
    "unshare",
    "--mount",
    "sh",
    "-c",
    inside,
    "sh",
  ]);
  assert.deepEqual([code, stderr], [
    4,
    "mosaic: /proc is not mounted, and the runtime needs it: mount -t proc proc /proc\n",
  ]);
});

const loaderless = portableOf("loaderless", "echo right", "/lib64/ld-of-no-host.so");

attack("where the runtime's loader is missing it says so, and unpacks nothing", async (place) => {
  const { code, stdout, stderr } = await place.run({}, loaderless);
  assert.deepEqual([code, stdout], [4, ""]);
  assert.match(
    stderr,
    /^mosaic: the runtime needs glibc, and \/lib64\/ld-of-no-host\.so is not here \(Alpine/,
  );
  assert.deepEqual(namesIn(place.tmp), []);
}, false);

const broken = portableOf("broken", "echo GLIBC_9.99 not found; exit 1");

attack(
  "where the runtime does not start, its words are shown, and no copy is left",
  async (place) => {
    const inside = `mount -t tmpfs none /dev/shm || exit 9; exec "$@"`;
    const { code, stderr } = await place.run({}, broken, [
      "unshare",
      "--mount",
      "sh",
      "-c",
      inside,
      "sh",
    ]);
    assert.equal(code, 4);
    assert.match(stderr, /\n {2}the runtime does not start here: GLIBC_9\.99 not found\n/);
    assert.deepEqual(namesIn(place.tmp), []);
  },
);
