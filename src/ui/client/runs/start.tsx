/** What the list of runs shows while there are none: the commands that begin. */
import { Icon } from "../parts/parts.tsx";
import { notice } from "../parts/dialog.tsx";

const STEPS: [does: string, command: string][] = [
  ["Run a training, and watch it here", "mosaic run -- python train.py"],
  ["Bring the files of earlier trainings", "mosaic import runs/"],
  ["Read the manual in the terminal", "mosaic docs"],
];

/**
 * Without a clipboard, which a page has over HTTPS and on this machine only, the command is
 * selected instead.
 */
async function copy(command: string, shown: Element): Promise<void> {
  try {
    await navigator.clipboard.writeText(command);
    notice("Copied.");
  } catch {
    getSelection()!.selectAllChildren(shown);
    notice("Selected: this browser lets a page copy only over HTTPS.");
  }
}

export function Start() {
  return (
    <section class="start" aria-label="How to begin">
      <h2>No runs yet</h2>
      <p class="sub">In a terminal on the daemon's machine:</p>
      <ol>
        {STEPS.map(([does, command]) => (
          <li key={command}>
            <span>{does}</span>
            <div>
              <code>{command}</code>
              <button
                type="button"
                class="icon"
                aria-label={`Copy ${command}`}
                title="Copy"
                onClick={(e) => copy(command, e.currentTarget.previousElementSibling!)}
              >
                <Icon name="copy" />
              </button>
            </div>
          </li>
        ))}
      </ol>
      <p class="sub">A run appears here when it is submitted.</p>
      <p>
        <a href="/docs/tutorial/first-run.html">The first run, step by step</a>
      </p>
    </section>
  );
}
