// What the server is at while a first view takes long, and a button to give it up.

import { button, element, find } from "../common/elements.js";
import { ask } from "../common/server.js";

/** @import { Dag } from "./dag.js" */
/** @import { Standing } from "../common/wire.js" */

const LOOK_MS = 250;

export class Waiting {
  /** @param {Dag} dag */
  constructor(dag) {
    this.dag = dag;
    this.panel = find(dag.root, ".waiting", HTMLElement);
    this.words = element("p");
    this.progress = element("progress");
    this.timer = 0;
    /** Of the load that is waited for; 0 for none. */
    this.ticket = 0;
    this.tickets = 0;
    const cancel = button("Cancel", "Give up preparing the graph", () => this.giveUp());
    this.panel.replaceChildren(this.words, this.progress, cancel);
  }

  /** Begins to look, and returns a ticket to end it with. */
  begin() {
    clearInterval(this.timer);
    const ticket = this.ticket = ++this.tickets;
    this.timer = window.setInterval(() => this.look(ticket), LOOK_MS);
    return ticket;
  }

  /** @param {number} ticket */
  async look(ticket) {
    /** @type {Standing | null} */
    const job = await ask(`/api/dag/progress?${new URLSearchParams(this.dag.state.query)}`)
      .catch(() => null);
    if (this.ticket !== ticket || !job || job.state !== "running") return;
    this.words.textContent = `Preparing the graph: ${job.what.toLowerCase()}`;
    Object.assign(this.progress, { max: 1, value: job.share });
    this.panel.hidden = false;
  }

  /** @param {number} [ticket] of what has ended; whatever is waited for without */
  end(ticket = this.ticket) {
    if (ticket !== this.ticket) return;
    clearInterval(this.timer);
    this.ticket = 0;
    this.panel.hidden = true;
  }

  giveUp() {
    const { dag } = this;
    fetch(`/api/dag/cancel?${new URLSearchParams(dag.state.query)}`, { method: "POST" });
    dag.loader.loading?.abort();
    this.end();
    const again = button("Try again", "Prepare the graph", () => {
      dag.chrome.hideProblem();
      dag.loader.load(dag.loader.last);
    });
    dag.chrome.showProblem("Preparing the graph was cancelled. ", again);
  }
}
