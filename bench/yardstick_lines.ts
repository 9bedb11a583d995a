/** Lines of the documented step dialect, as a worker prints them: the input that parsing is measured with. */
export function documentedLines(count: number): string[] {
  const lines: string[] = [];
  for (let i = 0; i < count; i++) {
    lines.push(
      `{"event_type":"step","run_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","episode":${Math.floor(i / 200)},"step_index":${
        i % 200
      },"action":${i % 2},"observation":[${(i % 97) / 31},-0.01,0.03,${
        (i % 13) / 7
      }],"reward":1.0,"terminated":false,"truncated":false}`,
    );
  }
  return lines;
}
