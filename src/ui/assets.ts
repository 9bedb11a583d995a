/** The page's files, carried inside the program as texts. */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { MosaicError } from "../base/errors.ts";
import type { Identity } from "./viewer.ts";
import indexHtml from "./client/index.html" with { type: "text" };
import styleCss from "./client/style.css" with { type: "text" };
import themeJs from "./client/theme.js" with { type: "text" };
import actionsJs from "./client/actions.js" with { type: "text" };
import ansiJs from "./client/ansi.js" with { type: "text" };
import apiJs from "./client/api.js" with { type: "text" };
import chartJs from "./client/chart.js" with { type: "text" };
import chartsJs from "./client/charts.js" with { type: "text" };
import compareJs from "./client/compare.js" with { type: "text" };
import configDiffJs from "./client/config_diff.js" with { type: "text" };
import dialogJs from "./client/dialog.js" with { type: "text" };
import domJs from "./client/dom.js" with { type: "text" };
import eventsJs from "./client/events.js" with { type: "text" };
import explorerJs from "./client/explorer.js" with { type: "text" };
import formatJs from "./client/format.js" with { type: "text" };
import framesJs from "./client/frames.js" with { type: "text" };
import hostStripJs from "./client/host_strip.js" with { type: "text" };
import lifecycleJs from "./client/lifecycle.js" with { type: "text" };
import logsJs from "./client/logs.js" with { type: "text" };
import mainJs from "./client/main.js" with { type: "text" };
import runJs from "./client/run.js" with { type: "text" };
import runsJs from "./client/runs.js" with { type: "text" };
import runsModelJs from "./client/runs_model.js" with { type: "text" };
import runsTableJs from "./client/runs_table.js" with { type: "text" };
import smoothingJs from "./client/smoothing.js" with { type: "text" };
import statesJs from "./client/states.js" with { type: "text" };
import tabsJs from "./client/tabs.js" with { type: "text" };
import uplotJs from "uplot/dist/uPlot.iife.min.js" with { type: "text" };
import uplotCss from "uplot/dist/uPlot.min.css" with { type: "text" };

const JAVASCRIPT = "text/javascript; charset=utf-8";
const CSS = "text/css; charset=utf-8";
const SVG = "image/svg+xml";

const ICON =
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#2f6fd6" d="M1 1h6v6H1z"/><path fill="#1f9d76" d="M9 1h6v6H9z"/><path fill="#b86e00" d="M1 9h6v6H1z"/><path fill="#7a5ad0" d="M9 9h6v6H9z"/></svg>`;

interface Asset {
  type: string;
  text: string;
  etag: string;
}

function made(type: string, text: string): Asset {
  return { type, text, etag: `"${createHash("sha256").update(text).digest("base64url").slice(0, 22)}"` };
}

const ASSETS = new Map<string, Asset>(Object.entries({
  "style.css": made(CSS, styleCss),
  "theme.js": made(JAVASCRIPT, themeJs),
  "actions.js": made(JAVASCRIPT, actionsJs),
  "ansi.js": made(JAVASCRIPT, ansiJs),
  "api.js": made(JAVASCRIPT, apiJs),
  "chart.js": made(JAVASCRIPT, chartJs),
  "charts.js": made(JAVASCRIPT, chartsJs),
  "compare.js": made(JAVASCRIPT, compareJs),
  "config_diff.js": made(JAVASCRIPT, configDiffJs),
  "dialog.js": made(JAVASCRIPT, dialogJs),
  "dom.js": made(JAVASCRIPT, domJs),
  "events.js": made(JAVASCRIPT, eventsJs),
  "explorer.js": made(JAVASCRIPT, explorerJs),
  "format.js": made(JAVASCRIPT, formatJs),
  "frames.js": made(JAVASCRIPT, framesJs),
  "host_strip.js": made(JAVASCRIPT, hostStripJs),
  "lifecycle.js": made(JAVASCRIPT, lifecycleJs),
  "logs.js": made(JAVASCRIPT, logsJs),
  "main.js": made(JAVASCRIPT, mainJs),
  "run.js": made(JAVASCRIPT, runJs),
  "runs.js": made(JAVASCRIPT, runsJs),
  "runs_model.js": made(JAVASCRIPT, runsModelJs),
  "runs_table.js": made(JAVASCRIPT, runsTableJs),
  "smoothing.js": made(JAVASCRIPT, smoothingJs),
  "states.js": made(JAVASCRIPT, statesJs),
  "tabs.js": made(JAVASCRIPT, tabsJs),
  "uplot.js": made(JAVASCRIPT, uplotJs),
  "uplot.css": made(CSS, uplotCss),
  "icon.svg": made(SVG, ICON),
}));

/** Compressed once, when first asked for. */
const packed = new Map<string, Uint8Array<ArrayBuffer>>();

function packedAsset(name: string, text: string): Uint8Array<ArrayBuffer> {
  let bytes = packed.get(name);
  if (bytes === undefined) packed.set(name, bytes = new Uint8Array(gzipSync(text)));
  return bytes;
}

/** Bytes of everything the page loads, as they are sent to a browser. */
export function shippedBytes(): number {
  return [...ASSETS].reduce((n, [name, a]) => n + packedAsset(name, a.text).length, indexHtml.length);
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
  if (request.get("if-none-match") === found.etag) return new Response(null, { status: 304, headers });
  if (!/\bgzip\b/.test(request.get("accept-encoding") ?? "")) return new Response(found.text, { headers });
  return new Response(packedAsset(name, found.text), { headers: { ...headers, "content-encoding": "gzip" } });
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/** The one HTML document; every view is drawn by the script inside it. */
export function shell(token: string, identity: Identity, version: string): string {
  const values: Record<string, string> = {
    TOKEN: token,
    IDENTITY: identity.name,
    READ_ONLY: String(identity.readOnly),
    VERSION: version,
  };
  return indexHtml.replace(/\{\{\s*([A-Z_]+)\s*\}\}/g, (_, name: string) => escaped(values[name] ?? ""));
}
