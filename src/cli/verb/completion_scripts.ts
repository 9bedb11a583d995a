/**
 * Completion scripts, generated from the verbs' definitions. Runs are completed by asking the
 * daemon.
 *
 * Run names are untrusted. The scripts never pass them to anything that expands or evaluates text
 * (`compgen -W`, `eval`) and quote what they put on the command line.
 */
import { escapeControl } from "../text/text.ts";

export interface CompletedVerb {
  name: string;
  summary: string;
  options: {
    long: string | undefined;
    short: string | undefined;
    description: string;
    choices: readonly string[];
    /** Its value is a column of the table of runs; "several": columns separated by commas. */
    columns?: "one" | "several" | undefined;
  }[];
  /** Its arguments are runs. */
  takesRuns: boolean;
}

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = typeof SHELLS[number];

export function completionScript(shell: Shell, verbs: readonly CompletedVerb[]): string {
  return { bash, zsh, fish }[shell](verbs);
}

/** Prints candidates for a run, one per line; prints nothing if the daemon is unreachable. */
const RUNS = (word: string) => `mosaic completions runs -- ${word} 2>/dev/null`;
const COLUMNS = "mosaic completions columns 2>/dev/null";

/**
 * Ids and names for completion; omits names with control characters and names that look like
 * options.
 */
export function runCandidates(runs: readonly { runId: string; name: string }[]): string[] {
  const plain = (name: string) =>
    name !== "" && !name.startsWith("-") && escapeControl(name) === name;
  return [
    ...new Set([
      "@last",
      ...runs.flatMap(({ runId, name }) => plain(name) ? [runId, name] : [runId]),
    ]),
  ];
}

/**
 * Columns of the table of runs, parameters and metrics, without names that contain special
 * characters.
 */
export function columnCandidates(
  columns: readonly string[],
  names: { parameters: readonly string[]; metrics: readonly string[] },
): string[] {
  const further = [
    ...names.parameters.map((n) => `param.${n}`),
    ...names.metrics.map((n) => `metric.${n}`),
  ];
  return [
    ...columns,
    ...further.filter((name) => !name.includes(",") && escapeControl(name) === name),
  ];
}

function flags(verb: CompletedVerb): string[] {
  return verb.options.flatMap((o) => [o.long, o.short].filter((f) => f !== undefined));
}

