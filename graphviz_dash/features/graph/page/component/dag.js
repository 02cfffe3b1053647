// The DAG component: a folded graph whose groups unfold in place. The server lays out each view.

import { find, prefersReducedMotion } from "../../../../ui/components/common/elements.js";
import { mount } from "../../../../ui/components/common/mount.js";
import { WheelGate } from "../../../../ui/components/wheel.js";
import { Chrome } from "./chrome.js";
import { EdgeCard } from "./edge_card.js";
import { Finder } from "./finder.js";
import { contains } from "./geometry.js";
import { BY_DATA, BY_MODULE, listen } from "./input.js";
import { Loader } from "./loader.js";
import { Renderer } from "./renderer.js";
import { RepeatBar } from "./repeat_bar.js";
import { DagState, isNode } from "./state.js";
import { Toolbar } from "./toolbar.js";
import { Viewport } from "./viewport.js";
import { ProgressPanel } from "./waiting.js";

/** @import { Component } from "../../../../ui/components/common/mount.js" */
/** @import { ViewRequest } from "./state.js" */
/** @import { View } from "./view.js" */
/** @import { Box, DagData } from "./wire.js" */

const BY_ORDER = "order";

/** Announcement of each way to fold, for screen readers. */
const FOLD_MESSAGES = /** @type {Record<string, string>} */ ({
  [BY_MODULE]: "folded by module path",
  [BY_DATA]: "only data dependencies shown",
  [BY_ORDER]: "folded by execution order",
});

export class Dag {
  /** @type {(name: string, value: unknown) => void} sends a value to Python */
  setStateValue = () => {};
  state = new DagState();
  viewport = new Viewport();
  /** @type {number | null} the selected node according to Python */
  pythonSelected = null;
  /** Whether the graph is prepared. */
  ready = true;
  /** @type {string | null} the graph reported to Python as loaded */
  reportedSource = null;

  /** @param {HTMLElement | ShadowRoot} root */
  constructor(root) {
    this.root = root;
    this.host = find(root, ".dag", HTMLElement);
    this.canvas = find(root, "canvas", HTMLCanvasElement);
    this.chrome = new Chrome(root, this.canvas);
    this.wheel = new WheelGate(this.canvas, find(root, ".wheel", HTMLElement), "graph");
    this.renderer = new Renderer(this.canvas, this.host, this.state, this.viewport);
    Object.assign(this.canvas, { __dag: this });
    this.loader = new Loader(this);
    this.finder = new Finder(this);
    this.repeatBar = new RepeatBar(this);
    this.edgeCard = new EdgeCard(this);
    this.progressPanel = new ProgressPanel(this);
    this.toolbar = new Toolbar(this);
    this.stop = new AbortController();
    listen(this, this.stop.signal);
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(this.canvas);
  }

  /**
   * Apply data from Python. Another graph resets the view; other colours keep unfolded groups.
   * @param {Component<DagData>} component
   */
  update(component) {
    const { data, setStateValue } = component;
    const { state } = this;
    this.setStateValue = setStateValue;
    this.renderer.setPalette(data.palette);
    this.host.style.setProperty("--dag-critical", this.renderer.theme.critical);
    this.resize();
    const recoloured = data.colour !== state.colour;
    const refolded = data.fold !== state.fold;
    state.colour = data.colour;
    this.ready = data.ready;
    this.setFold(data.fold);
    const { selected } = data;
    if (state.setGraph(data)) {
      this.start(selected);
    } else if (refolded) {
      state.selected = selected;
      this.loader.load({ fresh: true, fit: true, focus: selected });
    } else if (selected !== this.pythonSelected && selected !== state.selected) {
      state.selected = selected;
      if (selected === null) this.renderer.draw();
      else this.loader.load({ focus: selected });
    } else if (recoloured) this.loader.load({});
    this.pythonSelected = selected;
    this.finder.sync(data.find || "");
    this.redraw();
  }

  /** @param {number | null} selected */
  start(selected) {
    this.loader.reset();
    this.state.selected = selected;
    performance.mark("dag:mount");
    this.loader.load({ fresh: true, fit: true, focus: selected });
  }

  /** @param {string} fold */
  setFold(fold) {
    this.state.fold = fold;
    this.toolbar.showFold(fold);
  }

