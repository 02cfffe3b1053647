// The timeline component: runs one above the other on one axis, from views that the server bins.

import {
  find,
  makeButton,
  prefersReducedMotion,
} from "../../../../ui/components/common/elements.js";
import { mount } from "../../../../ui/components/common/mount.js";
import { WheelGate } from "../../../../ui/components/wheel.js";
import { Chrome } from "./chrome.js";
import { listen } from "./input.js";
import { Job } from "./job.js";
import { layOut } from "./layout.js";
import { Loader } from "./loader.js";
import { describeHover, renderPanel } from "./panel.js";
import { Renderer } from "./renderer.js";
import { Ruler } from "./ruler.js";
import { Finder } from "./finder.js";
import { Selection } from "./selection.js";
import { boundSpan, interpolateSpan } from "./span.js";
import { TimelineState } from "./state.js";
import { TimeViewport } from "./viewport.js";

/** @import { Component } from "../../../../ui/components/common/mount.js" */
/** @import { View } from "./model.js" */
/** @import { Span } from "./span.js" */
/** @import { TimelineData } from "./wire.js" */

const GLIDE_MS = 140;
const RELOAD_PX = 8;
/** Space below the timeline in the window. */
const BELOW_PX = 24;

export class Timeline {
  /** @type {(name: string, value: unknown) => void} sends a value to Python */
  setStateValue = () => {};
  state = new TimelineState();
  viewport = new TimeViewport();
  /** Height from Python. */
  minHeight = 0;
  /** Height: that of the window below the top, at least `minHeight`, more if the lanes need it. */
  stageHeight = 0;

  /** @param {HTMLElement | ShadowRoot} root */
  constructor(root) {
    this.root = root;
    this.host = find(root, ".timeline", HTMLElement);
    this.canvas = find(root, "canvas", HTMLCanvasElement);
    this.chrome = new Chrome(root);
    this.wheel = new WheelGate(this.canvas, find(root, ".wheel", HTMLElement), "timeline");
    this.renderer = new Renderer(this.canvas, this.host, this.state, this.viewport);
    this.loader = new Loader(this);
    this.selection = new Selection(this);
    this.finder = new Finder(this);
    this.ruler = new Ruler(this, find(root, ".ruler", HTMLElement));
    this.job = new Job(this, find(root, ".job", HTMLElement));
    Object.assign(this.canvas, { __timeline: this });
    find(root, ".buttons", HTMLElement).replaceChildren(
      makeButton("−", "Zoom out (S)", () => this.zoom(1 / 1.6)),
      makeButton("+", "Zoom in (W)", () => this.zoom(1.6)),
      makeButton("Fit", "Fit the step (F)", () => this.fit()),
      makeButton("?", "Keys (?)", () => this.chrome.toggleKeys()),
    );
    this.stop = new AbortController();
    listen(this, this.stop.signal);
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(this.canvas);
  }

  /**
   * Apply data from Python. Another experiment, run or step resets the view.
   * @param {Component<TimelineData>} component
   */
  update(component) {
    const { data, setStateValue } = component;
    const { state } = this;
    this.setStateValue = setStateValue;
    this.renderer.setPalette(data.palette);
    this.chrome.legendKey = "";
    const above = this.host.getBoundingClientRect().top + getScrolled(this.host);
    this.minHeight = Math.max(data.height, Math.round(window.innerHeight - above) - BELOW_PX);
    this.stageHeight = Math.max(this.stageHeight, this.minHeight);
    const { experiment } = state;
    if (state.setRuns(data)) this.start(experiment);
    this.ruler.sync(data.ruler);
    this.selection.sync(data.selected);
    this.resize();
    renderPanel(this);
    this.setHeight();
    this.renderer.draw();
  }

  /** @param {string} before the previous experiment */
  start(before) {
    this.viewport.placed = this.viewport.placed && this.state.experiment === before;
    this.job.reset();
    this.stageHeight = this.minHeight;
    this.setHeight();
    performance.mark("timeline:mount");
    this.loader.load();
    this.ruler.measure();
  }

  dispose() {
    this.stop.abort();
    this.resizes.disconnect();
    this.selection.dispose();
    this.state.source = "";
    this.loader.dispose();
  }

  /** Load everything again when the server knows more. */
  reload() {
    this.loader.load();
    this.selection.reload();
    this.ruler.measure();
  }

  /**
   * Show a view that was requested.
   * @param {View} view
   * @param {number} bytes
   * @param {number} elapsed ms
   */
  showView(view, bytes, elapsed) {
    const { chrome, loader, renderer, state } = this;
    state.view = view;
    this.viewport.placeWindow(view.window);
    chrome.hideProblem();
    chrome.loading.hidden = true;
    this.relayout();
    this.updateHover();
    const marks = this.canvas.dataset;
    marks.level = view.level;
    marks.bytes = String(bytes);
    marks.complete = view.complete ? "yes" : "no";
    marks.refineMs = elapsed.toFixed(1);
    const summaries = view.runs.map(({ run, summary, problem }) => `${run}: ${summary || problem}`);
    this.canvas.setAttribute("aria-label", `Timeline of ${summaries.join("; ")}`);
    renderer.draw();
    chrome.showLegend(renderer, view);
    marks.fetches = String(loader.fetches);
    performance.mark(loader.fetches === 1 ? "timeline:painted" : "timeline:refined");
    if (state.pendingReveal) this.selection.reveal(state.pendingReveal);
    if (!view.complete) this.job.start();
  }

