/**
 * A browser for the page's tests: Debian's Chromium by playwright-core. One per file, because a
 * start costs seconds.
 */
import { type Browser, type BrowserContext, chromium, type Page } from "npm:playwright-core@1.65.1";

const EXECUTABLES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export function chromiumPath(): string | undefined {
  return EXECUTABLES.find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
}

/** Everything the browser waits for may take this long on a busy machine. */
export const PATIENCE_MS = 45_000;

/**
 * One process for all pages of a context: starting one for each page costs more than most tests do
 * with the page.
 */
export const ONE_PROCESS = "--renderer-process-limit=1";

export async function launch(executablePath: string, ...more: string[]): Promise<Browser> {
  return await chromium.launch({
    executablePath,
    timeout: 60_000,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      ...more,
    ],
  });
}

interface Options {
  width?: number;
  height?: number;
  dark?: boolean;
}

/** What pages share: cookies, stored values, and the process if the browser has only one. */
export async function openContext(
  browser: Browser,
  options: Options = {},
): Promise<BrowserContext> {
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1280, height: options.height ?? 800 },
    colorScheme: options.dark ? "dark" : "light",
    acceptDownloads: true,
  });
  context.setDefaultTimeout(PATIENCE_MS);
  context.setDefaultNavigationTimeout(PATIENCE_MS);
  return context;
}

/** A page whose errors are kept: a test ends by looking that there were none. */
export async function pageIn(context: BrowserContext): Promise<{ page: Page; errors: string[] }> {
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.message));
  // A connection that a test takes away is reported as a console error too, and wanted.
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource|ERR_/.test(message.text())) {
      errors.push(message.text());
    }
  });
  return { page, errors };
}

/** A page in a context of its own. */
export async function openPage(
  browser: Browser,
  options: Options = {},
): Promise<{ page: Page; errors: string[]; close(): Promise<void> }> {
  const context = await openContext(browser, options);
  return { ...await pageIn(context), close: () => context.close() };
}

/** Removes what earlier pages have stored for this address: an earlier server may have had it. */
export async function forget(page: Page, address: string): Promise<void> {
  await page.context().clearCookies();
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Storage.clearDataForOrigin", {
    origin: `http://${address}`,
    storageTypes: "all",
  });
  await devtools.detach();
}
