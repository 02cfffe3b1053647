// Saves the entire graph as it is folded now, as a picture or as DOT.

import { getContext, makeButton, makeElement } from "../../../../ui/components/common/elements.js";
import { fetchJson } from "../../../../ui/components/common/server.js";

/** @import { Dag } from "./dag.js" */
/** @import { Drawing } from "./wire.js" */

const MAX_PIXELS = 8000;
const REVOKE_MS = 10_000;

/** @param {Dag} dag */
export function makeSaveMenu(dag) {
  const menu = makeElement("details", "save");
  /** @type {(text: string, action: () => void) => HTMLElement} */
  const item = (text, action) =>
    makeButton(text, `Save as ${text}`, () => {
      menu.open = false;
      action();
    });
  menu.append(
    makeElement("summary", "", "Save"),
    makeElement("div", "items", [
      item("SVG", () => saveText(dag, "svg")),
      item("PNG", () => savePicture(dag)),
      item("DOT", () => saveText(dag, "dot")),
    ]),
  );
  return menu;
}

/**
 * @param {Dag} dag
 * @param {"svg" | "dot"} format
 */
async function saveText(dag, format) {
  const { view } = dag.state;
  if (!view) return;
  const query = dag.state.buildViewQuery(dag.viewport, view.expanded, view.shown);
  query.set("format", format);
  query.set("theme", dag.renderer.theme.dark ? "dark" : "light");
  /** @type {Drawing} */
  const file = await fetchJson(`/api/dag/drawing?${query}`);
  saveBlob(new Blob([file.text], { type: file.type }), file.name);
}

/** @param {Dag} dag */
function savePicture(dag) {
  const { renderer, state: { query, view } } = dag;
  if (!view) return;
  const scale = Math.min(2, MAX_PIXELS / view.width, MAX_PIXELS / view.height);
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(view.width * scale);
  canvas.height = Math.ceil(view.height * scale);
  const ctx = getContext(canvas);
  ctx.fillStyle = renderer.theme.background;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  // Text and lines have their full size, whatever the zoom on the screen.
  renderer.drawView(ctx, Math.max(1, scale), scale, 0, 0);
  const name = `${query.run}-${query.graph}.png`.replace(/[^\w.-]+/g, "-");
  canvas.toBlob((blob) => {
    if (blob) saveBlob(blob, name);
  });
}

/**
 * @param {Blob} blob
 * @param {string} name
 */
function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), REVOKE_MS);
}
