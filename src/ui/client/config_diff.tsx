/** Where the configs of runs differ, setting by setting. */
import { answer, param, runApi } from "./api.ts";
import { attempt } from "./dialog.tsx";
import { ScrollTable } from "./parts.tsx";
import { useEffect, useState } from "./preact.ts";

/** Leaves of a JSON value by their path. */
function flatten(value: unknown, path = "", into = new Map<string, string>()): Map<string, string> {
  if (value !== null && typeof value === "object" && Object.keys(value).length > 0) {
    for (const [k, v] of Object.entries(value)) flatten(v, path === "" ? k : `${path}.${k}`, into);
  } else into.set(path, typeof value === "string" ? value : JSON.stringify(value));
  return into;
}

/** A table of the settings that are not the same in all runs. */
export function ConfigDifferences({ runs }: { runs: { run_id: string; name: string }[] }) {
  const [configs, setConfigs] = useState<Map<string, string>[]>();
  useEffect(() => {
    let current = true;
    attempt(async () => {
      const read = await Promise.all(
        runs.map(async ({ run_id }) =>
          flatten(JSON.parse((await answer(runApi.config.$get({ ...param(run_id), query: {} }))).text))
        ),
      );
      if (current) setConfigs(read);
    });
    return () => current = false;
  }, [runs.map((r) => r.run_id).join()]);
  if (configs?.length !== runs.length) return null;
  const paths = [...new Set(configs.flatMap((c) => [...c.keys()]))].sort();
  const differing = paths.filter((p) => new Set(configs.map((c) => c.get(p))).size > 1);
  if (differing.length === 0) return <p class="empty">Nowhere.</p>;
  return (
    <ScrollTable
      label="Differences of the configs"
      kind="records"
      headings={["Setting", ...runs.map(({ name }) => name)]}
    >
      {differing.map((path) => (
        <tr key={path}>
          <th scope="row" class="mono">{path}</th>
          {configs.map((c, i) => <td key={i} class="mono">{c.get(path) ?? "–"}</td>)}
        </tr>
      ))}
    </ScrollTable>
  );
}