function bash(verbs: readonly CompletedVerb[]): string {
  const choices = new Map<string, readonly string[]>();
  for (const o of verbs.flatMap((v) => v.options)) {
    for (const flag of [o.long, o.short]) {
      if (flag === undefined || o.choices.length === 0) continue;
      choices.set(flag, [...new Set([...choices.get(flag) ?? [], ...o.choices])]);
    }
  }
  const columns = verbs.flatMap((v) => v.options).filter((o) => o.columns !== undefined)
    .flatMap((o) => [o.long, o.short].filter((flag) => flag !== undefined));
  return `# bash completion of mosaic: source <(mosaic completions bash)
_mosaic_runs() {
  local run quoted
  while IFS= read -r run; do
    printf -v quoted %q "$run"
    if [[ $run == "$1"* || $quoted == "$1"* ]]; then COMPREPLY+=("$quoted"); fi
  done < <(${RUNS('"$1"')})
}
_mosaic_columns() {
  local column quoted word=\${1##*,}
  local before=\${1%"$word"}
  case "$word" in -*) before+=-; word=\${word#-} ;; esac
  while IFS= read -r column; do
    printf -v quoted %q "$column"
    if [[ $column == "$word"* || $quoted == "$word"* ]]; then COMPREPLY+=("$before$quoted"); fi
  done < <(${COLUMNS})
}
_mosaic() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} verb=\${COMP_WORDS[1]}
  local words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="${verbs.map((v) => v.name).join(" ")} help --help --version"
  else
    case "$before" in
${
    [...choices].map(([long, values]) =>
      `      ${long}) COMPREPLY=($(compgen -W "${values.join(" ")}" -- "$word")); return ;;`
    ).join("\n")
  }
      ${
    [...new Set(columns)].join("|")
  }) COMPREPLY=(); compopt -o nospace; _mosaic_columns "$word"; return ;;
    esac
    case "$word" in
    -*)
      case "$verb" in
${verbs.map((v) => `        ${v.name}) words="${flags(v).join(" ")}" ;;`).join("\n")}
      esac ;;
    *)
      case "$verb" in
        ${verbs.filter((v) => v.takesRuns).map((v) => v.name).join("|")})
          COMPREPLY=()
          _mosaic_runs "$word"
          return ;;
      esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _mosaic mosaic
`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function zsh(verbs: readonly CompletedVerb[]): string {
  const bracketed = (text: string) =>
    text.replaceAll("[", "(").replaceAll("]", ")").replaceAll(":", "\\:");
  return `#compdef mosaic
# zsh completion of mosaic: mosaic completions zsh > "\${fpath[1]}/_mosaic"
_mosaic_runs() {
  local -a runs
  runs=(\${(f)"$(${RUNS('"$PREFIX"')})"})
  compadd -a runs
}
_mosaic_columns() {
  local -a columns
  columns=(\${(f)"$(${COLUMNS})"})
  compset -P '*,'
  compset -P -
  compadd -S '' -a columns
}
_mosaic() {
  local -a verbs
  verbs=(
${verbs.map((v) => `    ${quoted(`${v.name}:${v.summary}`)}`).join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe command verbs
    return
  fi
  shift words; (( CURRENT-- ))
  case "$words[1]" in
${
    verbs.map((v) => {
      const options = v.options.filter((o) => o.long !== undefined).map((o) => {
        const value = o.columns !== undefined
          ? ":column:_mosaic_columns"
          : o.choices.length > 0
          ? `:value:(${o.choices.join(" ")})`
          : "";
        return `      ${quoted(`${o.long}[${bracketed(o.description)}]${value}`)}`;
      });
      return `  ${v.name})\n    _arguments \\\n${
        [...options, `      ${quoted(`*:${v.takesRuns ? "run:_mosaic_runs" : "file:_files"}`)}`]
          .join(" \\\n")
      } ;;`;
    }).join("\n")
  }
  esac
}
if [ "$funcstack[1]" = "_mosaic" ]; then _mosaic "$@"; else compdef _mosaic mosaic; fi
`;
}

function fish(verbs: readonly CompletedVerb[]): string {
  const lines = [
    "# fish completion of mosaic: mosaic completions fish > ~/.config/fish/completions/mosaic.fish",
    "complete -c mosaic -f",
  ];
  for (const v of verbs) {
    const inVerb = `-n "__fish_seen_subcommand_from ${v.name}"`;
    lines.push(`complete -c mosaic -n __fish_use_subcommand -a ${v.name} -d ${quoted(v.summary)}`);
    if (v.takesRuns) lines.push(`complete -c mosaic ${inVerb} -a "(${RUNS("(commandline -ct)")})"`);
    else lines.push(`complete -c mosaic ${inVerb} -F`);
    for (const o of v.options) {
      const names = [
        o.long === undefined ? "" : `-l ${o.long.slice(2)}`,
        o.short === undefined ? "" : `-s ${o.short.slice(1)}`,
      ].filter((n) => n !== "").join(" ");
      const values = o.columns !== undefined
        ? ` -x -a ${
          quoted(o.columns === "one" ? `(${COLUMNS})` : `(__fish_complete_list , '${COLUMNS}')`)
        }`
        : o.choices.length === 0
        ? ""
        : ` -x -a ${quoted(o.choices.join(" "))}`;
      lines.push(`complete -c mosaic ${inVerb} ${names} -d ${quoted(o.description)}${values}`);
    }
  }
  return `${lines.join("\n")}\n`;
}
