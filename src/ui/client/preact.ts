/** What the page takes from Preact, pinned in one place. Only the bundler reads it: the program needs none of it to run. */
export * from "npm:preact@11.2.0/hooks";
export { type ComponentChildren, type JSX, render } from "npm:preact@11.2.0";
