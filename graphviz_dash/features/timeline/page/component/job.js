// Progress of the slow parts of a view: nodes of slices, and differences.

import { makeButton, makeElement } from "../../../../ui/components/common/elements.js";
import { fetchJson, getMessage } from "../../../../ui/components/common/server.js";

/** @import { JobStatus } from "../../../../ui/components/common/wire.js" */
/** @import { Timeline } from "./timeline.js" */

const FIRST_POLL_MS = 50;
const POLL_MS = 200;

export class Job {
  /** @type {JobStatus | null} */
  status = null;

  /**
   * @param {Timeline} timeline
   * @param {HTMLElement} box
   */
  constructor(timeline, box) {
    this.timeline = timeline;
    this.box = box;
  }

  /** Reset for other runs. */
  reset() {
    this.status = null;
    this.render();
  }

  start() {
    if (!this.status) this.poll(false);
  }

  /**
   * Let the server compute the missing parts of the view, and show the progress.
   * @param {boolean} again retry a cancelled or failed job
   */
  async poll(again) {
    const { timeline } = this;
    const { state } = timeline;
    const { source } = state;
    const query = this.buildQuery();
    if (again) query.set("again", "1");
    this.status = { state: "running", task: "", progress: 0, problem: null };
    for (let first = true;; first = false) {
      const status = await this.post("more", query);
      query.delete("again");
      if (source !== state.source) return;
      this.status = status;
      this.render();
      if (status.state === "done") timeline.reload();
      if (status.state !== "running") return;
      await new Promise((resolve) => setTimeout(resolve, first ? FIRST_POLL_MS : POLL_MS));
    }
  }

  buildQuery() {
    const query = new URLSearchParams(this.timeline.state.query);
    query.delete("step");
    return query;
  }

  /**
   * @param {"more" | "cancel"} route
   * @param {URLSearchParams} query
   * @returns {Promise<JobStatus>}
   */
  async post(route, query) {
    try {
      return await fetchJson(`/api/timeline/${route}?${query}`, { method: "POST" });
    } catch (error) {
      return { state: "failed", task: "", progress: 0, problem: getMessage(error) };
    }
  }

  render() {
    const { status, box } = this;
    const visible = status && status.state !== "done" && (status.task || status.problem);
    box.hidden = !visible;
    if (!status || !visible) box.replaceChildren();
    else if (status.state === "running") this.renderProgress(status);
    else {
      const reason = status.state === "cancelled" ? "cancelled" : status.problem;
      box.replaceChildren(
        makeElement("span", "", `Nodes and differences: ${reason}`),
        makeButton("Try again", "Compute nodes and differences", () => this.poll(true)),
      );
    }
  }

  /** @param {JobStatus} standing */
  renderProgress({ task, progress }) {
    // The elements stay while the job runs: a button replaced under the pointer loses its click.
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
    bar.value = progress;
    bar.setAttribute("aria-label", task);
    const label = this.box.querySelector("span");
    if (label) label.textContent = task;
  }
}
