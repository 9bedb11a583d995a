/** Licence texts of every package in the program's module graph, and of the runtime. */
import { fail, run } from "./build.ts";

interface Package {
  name: string;
  version: string;
  dependencies: string[];
  localPath: string;
}

/** The used fields of `deno info --json`. */
interface Graph {
  modules: { kind: string; npmPackage?: string }[];
  npmPackages: Record<string, Package>;
}

const RULE = "-".repeat(72);

export function licences(): string {
  const parts = packagesOf(graph()).map(({ name, version, localPath }) => {
    const { license } = JSON.parse(Deno.readTextFileSync(`${localPath}/package.json`)) as {
      license?: string;
    };
    const file = [...Deno.readDirSync(localPath)].map((entry) => entry.name).find((n) =>
      /^licen[cs]e/i.test(n)
    );
    if (file === undefined && license === undefined) {
      fail(`${name} ${version} does not say under what licence it is`);
    }
    const text = file === undefined
      ? `(no licence file in the package; its package.json says: ${license})`
      : Deno.readTextFileSync(`${localPath}/${file}`).trim();
    return `${name} ${version} (${license ?? "see below"})\n${RULE}\n${text}\n`;
  });
  return [`Deno ${Deno.version.deno} (MIT)\n${RULE}\n${DENO}\n`, ...parts].join("\n\n");
}

/** The packages that the program imports, and their dependencies; by name. */
export function packagesOf({ modules, npmPackages }: Graph): Package[] {
  const wanted = modules.map(({ npmPackage }) => npmPackage).filter((id) => id !== undefined);
  const found = new Map<string, Package>();
  for (const id of wanted) {
    const one = npmPackages[id];
    // Optional packages for other platforms are not installed.
    if (found.has(id) || one === undefined) continue;
    found.set(id, one);
    wanted.push(...one.dependencies);
  }
  return [...found.values()].sort((a, b) => a.name < b.name ? -1 : 1);
}

/** The module graph of the program and of its page (`src/gen/page`). */
export function graph(): Graph {
  const [program, page] = [["src/main.ts"], ["--lock=dev.lock", "src/ui/client/main.tsx"]].map(
    (args) => {
      const info = run(Deno.execPath(), ["info", "--json", ...args]);
      if (!info.ok) fail(`the module graph cannot be made:\n${info.err}`);
      return JSON.parse(info.out) as Graph;
    },
  );
  return {
    modules: [...program!.modules, ...page!.modules],
    npmPackages: { ...page!.npmPackages, ...program!.npmPackages },
  };
}

/**
 * The executable contains the runtime; licences of the runtime's own dependencies are in Deno's
 * repository.
 */
const DENO = `Copyright 2018-2026 the Deno authors

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;
