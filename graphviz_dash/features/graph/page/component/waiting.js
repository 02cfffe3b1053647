// Progress of the server while it prepares a large graph, with a button to cancel.

import { find, makeButton, makeElement } from "../../../../ui/components/common/elements.js";
import { fetchJson } from "../../../../ui/components/common/server.js";

/** @import { Dag } from "./dag.js" */
/** @import { JobStatus } from "../../../../ui/components/common/wire.js" */

const POLL_MS = 250;

export class ProgressPanel {
  /** @param {Dag} dag */
  constructor(dag) {
    this.dag = dag;
    this.panel = find(dag.root, ".waiting", HTMLElement);
    this.label = makeElement("p");
    this.progress = makeElement("progress");
    this.timer = 0;
    /** Ticket of the pending view; 0 if none. */
    this.ticket = 0;
    this.tickets = 0;
    const cancel = makeButton("Cancel", "Cancel preparing the graph", () => this.cancel());
    this.panel.replaceChildren(this.label, this.progress, cancel);
  }

  /**
   * Start polling.
   * @returns {number} ticket to stop it with
   */
  start() {
    clearInterval(this.timer);
    const ticket = this.ticket = ++this.tickets;
    this.timer = window.setInterval(() => this.poll(ticket), POLL_MS);
    return ticket;
  }

  /** @param {number} ticket */
  async poll(ticket) {
    /** @type {JobStatus | null} */
    const job = await fetchJson(`/api/dag/progress?${new URLSearchParams(this.dag.state.query)}`)
      .catch(() => null);
    if (this.ticket !== ticket || !job || job.state !== "running") return;
    this.label.textContent = `Preparing the graph: ${job.task.toLowerCase()}`;
    Object.assign(this.progress, { max: 1, value: job.progress });
    this.panel.hidden = false;
  }

  /** @param {number} [ticket] default: the current one */
  stop(ticket = this.ticket) {
    if (ticket !== this.ticket) return;
    clearInterval(this.timer);
    this.ticket = 0;
    this.panel.hidden = true;
  }

  cancel() {
    const { dag } = this;
    fetch(`/api/dag/cancel?${new URLSearchParams(dag.state.query)}`, { method: "POST" });
    dag.loader.viewRequest?.abort();
    this.stop();
    const retry = makeButton("Try again", "Prepare the graph again", () => {
      dag.chrome.hideProblem();
      dag.loader.load(dag.loader.lastRequest);
    });
    dag.chrome.showProblem("Preparation of the graph was cancelled. ", retry);
  }
}
