// State of the timeline: runs and steps, the loaded view and its layout, the selection and the ruler.
// No drawing and no requests.

import { countUpTo } from "../../../../ui/components/common/numbers.js";
import { findHover } from "./hover.js";
import { findSlice, getToken, parseSelection } from "./model.js";

/** @import { Hover } from "./hover.js" */
/** @import { Layout } from "./layout.js" */
/** @import { Slice, View } from "./model.js" */
/** @import { Span } from "./span.js" */
/** @import { TimeViewport } from "./viewport.js" */
/** @import { SliceCard, TimelineData } from "./wire.js" */

export class TimelineState {
  /** Identity of the runs and steps. */
  source = "";
  experiment = "";
  query = new URLSearchParams();
  /** @type {string[]} */
  names = [];
  /** @type {Record<string, number | null>} by name of the run */
  steps = {};
  /** @type {View | null} */
  view = null;
  /** @type {Layout | null} */
  layout = null;
  /** @type {Hover | null} */
  hover = null;
  /** @type {string | null} run and token of the selected slice, or of a graph node */
  selected = null;
  /** @type {SliceCard | null} */
  card = null;
  cardProblem = "";
  /** @type {SliceCard | null} the slice to reveal with the first view */
  pendingReveal = null;
  /** @type {Span | null} */
  ruler = null;

  /**
   * Set the runs and steps to show.
   * @param {TimelineData} data
   * @returns {boolean} whether they are others
   */
  setRuns({ experiment, runs, steps }) {
    const source = JSON.stringify([experiment, runs, steps]);
    if (source === this.source) return false;
    this.source = source;
    this.experiment = experiment;
    this.query = new URLSearchParams({ experiment });
    for (const run of runs) this.query.append("run", run);
    for (const step of steps) this.query.append("step", formatStep(step));
    this.names = runs;
    this.steps = Object.fromEntries(runs.map((run, i) => [run, steps[i]]));
    this.card = null;
    return true;
  }

  /**
   * Whether the lanes are taller than the canvas.
   * @param {number} height
   */
  overflows(height) {
    return this.layout !== null && this.layout.total > height;
  }

  /**
   * Build the parameters of a view.
   * @param {number} plot width of the lanes, in pixels
   * @param {Span | null} span null: the chosen steps
   */
  buildViewQuery(plot, span) {
    const query = new URLSearchParams(this.query);
    query.set("px", String(Math.round(Math.max(50, plot))));
    if (span) {
      query.set("t0", String(Math.round(span[0])));
      query.set("t1", String(Math.round(span[1])));
    }
    return query;
  }

  /**
   * Build the parameters of the card of a slice.
   * @param {string} run
   * @param {string} token
   */
  buildCardQuery(run, token) {
    const query = new URLSearchParams({ experiment: this.experiment, run, slice: token });
    const step = formatStep(this.steps[run]);
    if (step) query.set("step", step);
    for (const shown of this.names) {
      query.append("shown", shown);
      query.append("shown_step", formatStep(this.steps[shown]));
    }
    return query;
  }

  /**
   * Find the slice, gap, bin or difference under a point of the canvas.
   * @param {TimeViewport} viewport
   * @param {number} x
   * @param {number} y
   */
  findHover(viewport, x, y) {
    const { layout, view } = this;
    if (!layout || !view || y < layout.axis) return null;
    const point = { x, y: y + viewport.scroll };
    return findHover(layout, view.loaded, point, viewport.toTime(x), viewport.perPixel);
  }

  /**
   * The selected slice, if it is loaded; its card is not needed.
   * @returns {Slice | null}
   */
  get selectedSlice() {
    // Only the card knows the slice of a node.
    const ofNode = this.selected?.includes("#");
    const name = parseSelection(ofNode ? this.cardName : this.selected);
    const run = name && this.view?.runs.find((candidate) => candidate.run === name.run);
    return run ? findSlice(run, name.token) : null;
  }

  /** Run and token of the card. */
  get cardName() {
    return this.card && `${this.card.run}/${this.card.token}`;
  }

  /**
   * Begin and end of the selected slice, from its card even before the slice is loaded.
   * @returns {Span | null}
   */
  get selectedSpan() {
    const { card } = this;
    if (card && this.selected === this.cardName) return [card.begin, card.begin + card.dur];
    const slice = this.selectedSlice;
    return slice && [slice.lane.start[slice.i], slice.lane.end[slice.i]];
  }

  /**
   * Find the slice `by` places after another one on its lane; null beyond the ends.
   * @param {Slice} slice
   * @param {number} by
   * @returns {Slice | null}
   */
  findSliceAfter({ run, lane, i }, by) {
    return i + by >= 0 && i + by < lane.count ? { run, lane, i: i + by } : null;
  }

  /**
   * Find the first visible slice of the GPU.
   * @param {Span} window
   * @returns {Slice | null}
   */
  findFirstSlice(window) {
    for (const { run, lanes } of this.layout?.blocks ?? []) {
      for (const { lane } of lanes) {
        if (lane.kind !== "gpu" || !lane.count) continue;
        const i = Math.min(countUpTo(lane.end, window[0]), lane.count - 1);
        if (lane.start[i] <= window[1]) return { run, lane, i };
      }
    }
    return null;
  }

  /**
   * Find the slice at the same time on the next lane with slices.
   * @param {Slice} slice
   * @param {1 | -1} by 1: below, -1: above
   * @returns {Slice | null}
   */
  findSliceOnLane(slice, by) {
    const lanes = (this.layout?.blocks ?? []).flatMap(({ run, lanes: rows }) =>
      rows.filter(({ lane }) => lane.kind !== "range").map(({ lane }) => ({ run, lane }))
    );
    let at = lanes.findIndex(({ lane }) => lane === slice.lane) + by;
    while (lanes[at] && !lanes[at].lane.count) at += by;
    if (!lanes[at]) return null;
    const { run, lane } = lanes[at];
    return { run, lane, i: Math.max(0, countUpTo(lane.start, slice.lane.start[slice.i]) - 1) };
  }

  /**
   * Get the rectangle of a slice on the canvas; null if it is not drawn. Used by tests.
   * @param {TimeViewport} viewport
   * @param {string} run
   * @param {string} token
   */
  getSliceRect(viewport, run, token) {
    const block = this.layout?.blocks.find((candidate) => candidate.run.run === run);
    const slice = block && findSlice(block.run, token);
    const row = slice && block.lanes.find(({ lane }) => lane === slice.lane);
    if (!slice || !row) return null;
    const left = viewport.toX(slice.lane.start[slice.i]);
    const width = viewport.toX(slice.lane.end[slice.i]) - left;
    return { x: left, y: row.y - viewport.scroll, width, height: row.h };
  }

  /** List the loaded slices as run, token, name, start and duration. Used by tests. */
  listSlices() {
    const { view } = this;
    if (!view) return [];
    return view.runs.flatMap(({ run, lanes }) =>
      lanes.flatMap((lane) =>
        Array.from({ length: lane.count }, (_, i) => ({
          run,
          token: getToken(lane, i),
          name: view.names[lane.name[i]][0],
          start: lane.start[i],
          dur: lane.end[i] - lane.start[i],
        }))
      )
    );
  }
}

/**
 * Format a step as parameter: empty for the typical one.
 * @param {number | null | undefined} step
 */
function formatStep(step) {
  return step === null || step === undefined ? "" : String(step);
}
