# A worker as fast as one can be: awk -v n=STEPS [-v pad=OBSERVATION_BYTES] [-v go=FILE] [-v pace=SECONDS] -f worker.awk
# With pace=SECONDS it waits that long after every 20 steps, for runs that stream.
# With go it waits until that file is there, so that many can begin together.
# Prints n documented-dialect steps in episodes of 200, each with its episode record.
BEGIN {
  if (go != "") while (system("test -e '" go "'") != 0) system("sleep 1")
  observation = ""
  if (pad > 0) { for (i = 2; i < pad; i++) observation = observation "x"; observation = "\"" observation "\"" }
  for (i = 0; i < n; i++) {
    episode = int(i / 200)
    if (pad > 0) o = observation
    else o = sprintf("[%.6f,-0.012345,%.6f,0.043210]", (i % 997) / 499 - 1, (i % 131) / 997)
    printf "{\"event_type\":\"step\",\"run_id\":\"bench\",\"episode\":%d,\"step_index\":%d,\"action\":%d,\"observation\":%s,\"reward\":1.0,\"terminated\":false,\"truncated\":false}\n", episode, i % 200, i % 2, o
    if (i % 200 == 199) printf "{\"event_type\":\"episode\",\"run_id\":\"bench\",\"episode\":%d,\"total_reward\":200.0,\"steps\":200,\"terminated\":true,\"truncated\":false}\n", episode
    if (pace > 0 && i % 20 == 19) { fflush(); system("sleep " pace) }
  }
}
