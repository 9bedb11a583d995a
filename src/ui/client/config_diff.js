// @ts-check
/** Where the configs of runs differ, setting by setting. */
import { get, runPath } from "./api.js";
import { h, scrollTable } from "./dom.js";

/** Leaves of a JSON value by their path. @param {unknown} value @param {string} path @param {Map<string, string>} into */
function flatten(value, path, into) {
  if (value !== null && typeof value === "object" && Object.keys(value).length > 0) {
    for (const [k, v] of Object.entries(value)) flatten(v, path === "" ? k : `${path}.${k}`, into);
  } else into.set(path, typeof value === "string" ? value : JSON.stringify(value));
  return into;
}

/** A table of the settings that are not the same in all runs. @param {{run_id: string, name: string}[]} runs */
export async function configDifferences(runs) {
  const configs = await Promise.all(
    runs.map(async ({ run_id }) => flatten(JSON.parse((await get(runPath(run_id, "/config"))).text), "", new Map())),
  );
  const paths = [...new Set(configs.flatMap((c) => [...c.keys()]))].sort();
  const differing = paths.filter((p) => new Set(configs.map((c) => c.get(p))).size > 1);
  if (differing.length === 0) return h("p", { class: "empty" }, "Nowhere.");
  const rows = differing.map((p) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: "mono" }, p),
      configs.map((c) => h("td", { class: "mono" }, c.get(p) ?? "–")),
    )
  );
  const headings = ["Setting", ...runs.map(({ name }) => name)];
  return scrollTable("Differences of the configs", "records", headings, h("tbody", {}, rows));
}
