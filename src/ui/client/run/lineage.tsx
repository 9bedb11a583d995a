/** What the run has read of others, and who has read its own artifacts. */
import type { LineageJson } from "../../../registry/artifacts/lineage_json.ts";
import type { RunPage } from "../../api/page_json.ts";
import { answer, param, runApi } from "../parts/api.ts";
import { attempt } from "../parts/dialog.tsx";
import { ScrollTable } from "../parts/parts.tsx";
import { useEffect, useState } from "../parts/preact.ts";

type Use = LineageJson["uses"][number];

/** Nothing for a run without lineage. */
export function Lineage({ run }: { run: RunPage }) {
  const [lineage, setLineage] = useState<LineageJson>();
  useEffect(() => {
    let current = true;
    attempt(async () => {
      const read = await answer(runApi.lineage.$get(param(run.run_id)));
      if (current) setLineage(read);
    });
    return () => current = false;
  }, [run.run_id, run.state]);
  if (lineage === undefined) return null;
  const { uses, used_by: usedBy, names } = lineage;
  return (
    <div class="code">
      {names.length > 0 && (
        <p class="sub">
          {names.map(({ name, version, aliases, path }) =>
            `${path} is ${
              [`${name}:v${version}`, ...aliases.map((alias) => `${name}:${alias}`)].join(", ")
            }`
          ).join("; ")}
        </p>
      )}
      <Uses heading="Artifacts that it has read" uses={uses} root={run.run_id} />
      <Uses heading="Runs that have read its artifacts" uses={usedBy} root={run.run_id} />
    </div>
  );
}

function Uses({ heading, uses, root }: { heading: string; uses: readonly Use[]; root: string }) {
  if (uses.length === 0) return null;
  return (
    <section class="lineage">
      <h3>{heading}</h3>
      <ScrollTable label={heading} kind="records" headings={["Run", "Read", "Of", "As", "SHA-256"]}>
        {uses.map((use) => (
          <tr key={`${use.run_id} ${use.source_run_id} ${use.path}`}>
            <td>
              {use.run_id === root ? "this run" : <RunLink id={use.run_id} name={use.run_name} />}
            </td>
            <td class="mono whole">{use.path}</td>
            <td>
              {use.source_run_id === null
                ? "not found"
                : use.source_run_id === root
                ? "this run"
                : use.source_deleted
                ? `${use.source_run_name} (deleted)`
                : <RunLink id={use.source_run_id} name={use.source_run_name} />}
            </td>
            <td class="mono">{use.artifact}</td>
            <td class="mono">
              <span title={use.sha256}>{use.sha256.slice(0, 12)}</span>
              {use.changed && " (has changed since)"}
            </td>
          </tr>
        ))}
      </ScrollTable>
    </section>
  );
}

function RunLink({ id, name }: { id: string; name: string }) {
  return <a href={`/runs/${encodeURIComponent(id)}`}>{name}</a>;
}