  dispose() {
    this.stop.abort();
    this.resizes.disconnect();
    clearTimeout(this.finder.timer);
    this.renderer.dispose();
    this.progressPanel.stop();
    this.loader.dispose();
  }

  // -- Views -------------------------------------------------------------------------------------

  /** Report to Python that the graph is loaded, so that the page shows what depends on it. */
  reportLoaded() {
    const { source } = this.state;
    if (this.ready || this.reportedSource === source) return;
    this.reportedSource = source;
    this.setStateValue("loaded", source);
  }

  /**
   * Show a view that was requested.
   * @param {View} view
   * @param {ViewRequest} request
   */
  showView(view, { keep, focus, fit }) {
    const { state, viewport, renderer } = this;
    const old = state.byId;
    state.setView(view);
    this.chrome.hideProblem();
    renderer.dropView();
    this.edgeCard.close();
    const before = keep && old.get(keep);
    const after = keep && state.byId.get(keep);
    if (before && after) {
      // The clicked box stays under the pointer; everything else moves around it.
      viewport.holdBox(before, after);
      if (!prefersReducedMotion()) renderer.startTween(old, before, after);
    }
    if (fit) viewport.showReadable(view);
    const box = isNode(focus) ? state.getNodeBox(focus) : undefined;
    if (box) this.reveal(box);
    this.redraw();
    this.repeatBar.update();
    performance.mark("dag:shown");
  }

  /** Update the legend, the status and the canvas. */
  redraw() {
    this.chrome.showView(this.state.view, this.renderer.theme);
    this.renderer.recolour();
  }

  // -- Camera -----------------------------------------------------------------------------------

