/**
 * What an agent needs to know to use the command line; `tests/cli/skill_test.ts` looks up its verbs
 * and options.
 */
export const SKILL = `---
name: mosaic
description: Run training jobs, watch them, and read their curves and logs with the mosaic command line. Use when a task involves starting, comparing or diagnosing training runs on a host where \`mosaic\` is installed.
---

# mosaic

A daemon on this host runs training jobs ("runs"), each as its own process group, and stores what they print: steps, episodes, metrics, logs.
Runs go on when your shell ends. Data is printed on standard output, messages on standard error.

## Before anything else

- \`mosaic status\` says whether a daemon answers (exit code 3: none does; \`mosaic up\` starts one).
- \`mosaic VERB --help\` has every option with examples. Do not guess options.
- Add \`-o json\` or \`-o jsonl\` to read an answer by a program; \`-q\` prints ids alone.

## Start a run

\`\`\`
mosaic run --name ppo-1 -- python train.py --lr 3e-4 --seed 1
mosaic run --gpus 1 --max-duration 2h -- python train.py
\`\`\`

- \`mosaic run\` prints the run's id and returns; add \`-f\` to wait for the end. Options of the program become the run's parameters.
- \`--tag NAME\` marks runs that belong together; \`--attempts 3\` retries after a failure; \`--env NAME\` passes on a variable.
- Without a free GPU slot the run waits; \`mosaic list -s queued\` says for what.

## Wait and look

\`\`\`
mosaic wait RUN                     # exit code 0 succeeded, 1 failed, 5 cancelled
mosaic list -s live                 # what runs and waits
mosaic list -s failed --since 1d -c run,name,reason
mosaic show RUN                     # reason of a failure, parameters, last lines of standard error
mosaic logs RUN --stderr --tail 50
mosaic events RUN                   # what happened to it, in order
\`\`\`

A run is named by its id, the beginning of its id, its name, or \`@last\`.

## Find the best run

\`\`\`
mosaic list --where 'env_id=CartPole-v1 and lr<1e-3' --sort -metric.reward:max -c name,param.lr,metric.reward:max
mosaic list --group-by name -c steps,metric.loss       # seeds as one row: mean and deviation
mosaic compare RUN RUN                                  # parameters that differ, curves side by side
mosaic metrics RUN                                      # names, last, least and largest values
mosaic plot RUN loss                                    # a curve in the terminal
mosaic metrics RUN loss --points --tail 20 -o csv
\`\`\`

Columns are \`name\`, \`state\`, \`steps\`, \`param.NAME\`, \`metric.NAME\` and \`metric.NAME:min|max|mean\`.
An exact question that these do not answer: \`mosaic sql "SELECT … FROM run_metrics"\`.

## Many runs of one command

\`\`\`
mosaic sweep --name lr --grid lr=1e-3,3e-4 --seeds 1..3 --metric reward:max -- python train.py --lr {lr} --seed {seed}
mosaic sweep show lr                # trials, the best point with its interval
\`\`\`

## Why did it fail?

1. \`mosaic show RUN\` names the reason, and what to do if the cause is known.
2. \`mosaic logs RUN --stderr --tail 100\` has the traceback; \`--attempt 1\` that of an earlier attempt.
3. \`mosaic events RUN\` shows lost heartbeats, full disks, files that were not read.
4. \`mosaic retry RUN\` runs it again, from its newest checkpoint if it has one; \`--from beginning\` from the beginning.

## Change runs

- \`mosaic cancel RUN\` ends a run; \`mosaic pause RUN\` and \`mosaic resume RUN\` hold it, if it can be paused.
- \`mosaic edit RUN --tag good --name NAME --note TEXT\`.
- \`mosaic delete RUN\` puts it into the trash; \`mosaic restore RUN\` brings it back. Ask the person first, and never cancel or delete runs that you did not start.

## Rules

- Do not poll in a loop: \`mosaic wait\` and \`mosaic run -f\` return when there is something to know.
- Do not read whole logs or all points of a metric: \`--tail\`, \`mosaic metrics RUN\` and \`mosaic plot\` are shorter and keep extremes.
- Exit codes: 0 done, 1 the run failed, 2 wrong arguments, 3 no daemon answers, 4 not found, 5 cancelled, 7 no room.
- \`mosaic mcp\` serves the same as tools, if your client speaks the Model Context Protocol.
`;
