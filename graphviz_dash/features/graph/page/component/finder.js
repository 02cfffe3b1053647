// The search for nodes: its field, its hits, and the way from one to the next.

import { find } from "../../../../ui/components/common/elements.js";
import { countBelow } from "../../../../ui/components/common/numbers.js";
import { ask } from "../../../../ui/components/common/server.js";

/** @import { Dag } from "./dag.js" */
/** @import { Box, Hits } from "./wire.js" */

const PAUSE_MS = 140;
const MOST_UNFOLDED = 400;

export class Finder {
  /** @param {Dag} dag */
  constructor(dag) {
    this.dag = dag;
    this.field = find(dag.root, ".search", HTMLInputElement);
    this.count = find(dag.root, ".hits", HTMLElement);
    /** @type {Set<number>} nodes */
    this.hits = new Set();
    /** @type {number[]} the nodes in the order in which they are gone through */
    this.list = [];
    /** @type {number[]} their numbers in the order of the fold, ascending */
    this.leaves = [];
    /** The hit that is shown, as index into the list; -1 for none. */
    this.at = -1;
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
    if (this.dag.view) this.search();
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
    const query = new URLSearchParams({ ...dag.query, q: text });
    /** @type {Hits | null} */
    const hits = await ask(`/api/dag/search?${query}`).catch(() => null);
    if (!hits || !dag.view || text !== this.text) return;
    this.list = hits.nodes;
    this.hits = new Set(hits.nodes);
    this.leaves = hits.leaves;
    this.at = -1;
    this.count.textContent = hits.total ? `${hits.total} found` : "none found";
    dag.canvas.dataset.hits = String(hits.total);
    const expanded = [...new Set([...dag.view.expanded, ...hits.around])];
    await dag.load({ expanded: expanded.slice(0, MOST_UNFOLDED) });
    if (hits.total) this.next(1);
  }

  clear() {
    this.hits = new Set();
    this.list = [];
    this.leaves = [];
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
    const { dag, list } = this;
    if (!list.length) return;
    this.at = (this.at + by + list.length) % list.length;
    const node = list[this.at];
    this.count.textContent = `${this.at + 1} of ${list.length}`;
    const box = dag.byId.get(`n${node}`);
    if (box) dag.reveal(box);
    else dag.load({ focus: node });
  }

  /**
   * How many of the hits are in a box.
   * @param {Box} box
   */
  hitsIn(box) {
    if (!this.hits.size) return 0;
    return countBelow(this.leaves, box.first + box.count) - countBelow(this.leaves, box.first);
  }
}
