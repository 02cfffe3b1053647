// The ruler: the span between two times. It stays until it is removed.

import { makeButton, makeElement } from "../../../../ui/components/common/elements.js";
import { formatTime } from "../../../../ui/components/common/numbers.js";
import { fetchJson, getMessage } from "../../../../ui/components/common/server.js";
import { Echoes } from "./echoes.js";
import { findNearestEdge } from "./hover.js";
import { GUTTER } from "./layout.js";
import { shiftSpan } from "./span.js";

/** @import { Span } from "./span.js" */
/** @import { Timeline } from "./timeline.js" */
/** @import { SpanSummary } from "./wire.js" */

const SNAP_PX = 6;
const GRAB_PX = 5;
const SAVE_MS = 400;
const ZOOM_MARGIN = 0.04;

export class Ruler {
  /** @type {number | null} first end of a ruler set by keys */
  mark = null;
  /** @type {[label: string, text: string][]} measurements of its span */
  lines = [];
  /** @type {string | null | undefined} the ruler according to Python */
  pythonText = undefined;
  echoes = new Echoes();
  saveTimer = 0;

  /**
   * @param {Timeline} timeline
   * @param {HTMLElement} box
   */
  constructor(timeline, box) {
    this.timeline = timeline;
    this.box = box;
  }

  /**
   * Apply the ruler from Python if it has changed.
   * @param {string | null} text
   */
  sync(text) {
    if (text === this.pythonText) return;
    this.pythonText = text;
    if (this.echoes.has(text) || text === this.text) return;
    this.timeline.state.ruler = parseSpan(text);
    this.lines = [];
    this.refresh();
  }

  get text() {
    return this.timeline.state.ruler?.join(",") ?? null;
  }

  /**
   * Get the time at a point, or the edge of a slice of that lane if one is close.
   * @param {number} x
   * @param {number} y
   */
  snap(x, y) {
    const { timeline } = this;
    const { state, viewport } = timeline;
    const at = viewport.toTime(Math.max(GUTTER, x));
    const hover = state.findHover(viewport, x, y);
    if (!hover || hover.kind === "difference") return at;
    return findNearestEdge(hover.lane, at, SNAP_PX * viewport.perPixel);
  }

  /**
   * Find the end under x.
   * @param {number} x
   * @returns {number} 0, 1, or -1 for none
   */
  findEnd(x) {
    const { state, viewport } = this.timeline;
    if (!state.ruler || x < GUTTER) return -1;
    const distances = state.ruler.map((at) => Math.abs(viewport.toX(at) - x));
    const end = distances[0] < distances[1] ? 0 : 1;
    return distances[end] <= GRAB_PX ? end : -1;
  }

  /**
   * Place the ruler between two times while the reader still moves it.
   * @param {number} a
   * @param {number} b
   */
  place(a, b) {
    const { canvas, renderer, state } = this.timeline;
    state.ruler = [Math.round(Math.min(a, b)), Math.round(Math.max(a, b))];
    this.lines = [];
    canvas.dataset.ruler = this.text ?? "";
    this.render();
    renderer.paint();
  }

  /** Report the ruler to Python, which keeps it in the address. */
  save() {
    const { timeline } = this;
    const { ruler: span } = timeline.state;
    this.echoes.add(this.text, this.pythonText);
    timeline.setStateValue("ruler", { span, at: Date.now() });
    timeline.chrome.announce(span ? `Ruler of ${formatTime(span[1] - span[0])}` : "Ruler removed");
    this.refresh();
  }

  refresh() {
    const { timeline } = this;
    timeline.canvas.dataset.ruler = this.text ?? "";
    this.render();
    if (timeline.state.view) timeline.renderer.paint();
    this.measure();
  }

  remove() {
    const { state } = this.timeline;
    if (!state.ruler) return;
    state.ruler = this.mark = null;
    this.save();
  }

  zoomTo() {
    const { ruler } = this.timeline.state;
    if (!ruler || ruler[1] <= ruler[0]) return;
    const [begin] = shiftSpan(ruler, -ZOOM_MARGIN);
    const [, end] = shiftSpan(ruler, ZOOM_MARGIN);
    this.timeline.glideTo([begin, end]);
  }

  /**
   * Move the end of the ruler.
   * @param {number} by pixels
   */
  nudge(by) {
    const { state, viewport } = this.timeline;
    if (!state.ruler) return;
    const [begin, end] = state.ruler;
    const pixel = Math.max(1, Math.round(viewport.perPixel));
    this.place(begin, Math.max(begin, end + by * pixel));
    clearTimeout(this.saveTimer);
    this.saveTimer = window.setTimeout(() => this.save(), SAVE_MS);
  }

  /** Set one end by key at the selected slice or the pointer, the other end with the next call. */
  markHere() {
    const { state, viewport } = this.timeline;
    const here = viewport.cursor ?? (viewport.window[0] + viewport.window[1]) / 2;
    const [begin, end] = state.selectedSpan ?? [here, here];
    if (this.mark === null) {
      this.mark = begin;
      this.place(begin, end);
    } else {
      this.place(Math.min(this.mark, begin), Math.max(this.mark, end));
      this.mark = null;
    }
    this.save();
  }

  /** Request the measurements of its span. */
  async measure() {
    const { text } = this;
    const { query: runs, ruler: span } = this.timeline.state;
    if (!span) return;
    const query = new URLSearchParams(runs);
    query.set("t0", String(span[0]));
    query.set("t1", String(span[1]));
    let lines;
    try {
      /** @type {SpanSummary} */
      const measured = await fetchJson(`/api/timeline/measure?${query}`);
      ({ lines } = measured);
    } catch (error) {
      lines = [/** @type {[string, string]} */ (["", getMessage(error)])];
    }
    if (text !== this.text) return;
    this.lines = lines;
    this.render();
  }

  render() {
    const { box } = this;
    const { ruler: span } = this.timeline.state;
    box.hidden = !span;
    if (!span) return;
    const list = makeElement("dl");
    for (const [label, text] of this.lines) {
      list.append(makeElement("dt", "", label), makeElement("dd", "", text));
    }
    const length = makeElement("div", "length", [
      makeElement("b", "", formatTime(span[1] - span[0])),
      makeElement("span", "", `from ${formatTime(span[0])} to ${formatTime(span[1])}`),
    ]);
    const [oldLength, oldList] = box.children;
    if (oldLength && oldList) {
      // The buttons stay: a button replaced while it is pressed loses its click.
      oldLength.replaceWith(length);
      oldList.replaceWith(list);
      return;
    }
    box.append(
      length,
      list,
      makeElement("div", "actions", [
        makeButton("Zoom to range", "Zoom to the ruler (Z)", () => this.zoomTo()),
        makeButton("Remove", "Remove the ruler (Del)", () => this.remove()),
      ]),
    );
  }
}

/**
 * Parse "begin,end"; null for anything else.
 * @param {string | null} text
 * @returns {Span | null}
 */
export function parseSpan(text) {
  const [begin, end, ...rest] = text ? text.split(",").map(Number) : [];
  return !rest.length && Number.isFinite(begin) && Number.isFinite(end) ? [begin, end] : null;
}
