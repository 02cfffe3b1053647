// The visible part of the timeline: a window of time, scrolled lanes and the size of the canvas. No
// drawing.

import { CanvasSize } from "../../../../ui/components/common/canvas.js";
import { GUTTER } from "./layout.js";
import { boundSpan, MIN_SPAN, revealSlice, shiftSpan, zoomSpan } from "./span.js";

/** @import { Span } from "./span.js" */

const MARGIN_SHARE = 1.2;
const MIN_MARGIN_NS = 300;

export class TimeViewport extends CanvasSize {
  /** @type {Span} the visible time, in ns */
  window = [0, 1];
  /** @type {Span | null} the window at the end of a glide */
  target = null;
  /** Whether the window is set; otherwise the next view sets it. */
  placed = false;
  /** Scroll offset of the lanes, in pixels. */
  scroll = 0;
  /** @type {{x: number, y: number} | null} the pointer on the canvas */
  pointer = null;

  /** Width of the lanes. */
  get plot() {
    return Math.max(1, this.width - GUTTER);
  }

  /** Nanoseconds per pixel. */
  get perPixel() {
    return (this.window[1] - this.window[0]) / this.plot;
  }

  /** The time under the pointer; null if the pointer is not over the lanes. */
  get cursor() {
    return this.pointer && this.pointer.x >= GUTTER ? this.toTime(this.pointer.x) : null;
  }

  /** The window now, or at the end of the glide. */
  get destination() {
    return this.target ?? this.window;
  }

  /** @param {number} time */
  toX(time) {
    return GUTTER + (time - this.window[0]) / this.perPixel;
  }

  /** @param {number} x */
  toTime(x) {
    return this.window[0] + (x - GUTTER) * this.perPixel;
  }

  /**
   * Scroll the lanes within their total height.
   * @param {number} by pixels
   * @param {number} total height of the lanes, in pixels
   */
  scrollBy(by, total) {
    this.scroll = Math.min(Math.max(0, this.scroll + by), Math.max(0, total - this.height));
  }

  /**
   * Set the window of a first view.
   * @param {Span} span
   */
  placeWindow(span) {
    if (!this.placed) this.window = span;
    this.placed = true;
  }

  /**
   * Move the window, within the limits of the runs.
   * @param {Span} span
   * @param {Span} limits
   */
  setWindow(span, limits) {
    this.window = boundSpan(span, limits);
  }

  /**
   * Compute the window shifted by a share of itself.
   * @param {number} share
   * @returns {Span}
   */
  computePan(share) {
    return shiftSpan(this.destination, share);
  }

  /**
   * Compute the window zoomed at the pointer, or at the middle if the pointer is not over the lanes.
   * @param {number} factor
   * @returns {Span}
   */
  computeZoom(factor) {
    const [begin, end] = this.destination;
    return zoomSpan([begin, end], this.cursor ?? (begin + end) / 2, factor);
  }

  /**
   * Compute the window zoomed at a point of the canvas; null if it is as short as possible.
   * @param {number} x
   * @param {number} factor
   * @returns {Span | null}
   */
  computeZoomAt(x, factor) {
    if (factor > 1 && this.window[1] - this.window[0] <= MIN_SPAN) return null;
    return zoomSpan(this.window, this.toTime(Math.max(GUTTER, x)), factor);
  }

  /**
   * Add a margin to a span.
   * @param {Span} span
   * @returns {Span}
   */
  addMargin([begin, end]) {
    const margin = Math.max((end - begin) * MARGIN_SHARE, MIN_MARGIN_NS);
    return [begin - margin, end + margin];
  }

  /**
   * Compute the window that shows a slice; null if it is already visible.
   * @param {{begin: number, dur: number}} slice
   */
  computeReveal(slice) {
    return revealSlice(this.destination, slice, this.plot);
  }
}
