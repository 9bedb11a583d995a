/** The differences between the configs of runs, setting by setting. */
import {
  type ComparisonRow,
  configDifferences,
  optionsApart,
} from "../../../config/differences.ts";
import { answer, param, runApi, untilRead } from "../parts/api.ts";
import { noticeOf } from "../parts/dialog.tsx";
import { ScrollTable } from "../parts/parts.tsx";
import { useEffect, useState } from "../parts/preact.ts";

/** Bound on compared configs: a table with more columns is unreadable. */
const MOST = 24;

export interface DifferencesProps {
  runs: { run_id: string; name: string }[];
}

/**
 * A table of the settings that differ between runs, without what mosaic itself adds to each config.
 */
export function ConfigDifferences({ runs: all }: DifferencesProps) {
  const runs = all.slice(0, MOST);
  const [rows, setRows] = useState<ComparisonRow[]>();
  useEffect(() => {
    let current = true;
    const end = untilRead(async () => {
      const configs = await Promise.all(
        runs.map(async ({ run_id }) => ({
          run_id,
          config: JSON.parse(
            (await answer(runApi.config.$get({ ...param(run_id), query: {} }))).text,
          ) as unknown,
        })),
      );
      if (current) setRows(optionsApart(configDifferences(configs)));
    }, noticeOf);
    return () => {
      current = false;
      end();
    };
  }, [runs.map((r) => r.run_id).join()]);
  if (rows === undefined || rows.some(({ values }) => values.length !== runs.length)) return null;
  if (rows.length === 0) return <p class="empty">Nowhere.</p>;
  return (
    <>
      {all.length > MOST && <p class="sub">{`The first ${MOST} of ${all.length} runs.`}</p>}
      <ScrollTable
        label="Differences of the configs"
        kind="records"
        headings={["Setting", ...runs.map(({ name }) => name)]}
      >
        {rows.map(({ name, values }) => (
          <tr key={name}>
            <th scope="row" class="mono">{name}</th>
            {values.map((value, i) => <td key={i} class="mono whole">{value || "–"}</td>)}
          </tr>
        ))}
      </ScrollTable>
    </>
  );
}
