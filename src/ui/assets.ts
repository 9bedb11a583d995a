/**
 * The page's files, included in the program as texts; `deno task gen` builds scripts and styles
 * from client/.
 */
import { sha256, zlib } from "../base/node_modules.ts";
import { MosaicError } from "../base/errors.ts";
import type { Core } from "../dispatch/core/core.ts";
import type { Identity } from "./http/viewer.ts";
import firstJs from "../gen/page/first.js" with { type: "text" };
import { PARTS } from "../gen/page/parts.ts";
import indexHtml from "./client/index.html" with { type: "text" };
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
  ...Object.fromEntries(
    Object.entries(PARTS).map(([name, { text }]) => [name, new Asset(JAVASCRIPT, text)]),
  ),
  "style.css": new Asset(CSS, styleCss),
  "first.js": new Asset(JAVASCRIPT, firstJs),
  "icon.svg": new Asset(SVG, ICON),
}));

/** Compressed once, at the first request. */
const packed = new Map<string, Uint8Array<ArrayBuffer>>();

function packedAsset(name: string, text: string): Uint8Array<ArrayBuffer> {
  let bytes = packed.get(name);
  if (bytes === undefined) packed.set(name, bytes = new Uint8Array(zlib().gzipSync(text)));
  return bytes;
}

/**
 * A folder of the address: a page of another version must not mix parts of two programs, because
 * their names for each other's exports are the bundler's.
 */
let folder: string | undefined;
function build(): string {
  return folder ??= sha256().update(Object.values(PARTS).map(({ text }) => text).join("\n"))
    .digest("base64url").slice(0, 12);
}

/** The parts that a view needs at once, so that one is not only found when another has come. */
const VIEWS: [path: RegExp, parts: string[]][] = [
  [/^\/(?:compare)?$/, ["workspace.js", "charts.js"]],
  [/^\/runs\//, ["run.js"]],
  [/^\/wall$/, ["live_tiles.js"]],
  [/^\/sweeps/, ["sweeps_view.js"]],
];

/** Names of all scripts of the page's program that a view loads. */
export function partsOf(path: string): string[] {
  const [, parts] = VIEWS.find(([pattern]) => pattern.test(path)) ?? [, ["further_views.js"]];
  return [...new Set(["main.js", ...parts].flatMap((name) => [name, ...PARTS[name]!.needs]))];
}

/** @param of the folder in which the page looks @throws `not_found`. */
export function asset(name: string, request: Headers, of?: string): Response {
  const found = of === undefined || of === build() ? ASSETS.get(name) : undefined;
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
  path: string,
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
    BUILD: build(),
  };
  const early = partsOf(path).map((name) =>
    `<link rel="modulepreload" href="/assets/{{BUILD}}/${name}" />`
  );
  return indexHtml.replace("<!-- parts -->", early.join("\n    ")).replace(
    /\{\{\s*([A-Z_]+)\s*\}\}/g,
    (_, name: string) => escaped(values[name] ?? ""),
  );
}
