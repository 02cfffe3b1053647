// Requests for views of the timeline.

import { keepRecent } from "../../../../ui/components/common/numbers.js";
import { fetchSized, getMessage } from "../../../../ui/components/common/server.js";
import { GUTTER } from "./layout.js";
import { decodeView } from "./model.js";

/** @import { Timeline } from "./timeline.js" */
/** @import { TimelineView } from "./wire.js" */

const DEBOUNCE_MS = 60;
const MAX_WAIT_MS = 180;
const LOADING_MS = 300;

export class Loader {
  fetches = 0;
  /** @type {number[]} sizes of the last views, in characters */
  sizes = [];
  /** When the pending load was first requested; 0 if none is pending. */
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

  /** Load after a pause of the interaction, and at least every MAX_WAIT_MS during it. */
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
    const start = performance.now();
    clearTimeout(this.loadingTimer);
    // The first view of a large trace takes long. A message appears only after a while.
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
      this.timeline.showView(view, length, performance.now() - start);
    } catch (error) {
      if (signal.aborted) return;
      chrome.showProblem(`Could not load the timeline: ${getMessage(error)}`);
    }
  }
}
