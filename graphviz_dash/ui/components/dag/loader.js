// Requests for views of the graph, and for its times, which may come later.

import { fetchJson, getMessage, isAbort } from "../common/server.js";
import { REST_MS } from "./renderer.js";
import { decodeView } from "./view.js";

/** @import { Dag } from "./dag.js" */
/** @import { ViewRequest } from "./state.js" */
/** @import { DagView } from "./wire.js" */

/** How much wider or narrower a canvas becomes, for its height, before another layout suits it. */
const RESHAPE_FACTOR = 1.2;

export class Loader {
  /** @type {AbortController | null} of the view that is fetched */
  viewRequest = null;
  /** @type {AbortController | null} of the wait for times */
  timesRequest = null;
  /** Whether the times are known. */
  hasTimes = false;
  /** @type {ViewRequest} */
  lastRequest = {};
  /** Width over height of the canvas that the view is laid out for. */
  layoutRatio = 0;
  /** Whether the reader unfolded or folded what is shown. */
  isUnfoldedByReader = false;
  resizeTimer = 0;

  /** @param {Dag} dag */
  constructor(dag) {
    this.dag = dag;
  }

  /** Starts afresh, for another graph. */
  reset() {
    this.hasTimes = false;
    this.timesRequest?.abort();
    this.timesRequest = null;
  }

  dispose() {
    clearTimeout(this.resizeTimer);
    this.viewRequest?.abort();
    this.timesRequest?.abort();
  }

  /**
   * Fetches a view and shows it.
   * @param {ViewRequest} wanted
   */
  async load(wanted) {
    const { dag } = this;
    const { viewport } = dag;
    this.viewRequest?.abort();
    const request = this.viewRequest = new AbortController();
    const query = dag.state.buildLoadQuery(viewport, wanted);
    // A large graph is drawn before its times are known.
    if (!this.hasTimes) query.set("soon", "yes");
    this.lastRequest = wanted;
    this.layoutRatio = viewport.aspectRatio;
    if (wanted.fresh || wanted.expanded || wanted.shown) this.isUnfoldedByReader = !wanted.fresh;
    const begin = performance.now();
    const ticket = dag.progressPanel.start();
    try {
      /** @type {DagView} */
      const sent = await fetchJson(`/api/dag/view?${query}`, { signal: request.signal });
      dag.showView(decodeView(sent), wanted);
      dag.canvas.dataset.loadMs = (performance.now() - begin).toFixed(1);
      dag.canvas.dataset.fold = query.get("fold") ?? "";
      this.hasTimes = sent.complete;
      if (wanted.fresh && dag.finder.text) dag.finder.search();
      if (sent.complete) dag.reportLoaded();
      else this.awaitTimes();
    } catch (error) {
      if (isAbort(error)) return;
      dag.chrome.showProblem(`The graph cannot be shown: ${getMessage(error)}`);
    } finally {
      if (this.viewRequest === request) this.viewRequest = null;
      dag.progressPanel.stop(ticket);
    }
  }

  /** Once the server knows the times too, the same view again with them. */
  async awaitTimes() {
    if (this.timesRequest) return;
    const { dag } = this;
    const waiting = this.timesRequest = new AbortController();
    const { source } = dag.state;
    const query = new URLSearchParams(dag.state.query);
    try {
      await fetchJson(`/api/dag/complete?${query}`, { signal: waiting.signal });
    } catch (error) {
      if (isAbort(error)) return;
      dag.chrome.status.textContent = `The times cannot be shown: ${getMessage(error)}`;
      return;
    } finally {
      if (this.timesRequest === waiting) this.timesRequest = null;
    }
    if (source !== dag.state.source) return;
    this.hasTimes = true;
    // What is being fetched asks again when it is there without them.
    if (!this.viewRequest) await this.load({});
    dag.reportLoaded();
  }

  /** Asks for a layout for the canvas as it is now, once its size rests. */
  requestLayout() {
    clearTimeout(this.resizeTimer);
    this.resizeTimer = window.setTimeout(() => {
      const { state, viewport } = this.dag;
      const change = viewport.aspectRatio / this.layoutRatio;
      if (!state.view || Math.max(change, 1 / change) < RESHAPE_FACTOR) return;
      this.load({ fresh: !this.isUnfoldedByReader, fit: true, focus: state.selected });
    }, REST_MS);
  }
}
