# worker.sh STEPS EVERY_SECONDS EXIT_CODE: a worker that prints numbered steps and one episode. Needs nothing but a shell.
steps=$1 every=$2 code=$3 i=0
while [ "$i" -lt "$steps" ]; do
  printf '{"event_type":"step","episode":0,"step_index":%d,"action":%d,"reward":1.0,"terminated":false,"truncated":false}\n' "$i" "$i"
  i=$((i + 1))
  [ "$every" = 0 ] || sleep "$every"
done
printf '{"event_type":"episode","episode":0,"total_reward":%d,"steps":%d,"terminated":true,"truncated":false}\n' "$steps" "$steps"
exit "$code"
