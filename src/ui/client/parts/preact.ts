/**
 * Everything that the page uses of Preact, pinned in one place. Only the bundler reads it: the
 * program does not need it to run.
 */
export * from "npm:preact@11.2.0/hooks";
export { type ComponentChildren, createElement, type JSX, render } from "npm:preact@11.2.0";
