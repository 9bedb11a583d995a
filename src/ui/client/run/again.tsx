/**
 * Another run like this one, with changes: what ran is shown, and what may change is text to edit.
 */
import { commandWords } from "../../../runs/command_words.ts";
import { changedLines, parameterLines } from "../../../runs/repeated_config.ts";
import type { RunPage } from "../../api/page_json.ts";
import { answer, param, runApi } from "../parts/api.ts";
import { noticeOf } from "../parts/dialog.tsx";
import { go } from "../parts/dom.ts";
import { useEffect, useState } from "../parts/preact.ts";

/** Of a run, these parameters are in its config; a tracker said the others, and they follow. */
const IN_CONFIG = ["config", "command"];
const MOST_ROWS = 14;

interface AgainProps {
  id: string;
  done(): void;
}

interface Before {
  run: RunPage;
  command: string;
  lines: string;
}

export function Again({ id, done }: AgainProps) {
  const [before, setBefore] = useState<Before>();
  useEffect(() => {
    const read = async () => {
      const [run, config] = await Promise.all([
        answer(runApi.$get(param(id))),
        answer(runApi.config.$get({ ...param(id), query: {} })),
      ]);
      const words = commandWords(JSON.parse(config.text));
      const command = words.map((word) =>
        /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
      );
      const own = run.parameters.filter(({ source }) => IN_CONFIG.includes(source));
      setBefore({ run, command: command.join(" "), lines: parameterLines(own) });
    };
    read().catch((error) => {
      noticeOf(error);
      done();
    });
  }, []);
  return before === undefined ? null : <Form before={before} done={done} />;
}

function Form({ before: { run, command, lines }, done }: { before: Before; done(): void }) {
  const [name, setName] = useState(run.name);
  const [tags, setTags] = useState(run.tags.join(", "));
  const [text, setText] = useState(lines);
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setTrouble("");
    try {
      const json = {
        name: name.trim(),
        tags: tags.split(",").map((tag) => tag.trim()).filter((tag) => tag !== ""),
        set: changedLines(lines, text),
      };
      const of = { id: run.run_id, action: "again" };
      const { run: made } = await answer(runApi[":action"].$post({ param: of, json }));
      done();
      go(`/runs/${made!.run_id}`);
    } catch (error) {
      setTrouble(error instanceof Error ? error.message : String(error));
      setBusy(false);
    }
  };
  return (
    <dialog
      class="again"
      aria-label="Run again with changes"
      ref={(dialog: HTMLDialogElement | null) =>
        void (dialog?.open === false && dialog.showModal())}
      onClose={done}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <h2>Run again with changes</h2>
        <label class="field">
          Name
          <input type="text" value={name} onInput={(e) => setName(e.currentTarget.value)} />
        </label>
        <label class="field">
          Tags, with commas between them
          <input type="text" value={tags} onInput={(e) => setTags(e.currentTarget.value)} />
        </label>
        <div class="field">
          <span>Command</span>
          <pre tabIndex={0} aria-label="Command">{command}</pre>
        </div>
        {lines === ""
          ? <p>No parameter of this run is known from its command or config.</p>
          : (
            <label class="field">
              Parameters
              <textarea
                rows={Math.min(MOST_ROWS, lines.split("\n").length + 1)}
                spellcheck={false}
                value={text}
                onInput={(e) => setText(e.currentTarget.value)}
              />
            </label>
          )}
        <p class="sub">It starts with the code that is there now. This run stays as it is.</p>
        {trouble !== "" && <p role="alert">{trouble}</p>}
        <div class="dialog-buttons">
          <button type="button" onClick={done}>Close</button>
          <button type="submit" class="primary" disabled={busy}>Submit the run</button>
        </div>
      </form>
    </dialog>
  );
}
