/**
 * Named addresses, stored in this browser. An address contains the settings of the view, so it can
 * be shared as a link.
 */
import { ask } from "../parts/dialog.tsx";
import { render } from "../parts/preact.ts";

interface SavedView {
  name: string;
  address: string;
}
const KEY = "mosaic-views";

function saved(): SavedView[] {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "[]");
  } catch {
    return [];
  }
}

export function drawSavedViews(place: HTMLElement): void {
  const keep = (views: SavedView[]) => {
    localStorage.setItem(KEY, JSON.stringify(views));
    drawSavedViews(place);
  };
  const save = async () => {
    const address = location.pathname + location.search + location.hash;
    const name = await ask({
      title: "Save this view",
      text: `Kept in this browser: ${address}`,
      confirm: "Save",
      field: { label: "Name", value: document.title.replace(" · mosaic", "") },
    });
    if (name?.trim()) {
      keep([...saved().filter((v) => v.name !== name.trim()), { name: name.trim(), address }]);
    }
  };
  const views = saved();
  render(
    <details
      class="views"
      onKeyDown={(e) => {
        if (e.key !== "Escape") return;
        e.currentTarget.open = false;
        e.currentTarget.querySelector("summary")!.focus();
      }}
    >
      <summary>Views</summary>
      <div class="menu">
        {views.length === 0 && <p class="sub">No saved views yet.</p>}
        {views.map(({ name, address }) => (
          <div key={name}>
            <a href={address}>{name}</a>
            <button
              type="button"
              class="icon"
              aria-label={`Remove the view ${name}`}
              onClick={() => keep(saved().filter((v) => v.name !== name))}
            >
              ×
            </button>
          </div>
        ))}
        <button type="button" onClick={save}>Save this view</button>
      </div>
    </details>,
    place,
  );
}
