// What takes the server longer than a view, nodes of slices and differences: its progress.

import { button, element } from "../common/elements.js";
import { ask, messageOf } from "../common/server.js";

/** @import { Standing } from "../common/wire.js" */
/** @import { Timeline } from "./timeline.js" */

const FIRST_LOOK_MS = 50;
const LOOK_MS = 200;

export class Job {
  /** @type {Standing | null} */
  standing = null;

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
    this.standing = null;
    this.render();
  }

  begin() {
    if (!this.standing) this.follow(false);
  }

  /**
   * Has the server compute what the view still lacks, and shows how far that is.
   * @param {boolean} again also what was cancelled or failed
   */
  async follow(again) {
    const { timeline } = this;
    const { state } = timeline;
    const { source } = state;
    const query = this.query();
    if (again) query.set("again", "1");
    this.standing = { state: "running", what: "", share: 0, problem: null };
    for (let first = true;; first = false) {
      const standing = await this.ask("more", query);
      query.delete("again");
      if (source !== state.source) return;
      this.standing = standing;
      this.render();
      if (standing.state === "done") timeline.reload();
      if (standing.state !== "running") return;
      await new Promise((resolve) => setTimeout(resolve, first ? FIRST_LOOK_MS : LOOK_MS));
    }
  }

  query() {
    const query = new URLSearchParams(this.timeline.state.query);
    query.delete("step");
    return query;
  }

  /**
   * @param {"more" | "cancel"} what
   * @param {URLSearchParams} query
   * @returns {Promise<Standing>}
   */
  async ask(what, query) {
    try {
      return await ask(`/api/timeline/${what}?${query}`, { method: "POST" });
    } catch (error) {
      return { state: "failed", what: "", share: 0, problem: messageOf(error) };
    }
  }

  render() {
    const { standing, box } = this;
    const news = standing && standing.state !== "done" && (standing.what || standing.problem);
    box.hidden = !news;
    if (!standing || !news) box.replaceChildren();
    else if (standing.state === "running") this.renderProgress(standing);
    else {
      const why = standing.state === "cancelled" ? "cancelled" : standing.problem;
      box.replaceChildren(
        element("span", "", `Nodes and differences: ${why}`),
        button("Try again", "Compute nodes and differences", () => this.follow(true)),
      );
    }
  }

  /** @param {Standing} standing */
  renderProgress({ what, share }) {
    // Kept while it runs, so that the button is not taken from under the pointer.
    let bar = this.box.querySelector("progress");
    if (!bar) {
      bar = element("progress");
      bar.max = 1;
      const cancel = button("Cancel", "Cancel computing nodes and differences", () => {
        cancel.disabled = true;
        this.ask("cancel", this.query());
      });
      this.box.replaceChildren(element("span"), bar, cancel);
    }
    bar.value = share;
    bar.setAttribute("aria-label", what);
    const words = this.box.querySelector("span");
    if (words) words.textContent = what;
  }
}
