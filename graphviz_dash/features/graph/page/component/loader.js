// Requests for views of the graph and for its times, which may arrive later.

import { fetchJson, getMessage, isAbort } from "../../../../ui/components/common/server.js";
import { REST_MS } from "./renderer.js";
import { decodeView } from "./view.js";

/** @import { Dag } from "./dag.js" */
/** @import { ViewRequest } from "./state.js" */
/** @import { DagView } from "./wire.js" */

/** Change of the aspect ratio that needs another layout. */
const RESHAPE_FACTOR = 1.2;

export class Loader {
  /** @type {AbortController | null} request for a view */
  viewRequest = null;
  /** @type {AbortController | null} request that waits for the times */
  timesRequest = null;
  /** Whether the server knows the times. */
  hasTimes = false;
  /** @type {ViewRequest} */
  lastRequest = {};
  /** Aspect ratio that the view is laid out for. */
  layoutRatio = 0;
  /** Whether the reader chose the unfolded groups. */
  isUnfoldedByReader = false;
  resizeTimer = 0;

  /** @param {Dag} dag */
  constructor(dag) {
    this.dag = dag;
  }

  /** Reset for another graph. */
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
   * Fetch a view and show it.
   * @param {ViewRequest} options
   */
  async load(options) {
    const { dag } = this;
    const { viewport } = dag;
    this.viewRequest?.abort();
    const request = this.viewRequest = new AbortController();
    const query = dag.state.buildLoadQuery(viewport, options);
    // A large graph is shown before its times are known.
    if (!this.hasTimes) query.set("soon", "yes");
    this.lastRequest = options;
    this.layoutRatio = viewport.aspectRatio;
    if (options.fresh || options.expanded || options.shown) {
      this.isUnfoldedByReader = !options.fresh;
    }
    const start = performance.now();
    const ticket = dag.progressPanel.start();
    try {
      /** @type {DagView} */
      const sent = await fetchJson(`/api/dag/view?${query}`, { signal: request.signal });
      dag.showView(decodeView(sent), options);
      dag.canvas.dataset.loadMs = (performance.now() - start).toFixed(1);
      dag.canvas.dataset.fold = query.get("fold") ?? "";
      this.hasTimes = sent.complete;
      if (options.fresh && dag.finder.text) dag.finder.search();
      if (sent.complete) dag.reportLoaded();
      else this.awaitTimes();
    } catch (error) {
      if (isAbort(error)) return;
      dag.chrome.showProblem(`Could not show the graph: ${getMessage(error)}`);
    } finally {
      if (this.viewRequest === request) this.viewRequest = null;
      dag.progressPanel.stop(ticket);
    }
  }

  /** Load the same view again when the server knows the times. */
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
      dag.chrome.status.textContent = `Could not load the times: ${getMessage(error)}`;
      return;
    } finally {
      if (this.timesRequest === waiting) this.timesRequest = null;
    }
    if (source !== dag.state.source) return;
    this.hasTimes = true;
    // A view in flight loads again if it arrives without the times.
    if (!this.viewRequest) await this.load({});
    dag.reportLoaded();
  }

  /** Load a layout for the new size of the canvas once it stops changing. */
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
