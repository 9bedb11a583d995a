/** Reads the daemon's list of runs, page by page. */
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { Link } from "./daemon_link.ts";
import { runJsonOf } from "../../runs/fields/run_json.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";

const PAGE = 1000;

export interface RunsWanted {
  states?: readonly string[];
  nameContains?: string;
  tags?: readonly string[];
  submittedSince?: Timestamp | undefined;
  where?: string;
  /** A column that the daemon knows; "": newest first. */
  sort?: string;
  /** `param.NAME`, `metric.NAME`: their values are in the runs' `values`. */
  columns?: readonly string[];
  limit?: number;
  /** The runs within this run. */
  within?: string;
  /** The runs in the trash. */
  deleted?: boolean;
  /** Only the caller's runs. */
  mine?: boolean;
}

export async function fetchRuns(
  link: Link,
  wanted: RunsWanted,
  signal?: AbortSignal,
): Promise<RunJson[]> {
  const { limit = Infinity, columns = [], submittedSince } = wanted;
  const runs: RunJson[] = [];
  for (let pageToken = ""; runs.length < limit;) {
    const page = await link.unary(link.methods.listRuns, {
      states: [...wanted.states ?? []],
      nameContains: wanted.nameContains ?? "",
      tags: [...wanted.tags ?? []],
      limit: Math.min(PAGE, limit - runs.length),
      pageToken,
      where: wanted.where ?? "",
      sort: wanted.sort ?? "",
      columns: [...columns],
      within: wanted.within ?? "",
      deleted: wanted.deleted ?? false,
      mine: wanted.mine ?? false,
      ...(submittedSince === undefined ? {} : { submittedSince }),
    }, signal);
    for (const [i, run] of page.runs.entries()) {
      const values = (page.values[i]?.json ?? []).map((json, c) => [columns[c]!, JSON.parse(json)]);
      runs.push({
        ...runJsonOf(run),
        ...(columns.length === 0 ? {} : { values: Object.fromEntries(values) }),
      });
    }
    pageToken = page.nextPageToken;
    if (pageToken === "") break;
  }
  return runs;
}
