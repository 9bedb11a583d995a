/**
 * Requests that the address alone tells, asked while the page's program is still loading. Of a thousand runs the daemon
 * then answers before the program can ask.
 */

/** Runs that one request may name. */
export const MOST_RUNS = 1000;

/** Shared by two scripts, which have no module in common. */
const asked = ((globalThis as { mosaicEarly?: Map<string, Promise<Response>> }).mosaicEarly ??= new Map());
const keyOf = (path: string, body: string) => `${path} ${body}`;

/** The runs that the view of comparison is of. */
export function runsOfAddress(): string[] {
  return (new URLSearchParams(location.search).get("runs") ?? "").split(",").filter((id) => id !== "");
}

export function askEarly(): void {
  const runs = location.pathname === "/compare" ? runsOfAddress().slice(0, MOST_RUNS) : [];
  if (runs.length === 0) return;
  const body = JSON.stringify({ runs });
  const token = document.querySelector<HTMLMetaElement>("meta[name=mosaic-token]")!.content;
  const headers = { "content-type": "application/json", "x-mosaic-token": token };
  for (const path of ["/api/compared", "/api/series/names"]) {
    const answer = fetch(path, { method: "POST", headers, body });
    // Who takes it hears of it; if nobody does, nobody has to.
    answer.catch(() => {});
    asked.set(keyOf(path, body), answer);
  }
}

/** The answer to this request if it was asked early and has not been taken. */
export function takeEarly(path: string, body: unknown): Promise<Response> | undefined {
  if (typeof body !== "string") return undefined;
  const key = keyOf(path, body);
  const answer = asked.get(key);
  asked.delete(key);
  return answer;
}
