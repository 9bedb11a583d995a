/**
 * The path without slashes at its end; "/" becomes "". A loop: a pattern for them takes quadratic
 * time on a path of slashes.
 */
export function withoutTrailingSlashes(path: string): string {
  let end = path.length;
  while (path[end - 1] === "/") end--;
  return path.slice(0, end);
}
