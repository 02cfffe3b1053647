// The search for nodes: its field, its hits, and navigation between them.

import { find } from "../../../../ui/components/common/elements.js";
import { fetchJson } from "../../../../ui/components/common/server.js";

/** @import { Dag } from "./dag.js" */
/** @import { Hits } from "./wire.js" */

const PAUSE_MS = 140;
const MAX_UNFOLDED = 400;

export class Finder {
  /** @param {Dag} dag */
  constructor(dag) {
    this.dag = dag;
    this.field = find(dag.root, ".search", HTMLInputElement);
    this.count = find(dag.root, ".hits", HTMLElement);
    /** Search text according to Python. */
    this.pythonText = "";
    this.timer = 0;
  }

  get text() {
    return this.field.value.trim();
  }

  /**
   * Apply the search from Python if it has changed.
   * @param {string} text
   */
  sync(text) {
    if (text === this.pythonText) return;
    this.pythonText = text;
    if (text === this.text) return;
    this.field.value = text;
    if (this.dag.state.view) this.search();
  }

  /** Search after a pause in typing. */
  searchLater() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.search(), PAUSE_MS);
  }

  async search() {
    const { dag, text } = this;
    if (text !== this.pythonText) {
      this.pythonText = text;
      dag.setStateValue("found", text);
    }
    if (!text) return this.clear();
    const { state } = dag;
    const query = new URLSearchParams({ ...state.query, q: text });
    /** @type {Hits | null} */
    const hits = await fetchJson(`/api/dag/search?${query}`).catch(() => null);
    if (!hits || !state.view || text !== this.text) return;
    state.hits.setHits(hits);
    this.count.textContent = hits.total ? `${hits.total} found` : "no matches";
    dag.canvas.dataset.hits = String(hits.total);
    const expanded = [...new Set([...state.view.expanded, ...hits.groups])];
    await dag.loader.load({ expanded: expanded.slice(0, MAX_UNFOLDED) });
    if (hits.total) this.visitNext(1);
  }

  clear() {
    this.dag.state.hits.clear();
    this.count.textContent = "";
    this.dag.canvas.dataset.hits = "";
    this.dag.redraw();
  }

  /** Clear the search and return to the graph. */
  reset() {
    this.field.value = "";
    this.searchLater();
    this.dag.canvas.focus();
  }

  /**
   * Show the next or previous hit.
   * @param {1 | -1} by
   */
  visitNext(by) {
    const { dag } = this;
    const { hits } = dag.state;
    const node = hits.step(by);
    if (node === null) return;
    this.count.textContent = `${hits.index + 1} of ${hits.list.length}`;
    const box = dag.state.getNodeBox(node);
    if (box) dag.reveal(box);
    else dag.loader.load({ focus: node });
  }
}
