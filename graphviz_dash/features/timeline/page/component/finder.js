// The search for slices: its field, and navigation between its hits.

import { find } from "../../../../ui/components/common/elements.js";
import { fetchJson } from "../../../../ui/components/common/server.js";
import { parseSelection } from "./model.js";

/** @import { Timeline } from "./timeline.js" */
/** @import { SliceHits } from "./wire.js" */

export class Finder {
  /** @type {string[]} */
  hits = [];
  count = 0;
  at = -1;
  text = "";

  /** @param {Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.field = find(timeline.root, ".search", HTMLInputElement);
    this.output = find(timeline.root, ".hits", HTMLOutputElement);
    this.field.value = "";
    this.field.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") {
        this.field.value = "";
        this.clear();
        this.timeline.canvas.focus();
      }
    };
    this.field.oninput = () => this.clear();
  }

  clear() {
    this.hits = [];
    this.at = -1;
    this.text = "";
    this.output.textContent = "";
  }

  /**
   * Select the next hit; searches first if the text is new.
   * @param {number} step
   */
  async next(step) {
    const text = this.field.value.trim();
    if (!text) return this.clear();
    if (text !== this.text && !(await this.search(text))) return;
    if (!this.hits.length) return;
    this.at = (this.at + step + this.hits.length) % this.hits.length;
    this.output.textContent = `${this.at + 1} of ${this.count.toLocaleString("en-US")}`;
    const hit = parseSelection(this.hits[this.at]);
    if (hit) this.timeline.selection.select(hit.run, hit.token, true);
  }

  /**
   * Ask the server for the slices whose name contains `text`.
   * @param {string} text
   */
  async search(text) {
    const query = new URLSearchParams(this.timeline.state.query);
    query.set("q", text);
    /** @type {SliceHits | null} */
    const found = await fetchJson(`/api/timeline/find?${query}`).catch(() => null);
    if (!found || this.field.value.trim() !== text) return false;
    Object.assign(this, { hits: found.hits, count: found.count, at: -1, text });
    if (!found.hits.length) this.output.textContent = "Nothing found";
    return true;
  }
}
