/** An address without anything: says which, and where to go from there. */
import { go } from "./parts/dom.ts";
import { useConnection } from "./parts/parts.tsx";

/** @param what is missing, as a sentence */
export function Nowhere({ what }: { what: string }) {
  useConnection();
  return (
    <section class="start" role="status">
      <p class="code-404">404</p>
      <h1>{what}</h1>
      <p class="sub">
        <code>{location.pathname}</code>
      </p>
      <form
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          go(
            `/?name=${
              encodeURIComponent(event.currentTarget.querySelector("input")!.value.trim())
            }`,
          );
        }}
      >
        <input type="search" placeholder="Name or id" aria-label="Find a run by name or id" />
        <button type="submit" class="primary">Find a run</button>
      </form>
      <p>
        <a href="/">All runs</a> <a href="/sweeps">Sweeps</a> <a href="/docs/index.html">Manual</a>
      </p>
    </section>
  );
}
