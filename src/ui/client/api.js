// @ts-check
/** Requests to the daemon, the live stream, and what is known of the connection. */

/** @typedef {{state: "connecting" | "live" | "down" | "hidden", retryAt: number}} Connection */

const RETRY_MS = [500, 1000, 2000, 3000, 5000];
/** The daemon sends a tick every second: after this long without one, the connection is not trusted. */
const SILENCE_MS = 10_000;

const tokenElement = /** @type {HTMLMetaElement} */ (document.querySelector("meta[name=mosaic-token]"));
const identityElement = /** @type {HTMLMetaElement} */ (document.querySelector("meta[name=mosaic-identity]"));
let token = tokenElement.content;
export const readOnly = identityElement.dataset.readOnly === "true";

/** Daemon's clock minus ours, so that ages are right on a machine whose clock is not. */
let skew = 0;
export const now = () => Date.now() + skew;
/** @param {number} at */
export function heardTime(at) {
  skew = at - Date.now();
}

/** @type {Connection} */
let connection = { state: "connecting", retryAt: 0 };
/** @type {Set<(c: Connection) => void>} */
const watchers = new Set();
/** @param {(c: Connection) => void} watch */
export function onConnection(watch) {
  watchers.add(watch);
  watch(connection);
  return () => watchers.delete(watch);
}
/** @param {Connection} next */
function setConnection(next) {
  connection = next;
  for (const watch of watchers) watch(next);
}

/** What the daemon refused, in its own words. */
export class Refused extends Error {
  /** @param {number} status @param {string} code @param {string} message @param {string} [hint] */
  constructor(status, code, message, hint) {
    super(hint ? `${message} (${hint})` : message);
    this.status = status;
    this.code = code;
  }
}

/** @param {Response} response */
async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const { code = "unavailable", message = `the daemon answered ${response.status}`, hint } = body.error ?? {};
  throw new Refused(response.status, code, message, hint);
}

/** @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function get(path, signal) {
  return await answer(await fetch(path, signal ? { signal } : {}));
}

/** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
export async function post(path, body = {}) {
  const send = () =>
    fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json", "x-mosaic-token": token },
      body: JSON.stringify(body),
    });
  const first = await send();
  // The token is from an earlier daemon when it was restarted under an open page.
  if (first.status !== 403) return await answer(first);
  const before = token;
  await session();
  return await answer(token === before ? first : await send());
}

/** @returns {Promise<{token: string, started_at: number}>} */
async function session() {
  const s = await get("/api/session");
  token = s.token;
  return s;
}

/** @param {string} id @param {string} [rest] */
export function runPath(id, rest = "") {
  return `/api/runs/${encodeURIComponent(id)}${rest}`;
}

/**
 * A live stream that goes on after its last event whenever the connection was lost, and says how it stands.
 *
 * @param {string} path
 * @param {number} since
 * @param {Record<string, (data: any) => void>} handlers by event name; `restarted` when another daemon process answers
 * @returns {() => void} closes it
 */
export function live(path, since, handlers) {
  let last = String(since);
  let heard = Date.now();
  let failures = 0;
  let closed = false;
  /** @type {EventSource | undefined} */
  let source;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let startedAt = 0;

  const open = async () => {
    clearTimeout(timer);
    source?.close();
    if (closed || document.hidden) return;
    heard = Date.now();
    try {
      const s = await session();
      if (closed) return;
      const another = startedAt !== 0 && s.started_at !== startedAt;
      startedAt = s.started_at;
      if (another) handlers.restarted?.(s);
    } catch {
      return lost();
    }
    const opened = new EventSource(`${path}?since=${last}`);
    source = opened;
    for (const [name, handle] of Object.entries(handlers)) {
      opened.addEventListener(name, (event) => {
        if (source !== opened) return;
        const { data, lastEventId } = /** @type {MessageEvent} */ (event);
        if (lastEventId !== "") last = lastEventId;
        heard = Date.now();
        failures = 0;
        if (connection.state !== "live") setConnection({ state: "live", retryAt: 0 });
        handle(JSON.parse(data));
      });
    }
    opened.onerror = () => source === opened && lost();
  };
  const lost = () => {
    source?.close();
    source = undefined;
    if (closed) return;
    const wait = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)] ?? 5000;
    setConnection({ state: "down", retryAt: Date.now() + wait });
    clearTimeout(timer);
    timer = setTimeout(open, wait);
  };
  const watchdog = setInterval(() => {
    if (source !== undefined && Date.now() - heard > SILENCE_MS) lost();
  }, 1000);
  const onVisibility = () => {
    if (!document.hidden) open();
    else {
      clearTimeout(timer);
      source?.close();
      source = undefined;
    }
  };
  document.addEventListener("visibilitychange", onVisibility);
  setConnection({ state: "connecting", retryAt: 0 });
  open();
  return () => {
    closed = true;
    clearTimeout(timer);
    clearInterval(watchdog);
    document.removeEventListener("visibilitychange", onVisibility);
    source?.close();
  };
}
