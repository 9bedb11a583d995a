/**
 * Which parameters a result depends on, with what that rests on; computed here, a tree at a time.
 */
import {
  type Importance,
  importanceSteps,
  importanceText,
  type Outcome,
} from "../../../runs/importance.ts";
import { useEffect, useState } from "../parts/preact.ts";

/** Between two turns of the page. */
const SLICE_MS = 12;

/** @param note what the results are, if it is not plain */
export function ImportanceOf(
  { outcomes, note = "" }: { outcomes: readonly Outcome[]; note?: string },
) {
  const [found, setFound] = useState<Importance>();
  const key = JSON.stringify(outcomes);
  useEffect(() => {
    const steps = importanceSteps(outcomes);
    let timer: ReturnType<typeof setTimeout>;
    const goOn = () => {
      const began = performance.now();
      while (performance.now() - began < SLICE_MS) {
        const { done, value } = steps.next();
        if (done) return setFound(value);
      }
      timer = setTimeout(goOn);
    };
    goOn();
    return () => clearTimeout(timer);
  }, [key]);
  if (found === undefined) return <p class="empty awaited">Growing the forest …</p>;
  return (
    <section class="importance" aria-label="Importance of parameters">
      {found.parameters.length > 0 && (
        <table>
          <caption class="unseen">Importance of parameters</caption>
          <tbody>
            {found.parameters.map(({ name, share }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="num">{`${Math.round(share * 100)} %`}</td>
                <td class="bar" aria-hidden="true">
                  <span style={{ width: `${share * 100}%` }} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="sub">{[importanceText(found), note].filter((text) => text !== "").join(" ")}</p>
    </section>
  );
}
