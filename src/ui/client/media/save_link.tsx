/** A run's file in the page: its address, a link that saves it, and why it cannot be read. */
import { runPath } from "../parts/api.ts";
import { attempt } from "../parts/dialog.tsx";
import { h } from "../parts/dom.ts";
import { type ComponentChildren, useEffect, useState } from "../parts/preact.ts";

export function artifactPath(runId: string, path: string): string {
  return runPath(runId, `/artifacts/${path.split("/").map(encodeURIComponent).join("/")}`);
}

/** Why the daemon does not send a file; undefined if it does. */
async function refusalOf(url: string): Promise<string | undefined> {
  const answer = await fetch(url, { headers: { range: "bytes=0-0" } });
  // An empty file has no first byte.
  if (answer.ok || answer.status === 416) return void await answer.body?.cancel();
  const { error } = await answer.json().catch(() => ({}));
  const { message = `the daemon answered ${answer.status}`, hint } = error ?? {};
  return hint ? `${message} ${hint}` : message;
}

/**
 * Saves a file under its own name, or says why it cannot be saved: a browser would save the refusal
 * instead.
 */
export function SaveLink(
  { url, path, children }: { url: string; path: string; children: ComponentChildren },
) {
  const name = path.split("/").at(-1)!;
  const save = (event: MouseEvent) => {
    event.preventDefault();
    attempt(async () => {
      const refusal = await refusalOf(url);
      if (refusal !== undefined) throw new Error(refusal);
      h("a", { href: url, download: name }).click();
    });
  };
  return <a href={url} download={name} onClick={save}>{children}</a>;
}

/** In place of a file that the browser cannot show. */
export function NotShown({ url, path }: { url: string; path: string }) {
  const [why, setWhy] = useState<string>();
  useEffect(() => {
    let mounted = true;
    refusalOf(url).then(
      (refusal) => refusal ?? "This browser cannot show it.",
      () => "The daemon cannot be reached.",
    ).then((text) => mounted && setWhy(text));
    return () => mounted = false;
  }, [url]);
  return (
    <p class="empty">
      {`${path} cannot be shown. ${why ?? ""} `}
      <SaveLink url={url} path={path}>Download it</SaveLink>
    </p>
  );
}
