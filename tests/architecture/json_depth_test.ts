import { strict as assert } from "node:assert";
import { filesOf } from "./rooms.ts";

const SRC = new URL("../../src/", import.meta.url);
const READERS =
  /^(?:rpc|ui|mlflow|readers\/(?:format|schemas|tables|tensorboard|text|wandb))\/(?!client\/)/;
/**
 * May parse JSON without a bound on its depth: what mosaic has written itself, or what was checked
 * before.
 */
const CHECKED = ["mlflow/points.ts", "ui/api/page_report.ts"];

Deno.test("what reads text of others parses JSON by parsedJson, which bounds its depth", () => {
  const own = filesOf(SRC).filter((file) => READERS.test(file))
    .filter((file) => Deno.readTextFileSync(new URL(file, SRC)).includes("JSON.parse("));
  assert.deepEqual(own.sort(), CHECKED);
});
