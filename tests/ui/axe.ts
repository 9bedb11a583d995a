/** What axe finds wrong for people who use assistive technology. */
import type axe from "npm:axe-core@4.14.1";
// The same program, but less than half as long: it is sent to the browser again for every document.
import shorter from "npm:axe-core@4.14.1/axe.min.js";
import type { Page } from "npm:playwright-core@1.65.1";

/**
 * @param options.rules only these instead of all, those of good practice among them
 * @param options.within only in the elements of this selector, instead of the whole document
 */
export async function violations(
  page: Page,
  options: { rules?: string[]; within?: string } = {},
): Promise<string[]> {
  // Evaluated by the debugger's protocol, which the page's policy does not concern.
  if (!await page.evaluate(() => "axe" in globalThis)) {
    await page.evaluate((shorter as typeof axe).source);
  }
  const { violations } = await page.evaluate(
    ({ rules, within }) =>
      (globalThis as unknown as { axe: typeof axe }).axe.run(within ?? document, {
        resultTypes: ["violations"],
        ...(rules ? { runOnly: { type: "rule", values: rules } } : {}),
      }),
    options,
  );
  return violations.flatMap((v) =>
    v.nodes.map((n) => `${v.id}: ${n.target.join(" ")}: ${n.failureSummary}`)
  );
}
