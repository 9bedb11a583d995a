/** Licence texts of every package below node_modules that the bundle may hold. */
import { ROOT } from "./build.ts";

export function licences(): string {
  const store = `${ROOT}node_modules/.deno`;
  const parts: string[] = [];
  for (const entry of [...Deno.readDirSync(store)].map((e) => e.name).sort()) {
    const at = entry.lastIndexOf("@");
    if (at <= 0) continue;
    const name = entry.slice(0, at).replace("+", "/");
    const folder = `${store}/${entry}/node_modules/${name}`;
    try {
      const meta = JSON.parse(Deno.readTextFileSync(`${folder}/package.json`));
      const file = [...Deno.readDirSync(folder)].map((e) => e.name).find((n) => /^licen[cs]e/i.test(n));
      const text = file === undefined
        ? `(no licence file; package.json says: ${meta.license ?? "nothing"})`
        : Deno.readTextFileSync(`${folder}/${file}`);
      parts.push(`${name} ${meta.version} (${meta.license ?? "see below"})\n${"-".repeat(72)}\n${text.trim()}\n`);
    } catch {
      // A folder without a package of its own.
    }
  }
  return parts.join("\n\n");
}