  resize() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const dpr = window.devicePixelRatio || 1;
    if (!width || !height || this.viewport.hasSize(width, height, dpr)) return;
    const showsAll = this.viewport.resize({ width, height, dpr }, this.state.view);
    this.renderer.resize();
    if (showsAll) this.loader.requestLayout();
    this.renderer.paint();
  }

  fit() {
    if (!this.state.view || !this.viewport.width) return;
    this.viewport.fit(this.state.view);
    this.renderer.draw();
  }

  /** Show the graph and the card next to it on the full screen, or leave it. */
  async toggleFullScreen() {
    this.clearHover();
    if (document.fullscreenElement) return document.exitFullscreen();
    const { host } = /** @type {ShadowRoot} */ (this.host.getRootNode());
    const row = host?.closest('[data-testid="stHorizontalBlock"]');
    await (row ?? this.host).requestFullscreen();
    this.canvas.focus({ preventScroll: true });
  }

  /**
   * @param {number} factor
   * @param {number} [x] fixed point of the screen; default: its middle
   * @param {number} [y]
   */
  zoomBy(factor, x, y) {
    if (!this.state.view) return;
    this.viewport.zoomBy(this.state.view, factor, x, y);
    this.drawMotion();
  }

  /**
   * @param {number} dx
   * @param {number} dy
   */
  pan(dx, dy) {
    this.viewport.panBy(dx, dy);
    this.drawMotion();
  }

  /**
   * Move the place at a point of the overview map to the middle.
   * @param {number} x of the screen
   * @param {number} y
   */
  panToMapPoint(x, y) {
    if (this.state.view && this.viewport.centerMapPoint(this.state.view, x, y)) {
      this.renderer.draw();
    }
  }

  /** Draw after a step of zooming or panning. */
  drawMotion() {
    this.clearHover();
    this.renderer.drawMotion();
  }

  /**
   * Make a box visible and readable, and focus it.
   * @param {Box} box
   */
  reveal(box) {
    this.viewport.reveal(box);
    this.state.focus = box.id;
    this.renderer.draw();
  }

  /**
   * Get the clickable point of a box in the window, by box id or node index. Null if hidden.
   * @param {string | number} which
   */
  getPosition(which) {
    const { state } = this;
    const box = typeof which === "number" ? state.getNodeBox(which) : state.byId.get(which);
    if (!box) return null;
    const bounds = this.canvas.getBoundingClientRect();
    const { x, y } = this.viewport.getHandle(box);
    return { x: bounds.left + x, y: bounds.top + y };
  }

  // -- Actions ------------------------------------------------------------------------------------

  /**
   * Find the box at a point of the screen, or the link if no box is there.
   * @param {number} x
   * @param {number} y
   */
  findAt(x, y) {
    return this.state.findAt(this.viewport.toGraphPoint(x, y), this.viewport.zoom);
  }

  /**
   * React to a click at a point of the canvas.
   * @param {number} x
   * @param {number} y
   */
  clickAt(x, y) {
    const [graphX, graphY] = this.viewport.toGraphPoint(x, y);
    const arrow = this.renderer.arrows.find((rect) => contains(rect, graphX, graphY));
    if (arrow) return this.stepBlock(arrow.box, arrow.by);
    const { box, link } = this.findAt(x, y);
    if (link) return this.edgeCard.open(link);
    this.activate(box);
  }

  /**
   * Show another block of an unfolded repeat.
   * @param {Box} box
   * @param {number} to its number, modulo the number of blocks; -1: all
   */
  showBlock(box, to) {
    if (!this.state.view) return;
    const count = box.repeats;
    const block = to < 0 ? -1 : to % count;
    this.state.focus = box.id;
    this.chrome.announce(
      block < 0 ? `all ${count} blocks shown` : `block ${block + 1} of ${count} shown`,
    );
    this.loader.load(this.state.requestBlock(box, block));
  }

  /**
   * @param {Box} box
   * @param {number} by
   */
  stepBlock(box, by) {
    this.showBlock(box, Math.max(0, box.block) + by);
  }

  /**
   * Select a node, or fold or unfold a group. Null clears the selection.
   * @param {Box | null} box
   */
  activate(box) {
    if (!box || !this.state.view) return this.clearSelection();
    this.state.focus = box.id;
    this.edgeCard.close();
    this.repeatBar.update();
    if (box.node >= 0) return this.select(box.node);
    this.chrome.announce(`${box.label} ${box.open ? "folded" : "unfolded"}`);
    this.loader.load(this.state.requestToggle(box));
  }

  /**
   * Switch folding by module path or by data on, or back to execution order. The selected node
   * stays visible.
   * @param {string} by
   */
  foldBy(by) {
    const { state } = this;
    this.setFold(state.fold === by ? BY_ORDER : by);
    state.focus = null;
    this.chrome.announce(FOLD_MESSAGES[state.fold] ?? "");
    this.loader.load({ fresh: true, fit: true, focus: state.selected });
    this.setStateValue("fold", state.fold);
  }

  /**
   * Select a node and make it visible, even inside a folded group.
   * @param {number} node
   */
  goToNode(node) {
    this.edgeCard.close();
    const box = this.state.getNodeBox(node);
    if (box) this.reveal(box);
    else this.loader.load({ focus: node });
    this.select(node);
  }

  /** @param {number} node */
  select(node) {
    this.state.selected = node;
    this.pythonSelected = node;
    this.setStateValue("selected", { node });
    const box = this.state.getNodeBox(node);
    if (box) this.chrome.announce(`${box.where}, ${box.label}, ${box.note}, ${box.time}`);
    this.renderer.draw();
  }

  clearSelection() {
    const { state } = this;
    state.focus = null;
    this.edgeCard.close();
    if (state.selected !== null) {
      state.selected = null;
      this.pythonSelected = null;
      this.setStateValue("selected", { node: null });
    }
    this.renderer.draw();
  }

  /**
   * Move the focus along an edge.
   * @param {"source" | "target"} end
   */
  walk(end) {
    this.moveFocus(this.state.findNeighbour(end));
  }

  /**
   * Move the focus to the next box in the row.
   * @param {number} by
   */
  moveToSide(by) {
    this.moveFocus(this.state.findBoxToSide(by));
  }

  /** @param {Box | undefined} box */
  moveFocus(box) {
    if (!box) return;
    this.reveal(box);
    this.chrome.announce(`${box.label}, ${box.note}, ${box.time}`);
  }

  // -- Pointer ----------------------------------------------------------------------------------

  /**
   * @param {number} x of the screen
   * @param {number} y
   */
  hoverAt(x, y) {
    const { box, link } = this.findAt(x, y);
    this.canvas.style.cursor = box || link ? "pointer" : "";
    if (this.state.setHover(box, link)) this.renderer.draw();
    const lines = this.state.describeHover();
    if (!lines.length) return this.clearHover();
    this.chrome.showTooltip(lines, { x, y }, this.viewport);
  }

  clearHover() {
    this.chrome.hideTooltip();
    if (this.state.setHover(null, null)) this.renderer.draw();
  }
}

export default mount(Dag, ".dag");
