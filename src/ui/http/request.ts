/**
 * Checks of a request before authentication: Host and Origin are well formed, and the body is
 * within its size and time limits. All routes read bodies through this file.
 */
import { RequestRefused } from "./answers.ts";

export interface BodyLimits {
  maxBytes: number;
  /** Milliseconds from the request's headers to the last byte of its body. */
  withinMs: number;
}

/** For requests of a person on the page. */
export const BODY_LIMITS: BodyLimits = { maxBytes: 64 * 1024, withinMs: 15_000 };

/** HOST or HOST:PORT of a header or URL. */
export interface RequestHost {
  /** Without the port. */
  name: string;
  /** In the form of URLs: without the scheme's default port. */
  host: string;
}

function hostIn(text: string): RequestHost | undefined {
  // The URL parser also accepts a user and a path here; reject them.
  if (/[\s/?#@\\]/.test(text) || !URL.canParse(`http://${text}`)) return undefined;
  const { hostname, host } = new URL(`http://${text}`);
  return { name: hostname, host };
}

/**
 * The hosts that a request names: its header's, and its URL's. @throws RequestRefused 400 for an
 * invalid one.
 */
export function hostsOf(request: Request): RequestHost[] {
  const header = request.headers.get("host");
  // The runtime builds the URL from the Host header (http+unix: on a Unix socket), unless the
  // client sends an absolute URL.
  const [, inUrl = ""] = /^[a-z+]+:\/\/([^/?#]*)/i.exec(request.url) ?? [];
  return [...(header === null ? [] : [header]), inUrl].map((text) => {
    const host = hostIn(text);
    if (host !== undefined) return host;
    throw new RequestRefused(
      400,
      `the request's Host is ${JSON.stringify(text.slice(0, 100))}, which is no HOST:PORT`,
    );
  });
}

/**
 * The host of the site that sent the request: undefined if the request does not say, "null" if the
 * browser hides it.
 */
export function originOf(request: Request): string | undefined {
  const origin = request.headers.get("origin");
  if (origin === null || origin === "null") return origin ?? undefined;
  if (URL.canParse(origin)) return new URL(origin).host;
  throw new RequestRefused(
    400,
    `the request's Origin is ${JSON.stringify(origin.slice(0, 100))}, which is no origin`,
  );
}

/**
 * @throws RequestRefused 413 if the announced length is above the limit: nothing of the body is
 * read.
 */
export function checkLength(request: Request, { maxBytes }: Pick<BodyLimits, "maxBytes">): void {
  if (Number(request.headers.get("content-length") ?? "0") > maxBytes) throw tooLong(maxBytes);
}

/**
 * The whole body as text. Memory is bounded by the limit, also for chunked bodies. @throws
 * RequestRefused 413 for a longer one, 408 if it takes longer, 400 if it breaks off
 */
export async function textOf(request: Request, limits: BodyLimits): Promise<string> {
  const { maxBytes, withinMs } = limits;
  checkLength(request, limits);
  if (request.body === null) return "";
  const reader = request.body.getReader();
  let late: RequestRefused | undefined;
  // Cancel the current read. Racing each read with one long-lived promise would retain every chunk
  // until the end.
  const timer = setTimeout(() => {
    late = new RequestRefused(
      408,
      `the body of the request took longer than ${withinMs / 1000} s to arrive`,
    );
    reader.cancel().catch(() => {});
  }, withinMs);
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (let bytes = 0;;) {
      const { done, value } = await reader.read().catch(refuseBrokenBody);
      if (late !== undefined) throw late;
      if (done) return text + decoder.decode();
      bytes += value.length;
      if (bytes > maxBytes) throw tooLong(maxBytes);
      text += decoder.decode(value, { stream: true });
    }
  } catch (error) {
    // Discard the rest.
    reader.cancel().catch(() => {});
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function refuseBrokenBody(cause: unknown): never {
  throw new RequestRefused(400, "the body of the request broke off", { cause });
}

function tooLong(maxBytes: number): RequestRefused {
  return new RequestRefused(413, `the body of the request is longer than ${maxBytes} bytes`);
}
