/**
 * What most views need. Each part of the program that is loaded by itself imports this file, so
 * that the bundler makes one script of it and not one for each set of views.
 */
import "../../../base/text/csv_text.ts";
import "../../../base/text/format.ts";
import "../../../base/text/natural_order.ts";
import "../../../base/text/nearest.ts";
import "../../../base/time/ticks.ts";
import "../../../runs/fields/run_texts.ts";
import "../../../telemetry/series/groups.ts";
import "./actions.tsx";
import "./ansi.ts";
import "./colors.ts";
import "./events.tsx";
import "./keys.tsx";
import "./states.tsx";
import "./tabs.tsx";
