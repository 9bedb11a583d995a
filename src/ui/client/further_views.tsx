/** Views that few visits need, as one part of the program: `Later` draws them (parts/parts.tsx). */
import "./parts/common.ts";
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
