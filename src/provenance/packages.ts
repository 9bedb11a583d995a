/**
 * Packages of Python by the names of their metadata directories, as pip, uv, poetry and conda leave
 * them. Pure.
 */

export interface FoundPackages {
  packages: [name: string, version: string][];
  sources: Record<string, string>;
}

/** Names that differ only in "-", "_" and case are the same package (PEP 503). */
const normal = (name: string) => name.replace(/[-_.]+/g, "-").toLowerCase();

/**
 * @param metadata `numpy-1.26.4.dist-info`, `gym-0.26.2-py3.11.egg-info`
 * @param conda `numpy-1.26.4-py311h64a7726_0.json`
 * @param urls pairs of a metadata directory's name and its `direct_url.json`
 */
export function packagesOf(
  metadata: readonly string[],
  conda: readonly string[],
  urls: readonly string[],
): FoundPackages {
  const found = new Map<string, string>();
  for (const file of conda) {
    const [, name, version] = /^(.+)-([^-]+)-[^-]+\.json$/.exec(file) ?? [];
    if (name !== undefined) found.set(normal(name), version!);
  }
  // The first directory that Python searches wins over later ones.
  for (const directory of metadata.toReversed()) {
    const [, name, version] =
      /^(.+?)-([^-]+)(?:-py[\d.]+(?:-.*)?)?\.(?:dist|egg)-info$/.exec(directory) ?? [];
    if (name !== undefined) found.set(normal(name), version!);
  }
  const sources: Record<string, string> = {};
  for (const text of urls) {
    const blank = text.indexOf(".dist-info ");
    const [, name] = /^(.+?)-[^-]+$/.exec(text.slice(0, blank)) ?? [];
    const source = sourceOf(text.slice(blank + ".dist-info ".length));
    if (blank >= 0 && name !== undefined && source !== undefined) sources[normal(name)] = source;
  }
  const packages = [...found].map((
    [name, version],
  ): [string, string] => [name.slice(0, 200), version.slice(0, 200)]);
  return { packages: packages.sort(([a], [b]) => a < b ? -1 : 1), sources };
}

/**
 * Of `direct_url.json` (PEP 610): "file:///home/u/lib (editable)", "https://github.com/o/r@COMMIT".
 */
function sourceOf(text: string): string | undefined {
  try {
    const { url, dir_info: directory, vcs_info: vcs } = JSON.parse(text);
    if (typeof url !== "string") return undefined;
    const commit = typeof vcs?.commit_id === "string" ? `@${vcs.commit_id}` : "";
    return `${withoutCredentials(url)}${commit}${directory?.editable === true ? " (editable)" : ""}`
      .slice(0, 4096);
  } catch {
    // A file that was cut, or another's.
    return undefined;
  }
}

/** The address of a remote or a package without user, password and query. */
export function withoutCredentials(address: string): string {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(address)) return address;
  try {
    const url = new URL(address);
    url.username = "";
    url.password = "";
    url.search = "";
    url.hash = "";
    return url.href;
  } catch {
    return address.replace(/\/\/[^/]*@/, "//").replace(/[?#].*$/, "");
  }
}
