// The search for nodes: its field, its hits, and the way from one to the next.

import { find } from "../common/elements.js";
import { ask } from "../common/server.js";

/** @import { Dag } from "./dag.js" */
/** @import { Hits } from "./wire.js" */

const PAUSE_MS = 140;
const MOST_UNFOLDED = 400;

export class Finder {
  /** @param {Dag} dag */
  constructor(dag) {
    this.dag = dag;
    this.field = find(dag.root, ".search", HTMLInputElement);
    this.count = find(dag.root, ".hits", HTMLElement);
    /** What Python knows to be searched for. */
    this.known = "";
    this.timer = 0;
  }

  get text() {
    return this.field.value.trim();
  }

  /**
   * Searches for what Python says, where that has changed.
   * @param {string} text
   */
  follow(text) {
    if (text === this.known) return;
    this.known = text;
    if (text === this.text) return;
    this.field.value = text;
    if (this.dag.state.view) this.search();
  }

  /** Searches once the reader pauses. */
  type() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.search(), PAUSE_MS);
  }

  async search() {
    const { dag, text } = this;
    if (text !== this.known) {
      this.known = text;
      dag.setStateValue("found", text);
    }
    if (!text) return this.clear();
    const { state } = dag;
    const query = new URLSearchParams({ ...state.query, q: text });
    /** @type {Hits | null} */
    const hits = await ask(`/api/dag/search?${query}`).catch(() => null);
    if (!hits || !state.view || text !== this.text) return;
    state.hits.set(hits);
    this.count.textContent = hits.total ? `${hits.total} found` : "none found";
    dag.canvas.dataset.hits = String(hits.total);
    const expanded = [...new Set([...state.view.expanded, ...hits.around])];
    await dag.loader.load({ expanded: expanded.slice(0, MOST_UNFOLDED) });
    if (hits.total) this.next(1);
  }

  clear() {
    this.dag.state.hits.clear();
    this.count.textContent = "";
    this.dag.canvas.dataset.hits = "";
    this.dag.paintTheme();
  }

  /** Empties the field and goes back to the drawing. */
  leave() {
    this.field.value = "";
    this.type();
    this.dag.canvas.focus();
  }

  /**
   * Shows the next hit, or the one before.
   * @param {1 | -1} by
   */
  next(by) {
    const { dag } = this;
    const { hits } = dag.state;
    const node = hits.step(by);
    if (node === null) return;
    this.count.textContent = `${hits.at + 1} of ${hits.list.length}`;
    const box = dag.state.boxOf(node);
    if (box) dag.reveal(box);
    else dag.loader.load({ focus: node });
  }
}
