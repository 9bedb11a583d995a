/** What ran: commit, changes, environment. */
import type { PageCode } from "../../api/page_code.ts";
import type { RunPage } from "../../api/page_json.ts";
import { bytes } from "../../../base/text/format.ts";
import { answer, param, runApi } from "../parts/api.ts";
import { attempt } from "../parts/dialog.tsx";
import { ScrollTable, Terms } from "../parts/parts.tsx";
import { useEffect, useState } from "../parts/preact.ts";

export function Code({ run }: { run: RunPage }) {
  const [code, setCode] = useState<PageCode>();
  useEffect(() => {
    let current = true;
    attempt(async () => {
      const read = await answer(runApi.code.$get(param(run.run_id)));
      if (current) setCode(read);
    });
    return () => current = false;
  }, [run.run_id, run.attempt, run.state]);
  if (code === undefined) return null;
  const { facts, files, left_out: leftOut, masked, packages, patch, patch_bytes: patchBytes } =
    code;
  if (facts.length === 0) {
    return (
      <p class="empty">
        Nothing is recorded of this run's code. Runs that start in a git repository have it.
      </p>
    );
  }
  return (
    <div class="code">
      <Terms
        kind="details"
        of={facts.map(({ name, text }) =>
          [name.charAt(0).toUpperCase() + name.slice(1), text] as const
        )}
      />
      {files.length > 0 && (
        <section>
          <h3>Differs from the commit</h3>
          <ScrollTable label="Changed files" kind="records" headings={["Change", "File"]}>
            {files.map(({ path, change }) => (
              <tr key={path}>
                <td>{change}</td>
                <td class="mono whole">{path}</td>
              </tr>
            ))}
          </ScrollTable>
          {masked.length > 0 && <p class="sub">{`Secrets are masked in ${masked.join(", ")}.`}</p>}
          <pre class="json" tabIndex={0} aria-label="Changes to the commit">{patch}</pre>
          {patchBytes > patch.length && (
            <p class="sub">
              {`The first part of ${bytes(patchBytes)}; mosaic show --diff prints all.`}
            </p>
          )}
        </section>
      )}
      {leftOut.length > 0 && (
        <section>
          <h3>Differs, and is not recorded</h3>
          <ScrollTable
            label="Files that are not recorded"
            kind="records"
            headings={["File", "Why"]}
          >
            {leftOut.map(({ path, why }) => (
              <tr key={path}>
                <td class="mono whole">{path}</td>
                <td>{why}</td>
              </tr>
            ))}
          </ScrollTable>
        </section>
      )}
      {packages.length > 0 && (
        <details>
          <summary>{`${packages.length} packages`}</summary>
          <pre class="json" tabIndex={0} aria-label="Packages">{packages.join("\n")}</pre>
        </details>
      )}
    </div>
  );
}
