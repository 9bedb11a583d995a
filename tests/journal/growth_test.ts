import assert from "node:assert/strict";
import { GrowthWatch } from "../../src/journal/growth.ts";
import { until } from "../harness/wait.ts";

/** Watches that this process has the kernel keep. */
function kernelWatches(): number {
  let watches = 0;
  for (const { name } of Deno.readDirSync("/proc/self/fd")) {
    try {
      const lines = Deno.readTextFileSync(`/proc/self/fdinfo/${name}`).split("\n");
      watches += lines.filter((line) => line.startsWith("inotify wd:")).length;
    } catch {
      // Closed meanwhile: the descriptor of the listing itself, for one.
    }
  }
  return watches;
}

Deno.test("growth: told of when asked; a watch that rests costs the kernel nothing, and tells at once when asked again", async () => {
  const directory = Deno.makeTempDirSync();
  const path = `${directory}/journal`;
  let told = 0;
  const toldMore = async (than: number, what: string) => await until(() => told > than, { what });
  // Nothing is told but by notifications.
  const watch = new GrowthWatch(directory, () => told++, 3_600_000);
  try {
    watch.arm();
    Deno.writeTextFileSync(path, "1\n");
    await toldMore(0, "the first growth to be told");
    assert.equal(kernelWatches(), 1);

    watch.disarm();
    watch.disarm();
    assert.equal(kernelWatches(), 0);
    Deno.writeTextFileSync(path, "2\n", { append: true });
    const before = told;
    watch.arm();
    assert.equal(
      told,
      before + 1,
      "what came while it rested is told by the time it has been asked",
    );
    assert.equal(kernelWatches(), 1);
    Deno.writeTextFileSync(path, "3\n", { append: true });
    await toldMore(before + 1, "growth after the rest to be told");
  } finally {
    watch.close();
    Deno.removeSync(directory, { recursive: true });
  }
  assert.equal(kernelWatches(), 0);
});
