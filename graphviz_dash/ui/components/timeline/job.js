// What takes the server longer than a view, nodes of slices and differences: its progress.

import { makeButton, makeElement } from "../common/elements.js";
import { fetchJson, getMessage } from "../common/server.js";

/** @import { Standing } from "../common/wire.js" */
/** @import { Timeline } from "./timeline.js" */

const FIRST_POLL_MS = 50;
const POLL_MS = 200;

export class Job {
  /** @type {Standing | null} */
  status = null;

  /**
   * @param {Timeline} timeline
   * @param {HTMLElement} box
   */
  constructor(timeline, box) {
    this.timeline = timeline;
    this.box = box;
  }

  /** Forgets what was begun for other runs. */
  reset() {
    this.status = null;
    this.render();
  }

  start() {
    if (!this.status) this.poll(false);
  }

  /**
   * Has the server compute what the view still lacks, and shows how far that is.
   * @param {boolean} again also what was cancelled or failed
   */
  async poll(again) {
    const { timeline } = this;
    const { state } = timeline;
    const { source } = state;
    const query = this.buildQuery();
    if (again) query.set("again", "1");
    this.status = { state: "running", what: "", share: 0, problem: null };
    for (let first = true;; first = false) {
      const standing = await this.post("more", query);
      query.delete("again");
      if (source !== state.source) return;
      this.status = standing;
      this.render();
      if (standing.state === "done") timeline.reload();
      if (standing.state !== "running") return;
      await new Promise((resolve) => setTimeout(resolve, first ? FIRST_POLL_MS : POLL_MS));
    }
  }

  buildQuery() {
    const query = new URLSearchParams(this.timeline.state.query);
    query.delete("step");
    return query;
  }

  /**
   * @param {"more" | "cancel"} what
   * @param {URLSearchParams} query
   * @returns {Promise<Standing>}
   */
  async post(what, query) {
    try {
      return await fetchJson(`/api/timeline/${what}?${query}`, { method: "POST" });
    } catch (error) {
      return { state: "failed", what: "", share: 0, problem: getMessage(error) };
    }
  }

  render() {
    const { status: standing, box } = this;
    const news = standing && standing.state !== "done" && (standing.what || standing.problem);
    box.hidden = !news;
    if (!standing || !news) box.replaceChildren();
    else if (standing.state === "running") this.renderProgress(standing);
    else {
      const why = standing.state === "cancelled" ? "cancelled" : standing.problem;
      box.replaceChildren(
        makeElement("span", "", `Nodes and differences: ${why}`),
        makeButton("Try again", "Compute nodes and differences", () => this.poll(true)),
      );
    }
  }

  /** @param {Standing} standing */
  renderProgress({ what, share }) {
    // Kept while it runs, so that the button is not taken from under the pointer.
    let bar = this.box.querySelector("progress");
    if (!bar) {
      bar = makeElement("progress");
      bar.max = 1;
      const cancel = makeButton("Cancel", "Cancel computing nodes and differences", () => {
        cancel.disabled = true;
        this.post("cancel", this.buildQuery());
      });
      this.box.replaceChildren(makeElement("span"), bar, cancel);
    }
    bar.value = share;
    bar.setAttribute("aria-label", what);
    const words = this.box.querySelector("span");
    if (words) words.textContent = what;
  }
}
