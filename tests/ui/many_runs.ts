/**
 * Many ended runs with curves in an engine: rows are inserted, because recording a thousand runs
 * takes minutes.
 */
import { labRun, prepareLab } from "../../bench/lab_state.ts";
import type { PlayedEngine } from "../harness/played_engine.ts";

/**
 * @param count of runs, named `ppo-lr0-seed0` and so on, each with 60 episodes and `metrics` curves
 * @returns their ids, the oldest first
 */
export function addCurves(core: PlayedEngine, count: number, metrics = 6): string[] {
  prepareLab(core.layout, { runs: count, metrics, dense: metrics, updates: 60 });
  return Array.from({ length: count }, (_, i) => labRun(i));
}
