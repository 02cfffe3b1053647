// Requests for views of the timeline.

import { keepRecent } from "../common/numbers.js";
import { fetchSized, getMessage } from "../common/server.js";
import { GUTTER } from "./layout.js";
import { decodeView } from "./model.js";

/** @import { Timeline } from "./timeline.js" */
/** @import { TimelineView } from "./wire.js" */

const DEBOUNCE_MS = 60;
const MAX_WAIT_MS = 180;
const LOADING_MS = 300;

export class Loader {
  fetches = 0;
  /** @type {number[]} lengths of the last views */
  sizes = [];
  /** Since when a view is to be fetched; 0: none is. */
  pendingSince = 0;
  timer = 0;
  loadingTimer = 0;
  request = new AbortController();

  /** @param {Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
  }

  dispose() {
    clearTimeout(this.timer);
    clearTimeout(this.loadingTimer);
    this.request.abort();
  }

  /** Loads once interaction pauses, and at least every MAX_WAIT_MS while it goes on. */
  refine() {
    const now = performance.now();
    this.pendingSince = this.pendingSince || now;
    clearTimeout(this.timer);
    const left = Math.max(0, this.pendingSince + MAX_WAIT_MS - now);
    this.timer = window.setTimeout(() => this.load(), Math.min(DEBOUNCE_MS, left));
  }

  async load() {
    const { canvas, chrome, state, viewport } = this.timeline;
    this.pendingSince = 0;
    clearTimeout(this.timer);
    this.request.abort();
    const { signal } = this.request = new AbortController();
    const plot = viewport.width ? viewport.plot : canvas.clientWidth - GUTTER;
    const query = state.buildViewQuery(plot, viewport.placed ? viewport.destination : null);
    const begun = performance.now();
    clearTimeout(this.loadingTimer);
    // A large trace is laid out when it is first asked for; nothing is said of what is quick.
    if (!state.view) {
      this.loadingTimer = window.setTimeout(() => (chrome.loading.hidden = false), LOADING_MS);
    }
    try {
      const { body, length } = await fetchSized(`/api/timeline/view?${query}`, { signal });
      if (signal.aborted) return;
      const view = decodeView(/** @type {TimelineView} */ (body));
      clearTimeout(this.loadingTimer);
      this.fetches++;
      keepRecent(this.sizes, length);
      this.timeline.showView(view, length, performance.now() - begun);
    } catch (error) {
      if (signal.aborted) return;
      chrome.showProblem(`The timeline could not be loaded: ${getMessage(error)}`);
    }
  }
}
