/**
 * The page's files, included in the program as texts; `deno task gen` builds scripts and styles
 * from client/.
 */
import { sha256, zlib } from "../base/node_modules.ts";
import { MosaicError } from "../base/errors.ts";
import type { Core } from "../dispatch/core/core.ts";
import type { Identity } from "./http/viewer.ts";
import figureJs from "../gen/page/figure.js" with { type: "text" };
import firstJs from "../gen/page/first.js" with { type: "text" };
import furtherJs from "../gen/page/further.js" with { type: "text" };
import indexHtml from "./client/index.html" with { type: "text" };
import mainJs from "../gen/page/main.js" with { type: "text" };
import markdownJs from "../gen/page/markdown.js" with { type: "text" };
import sweepsJs from "../gen/page/sweeps.js" with { type: "text" };
import styleCss from "../gen/page/style.css" with { type: "text" };

const JAVASCRIPT = "text/javascript; charset=utf-8";
const CSS = "text/css; charset=utf-8";
const SVG = "image/svg+xml";

const ICON =
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#2f6fd6" d="M1 1h6v6H1z"/><path fill="#1f9d76" d="M9 1h6v6H9z"/><path fill="#b86e00" d="M1 9h6v6H1z"/><path fill="#7a5ad0" d="M9 9h6v6H9z"/></svg>`;

class Asset {
  readonly type: string;
  readonly text: string;
  /** Computed at the first request. */
  #etag: string | undefined;

  constructor(type: string, text: string) {
    this.type = type;
    this.text = text;
  }

  get etag(): string {
    return this.#etag ??= `"${sha256().update(this.text).digest("base64url").slice(0, 22)}"`;
  }
}

const ASSETS = new Map<string, Asset>(Object.entries({
  "style.css": new Asset(CSS, styleCss),
  "figure.js": new Asset(JAVASCRIPT, figureJs),
  "first.js": new Asset(JAVASCRIPT, firstJs),
  "further.js": new Asset(JAVASCRIPT, furtherJs),
  "main.js": new Asset(JAVASCRIPT, mainJs),
  "markdown.js": new Asset(JAVASCRIPT, markdownJs),
  "sweeps.js": new Asset(JAVASCRIPT, sweepsJs),
  "icon.svg": new Asset(SVG, ICON),
}));

/** Compressed once, at the first request. */
const packed = new Map<string, Uint8Array<ArrayBuffer>>();

function packedAsset(name: string, text: string): Uint8Array<ArrayBuffer> {
  let bytes = packed.get(name);
  if (bytes === undefined) packed.set(name, bytes = new Uint8Array(zlib().gzipSync(text)));
  return bytes;
}

/** @throws `not_found`. */
export function asset(name: string, request: Headers): Response {
  const found = ASSETS.get(name);
  if (found === undefined) throw new MosaicError("not_found", `there is no asset "${name}"`);
  const headers = {
    "content-type": found.type,
    etag: found.etag,
    "cache-control": "no-cache",
    vary: "accept-encoding",
  };
  if (request.get("if-none-match") === found.etag) {
    return new Response(null, { status: 304, headers });
  }
  if (!/\bgzip\b/.test(request.get("accept-encoding") ?? "")) {
    return new Response(found.text, { headers });
  }
  return new Response(packedAsset(name, found.text), {
    headers: { ...headers, "content-encoding": "gzip" },
  });
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/** The one HTML document; the script inside it draws every view. */
export function shell(
  token: string,
  identity: Identity,
  core: Pick<Core, "version" | "keepDeletedMs">,
): string {
  const values: Record<string, string> = {
    TOKEN: token,
    IDENTITY: identity.name,
    READ_ONLY: String(identity.readOnly),
    KEEPS_DELETED: String(core.keepDeletedMs > 0),
    VERSION: core.version,
  };
  return indexHtml.replace(
    /\{\{\s*([A-Z_]+)\s*\}\}/g,
    (_, name: string) => escaped(values[name] ?? ""),
  );
}
