/** What launchers, loggers and terminals put around a line: colours, times, levels, ranks. Pure. */

const TERMINAL =
  // deno-lint-ignore no-control-regex -- terminal sequences are control characters
  /\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])|[\x00\x07\x08\x0e\x0f]/g;

export function withoutColours(line: string): string {
  return line.includes("\x1b") || line.includes("\b") ? line.replace(TERMINAL, "") : line;
}

/** Each is tried at the line's beginning, until none fits. */
const BEGINNINGS: readonly RegExp[] = [
  /\s+/y,
  // 2026-01-01 12:00:00,123
  /\[?\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?(?:Z|[+-]\d\d:?\d\d)?\]?(?=[\s:|,\-[]|$)/y,
  /\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?(?=[\s:|,\-[]|$)/y,
  // [rank0]:, [INFO], [root], [1,0]<stdout>:; no pair and no n/m in it
  /\[[A-Za-z][^\]=/]{0,60}\](?:<\w+>)?:?/y,
  /\[\d+,\s?\d+\]<\w+>:/y,
  // Ray: (RayTrainWorker pid=123, ip=10.0.0.1)
  /\((?=[^()]{0,80}pid=)[^()]{1,120}\)/y,
  /(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|NOTICE|TRACE|SUCCESS)(?::[\w.<>]{1,60}:(?:\d+:?)?|:|(?=[\s|\-[])|$)/y,
  // glog: I0101 12:00:00.000000 1234 train.py:57]
  /[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.]+:\d+\]/y,
  // loguru: module:function:12 -
  /[\w.]{1,60}:[\w<>.]{1,60}:\d{1,6} -(?=\s)/y,
  // srun -l
  /\d{1,5}: (?=\S)/y,
  /[-|>:](?=\s)/y,
];
const MAX_BEGINNINGS = 12;

/** Where the line itself begins, behind the prefixes of launchers and loggers. */
export function beginningOf(line: string): number {
  let at = 0;
  for (let i = 0; i < MAX_BEGINNINGS; i++) {
    let moved = false;
    for (const pattern of BEGINNINGS) {
      pattern.lastIndex = at;
      if (!pattern.test(line)) continue;
      at = pattern.lastIndex;
      moved = true;
      break;
    }
    if (!moved) break;
  }
  return at;
}
