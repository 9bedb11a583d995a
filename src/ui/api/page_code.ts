/** What ran, for the page. */
import type { z } from "zod";
import { parsedJson } from "../../base/text/json_text.ts";
import { presentConfig } from "../../config/present_config.ts";
import { readCode } from "../../dispatch/code/run_code.ts";
import type { Core } from "../../dispatch/core/core.ts";
import type * as contract from "../../registry/contract.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { codeFacts, environmentFacts } from "../../runs/code_facts.ts";

export type PageCode = z.infer<typeof contract.PageCode>;

/** Of a patch; `mosaic show --diff` prints all of it. */
const MOST_PATCH_BYTES = 256 << 10;

export function pageCode(core: Core, row: RunRow): PageCode {
  const records = core.code(row.runId, true).map(readCode);
  const [first] = records;
  const config = parsedJson(presentConfig(row.configJson, false).text);
  const git = first?.code.git;
  const patch = first?.diff ?? new Uint8Array();
  return {
    facts: [...codeFacts(config, records), ...environmentFacts(records)],
    files: (git?.files ?? []).map(({ path, change }) => ({ path, change })),
    left_out: git?.left_out ?? [],
    masked: git?.masked ?? [],
    packages: (first?.environment.packages ?? []).map(([name, version]) => `${name} ${version}`),
    patch: new TextDecoder().decode(patch.subarray(0, MOST_PATCH_BYTES)),
    patch_bytes: patch.length,
  };
}
