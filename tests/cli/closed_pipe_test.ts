import assert from "node:assert/strict";

for (const part of ["daemon", "proxy"]) {
  Deno.test(`mosaic ${part} --help: a reader that has gone ends it quietly`, async () => {
    const main = new URL("../../src/main.ts", import.meta.url).pathname;
    // The shell starts mosaic after the pipe's reader has ended.
    const script =
      `{ sleep 0.2; "$0" run -A --no-check "$1" ${part} --help; echo "exit $?" >&2; } | true`;
    const { stderr } = await new Deno.Command("sh", {
      args: ["-c", script, Deno.execPath(), main],
      stdout: "null",
      stderr: "piped",
    })
      .output();
    const text = new TextDecoder().decode(stderr);
    assert.match(text, /exit 0\n$/);
    assert.doesNotMatch(text, /ReaderGone|mosaic/);
  });
}
