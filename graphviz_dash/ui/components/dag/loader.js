// Requests for views of the graph, and for its times, which may come later.

import { ask, isAbort, messageOf } from "../common/server.js";
import { REST_MS } from "./renderer.js";
import { decodeView } from "./view.js";

/** @import { Dag } from "./dag.js" */
/** @import { Load } from "./state.js" */
/** @import { DagView } from "./wire.js" */

/** How much wider or narrower a canvas becomes, for its height, before another layout suits it. */
const RESHAPED = 1.2;

export class Loader {
  /** @type {AbortController | null} of the view that is fetched */
  loading = null;
  /** @type {AbortController | null} of the wait for times */
  completing = null;
  /** Whether the times are known. */
  complete = false;
  /** @type {Load} */
  last = {};
  /** Width over height of the canvas that the view is laid out for. */
  ratio = 0;
  /** Whether the reader unfolded or folded what is shown. */
  byHand = false;
  sizing = 0;

  /** @param {Dag} dag */
  constructor(dag) {
    this.dag = dag;
  }

  /** Starts afresh, for another graph. */
  reset() {
    this.complete = false;
    this.completing?.abort();
    this.completing = null;
  }

  dispose() {
    clearTimeout(this.sizing);
    this.loading?.abort();
    this.completing?.abort();
  }

  /**
   * Fetches a view and shows it.
   * @param {Load} wanted
   */
  async load(wanted) {
    const { dag } = this;
    const { viewport } = dag;
    this.loading?.abort();
    const request = this.loading = new AbortController();
    const query = dag.state.loadQuery(viewport, wanted);
    // A large graph is drawn before its times are known.
    if (!this.complete) query.set("soon", "yes");
    this.last = wanted;
    this.ratio = viewport.shape;
    if (wanted.fresh || wanted.expanded || wanted.shown) this.byHand = !wanted.fresh;
    const begin = performance.now();
    const ticket = dag.waiting.begin();
    try {
      /** @type {DagView} */
      const sent = await ask(`/api/dag/view?${query}`, { signal: request.signal });
      dag.show(decodeView(sent), wanted);
      dag.canvas.dataset.loadMs = (performance.now() - begin).toFixed(1);
      dag.canvas.dataset.fold = query.get("fold") ?? "";
      this.complete = sent.complete;
      if (wanted.fresh && dag.finder.text) dag.finder.search();
      if (sent.complete) dag.announce();
      else this.awaitTimes();
    } catch (error) {
      if (isAbort(error)) return;
      dag.chrome.showProblem(`The graph cannot be shown: ${messageOf(error)}`);
    } finally {
      if (this.loading === request) this.loading = null;
      dag.waiting.end(ticket);
    }
  }

  /** Once the server knows the times too, the same view again with them. */
  async awaitTimes() {
    if (this.completing) return;
    const { dag } = this;
    const waiting = this.completing = new AbortController();
    const { source } = dag.state;
    const query = new URLSearchParams(dag.state.query);
    try {
      await ask(`/api/dag/complete?${query}`, { signal: waiting.signal });
    } catch (error) {
      if (isAbort(error)) return;
      dag.chrome.status.textContent = `The times cannot be shown: ${messageOf(error)}`;
      return;
    } finally {
      if (this.completing === waiting) this.completing = null;
    }
    if (source !== dag.state.source) return;
    this.complete = true;
    // What is being fetched asks again when it is there without them.
    if (!this.loading) await this.load({});
    dag.announce();
  }

  /** Asks for a layout for the canvas as it is now, once its size rests. */
  layOutAnew() {
    clearTimeout(this.sizing);
    this.sizing = window.setTimeout(() => {
      const { state, viewport } = this.dag;
      const change = viewport.shape / this.ratio;
      if (!state.view || Math.max(change, 1 / change) < RESHAPED) return;
      this.load({ fresh: !this.byHand, fit: true, focus: state.selected });
    }, REST_MS);
  }
}
