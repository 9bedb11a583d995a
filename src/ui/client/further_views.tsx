/**
 * Views that few visits need, as a script of their own with its own copy of Preact
 * (parts/parts.tsx): `Later` draws them.
 */
import { Explorer } from "./charts/explorer.tsx";
import { Again } from "./run/again.tsx";
import { Code } from "./run/code.tsx";
import { Command } from "./run/command_facts.tsx";
import { Frames } from "./media/frames.tsx";
import { LogPane } from "./run/log_pane.tsx";
import { Media } from "./media/media.tsx";
import { Columns } from "./runs/choose_columns.tsx";
import { ConfigDifferences } from "./run/config_diff.tsx";
import { Nowhere } from "./nowhere.tsx";
import { createElement, render } from "./parts/preact.ts";
import { Start } from "./runs/start.tsx";
import { Trash } from "./runs/trash.tsx";

export const VIEWS = {
  Again,
  Code,
  Columns,
  Command,
  ConfigDifferences,
  Explorer,
  Frames,
  LogPane,
  Media,
  Nowhere,
  Start,
  Trash,
};

/** @param props null: the view ends */
export function draw(element: HTMLElement, view: keyof typeof VIEWS, props: object | null): void {
  // deno-lint-ignore no-explicit-any -- `Later` has checked the props against the view
  render(props === null ? null : createElement(VIEWS[view] as any, props), element);
}
