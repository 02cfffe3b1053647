// What the server is at while a first view takes long, and a button to give it up.

import { find, makeButton, makeElement } from "../common/elements.js";
import { fetchJson } from "../common/server.js";

/** @import { Dag } from "./dag.js" */
/** @import { Standing } from "../common/wire.js" */

const POLL_MS = 250;

export class ProgressPanel {
  /** @param {Dag} dag */
  constructor(dag) {
    this.dag = dag;
    this.panel = find(dag.root, ".waiting", HTMLElement);
    this.label = makeElement("p");
    this.progress = makeElement("progress");
    this.timer = 0;
    /** Of the load that is waited for; 0 for none. */
    this.ticket = 0;
    this.tickets = 0;
    const cancel = makeButton("Cancel", "Give up preparing the graph", () => this.cancel());
    this.panel.replaceChildren(this.label, this.progress, cancel);
  }

  /** Begins to look, and returns a ticket to end it with. */
  start() {
    clearInterval(this.timer);
    const ticket = this.ticket = ++this.tickets;
    this.timer = window.setInterval(() => this.poll(ticket), POLL_MS);
    return ticket;
  }

  /** @param {number} ticket */
  async poll(ticket) {
    /** @type {Standing | null} */
    const job = await fetchJson(`/api/dag/progress?${new URLSearchParams(this.dag.state.query)}`)
      .catch(() => null);
    if (this.ticket !== ticket || !job || job.state !== "running") return;
    this.label.textContent = `Preparing the graph: ${job.what.toLowerCase()}`;
    Object.assign(this.progress, { max: 1, value: job.share });
    this.panel.hidden = false;
  }

  /** @param {number} [ticket] of what has ended; whatever is waited for without */
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
    const again = makeButton("Try again", "Prepare the graph", () => {
      dag.chrome.hideProblem();
      dag.loader.load(dag.loader.lastRequest);
    });
    dag.chrome.showProblem("Preparing the graph was cancelled. ", again);
  }
}