  // -- Size -------------------------------------------------------------------------------------

  resize() {
    const { state, viewport } = this;
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const dpr = window.devicePixelRatio || 1;
    if (!width || !height || viewport.hasSize(width, height, dpr)) return;
    const widthChanged = Math.abs(width - viewport.width) > RELOAD_PX;
    Object.assign(viewport, { width, height, dpr });
    this.renderer.resize();
    this.relayout();
    if (state.view && widthChanged) this.loader.refine();
    this.renderer.paint();
  }

  relayout() {
    const { state, viewport } = this;
    if (!state.view || !viewport.height) return;
    state.layout = layOut(state.view, viewport.height);
    this.grow(state.layout.total - viewport.height);
    this.scrollBy(0);
  }

  /**
   * Grow for lanes that do not fit, by up to half the height. Beyond that the lanes scroll.
   * @param {number} missing pixels
   */
  grow(missing) {
    const height = Math.min(
      Math.ceil(this.stageHeight + missing),
      Math.round(1.5 * this.minHeight),
    );
    if (missing <= 0 || height <= this.stageHeight) return;
    this.stageHeight = height;
    this.setHeight();
  }

  /** Apply the height of the lanes. */
  setHeight() {
    this.host.style.height = `${this.stageHeight}px`;
  }

  /**
   * Scroll the lanes.
   * @param {number} by pixels
   */
  scrollBy(by) {
    this.viewport.scrollBy(by, this.state.layout?.total ?? 0);
    this.renderer.paint();
  }

  // -- Moving -----------------------------------------------------------------------------------

  /**
   * Show another window immediately.
   * @param {Span} span
   */
  setWindow(span) {
    if (!this.state.view) return;
    this.viewport.setWindow(span, this.state.view.limits);
    this.updateHover();
    this.renderer.paint();
    this.loader.refine();
  }

  /**
   * Show another window immediately, and stop a glide.
   * @param {Span} span
   */
  jumpTo(span) {
    this.viewport.target = null;
    this.setWindow(span);
  }

  /**
   * Glide to a window. Its view is requested immediately.
   * @param {Span} span
   */
  glideTo(span) {
    const { state, viewport } = this;
    if (!state.view) return;
    if (prefersReducedMotion()) return this.setWindow(span);
    const to = boundSpan(span, state.view.limits);
    const from = viewport.window;
    viewport.target = to;
    this.updateHover();
    this.loader.load();
    const start = performance.now();
    /** @type {(now: number) => void} */
    const tick = (now) => {
      if (viewport.target !== to) return;
      const share = Math.min(1, Math.max(0, now - start) / GLIDE_MS);
      viewport.window = interpolateSpan(from, to, 1 - (1 - share) ** 3);
      if (share === 1) {
        viewport.target = null;
        this.updateHover();
      }
      this.renderer.draw();
      if (share < 1) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  /** @param {number} share of the window */
  pan(share) {
    this.glideTo(this.viewport.computePan(share));
  }

  /**
   * Zoom at the pointer, or in the middle if the pointer is not over the lanes.
   * @param {number} factor
   */
  zoom(factor) {
    this.glideTo(this.viewport.computeZoom(factor));
  }

  /**
   * @param {number} x
   * @param {number} factor
   */
  zoomAt(x, factor) {
    this.viewport.target = null;
    const span = this.viewport.computeZoomAt(x, factor);
    if (span) this.setWindow(span);
  }

  fit() {
    if (this.state.view) this.glideTo(this.state.view.fit);
  }

  /** @param {Span} span */
  zoomTo(span) {
    this.glideTo(this.viewport.addMargin(span));
  }

  zoomToCard() {
    const { card } = this.state;
    if (card) this.zoomTo([card.begin, card.begin + card.dur]);
  }

  // -- Pointing ---------------------------------------------------------------------------------

  /** Update the target of the pointer and its tooltip. */
  updateHover() {
    const { chrome, state, viewport } = this;
    const { pointer, target } = viewport;
    state.hover = pointer && !target ? state.findHover(viewport, pointer.x, pointer.y) : null;
    const lines = state.hover && state.view && describeHover(state.view, state.hover);
    if (lines && pointer) chrome.showTooltip(lines, pointer, viewport);
    else chrome.hideTooltip();
  }

  clearHover() {
    this.state.hover = null;
    this.chrome.hideTooltip();
  }
}

/**
 * Get by how much the page is scrolled.
 * @param {HTMLElement} host
 */
function getScrolled(host) {
  const root = host.getRootNode();
  const outer = root instanceof ShadowRoot ? root.host : host;
  return outer.closest('[data-testid="stMain"]')?.scrollTop ?? 0;
}

export default mount(Timeline, ".timeline");
