// The DAG: a folded graph whose groups unfold in place, from views that the server lays out.

import { find, isCalm } from "../common/elements.js";
import { mount } from "../common/mount.js";
import { WheelGate } from "../wheel.js";
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
import { Waiting } from "./waiting.js";

/** @import { Component } from "../common/mount.js" */
/** @import { Load } from "./state.js" */
/** @import { View } from "./view.js" */
/** @import { Box, DagData } from "./wire.js" */

const BY_ORDER = "order";

/** What is said of each way to fold. */
const SAID = /** @type {Record<string, string>} */ ({
  [BY_MODULE]: "folded by module path",
  [BY_DATA]: "only the dependencies that the data needs",
  [BY_ORDER]: "folded by order of execution",
});

export class Dag {
  /** @type {(name: string, value: unknown) => void} tells Python */
  setStateValue = () => {};
  state = new DagState();
  viewport = new Viewport();
  /** @type {number | null} the selected node as Python knows it */
  asked = null;
  ready = true;
  /** @type {string | null} the graph that Python was told to be there whole */
  announced = null;

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
    this.repeat = new RepeatBar(this);
    this.edges = new EdgeCard(this);
    this.waiting = new Waiting(this);
    this.toolbar = new Toolbar(this);
    this.stop = new AbortController();
    listen(this, this.stop.signal);
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(this.canvas);
  }

  /**
   * Takes what Python says; another graph starts afresh, another colour keeps what is open.
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
    } else if (selected !== this.asked && selected !== state.selected) {
      state.selected = selected;
      if (selected === null) this.renderer.draw();
      else this.loader.load({ focus: selected });
    } else if (recoloured) this.loader.load({});
    this.asked = selected;
    this.finder.follow(data.find || "");
    this.paintTheme();
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
    this.waiting.end();
    this.loader.dispose();
  }

  // -- Data -------------------------------------------------------------------------------------

  /** The page left what takes long to the drawing: now all of it is there. */
  announce() {
    const { source } = this.state;
    if (this.ready || this.announced === source) return;
    this.announced = source;
    this.setStateValue("loaded", source);
  }

  /**
   * @param {View} view
   * @param {Load} wanted
   */
  show(view, { keep, focus, fit }) {
    const { state, viewport, renderer } = this;
    const old = state.byId;
    state.setView(view);
    this.chrome.hideProblem();
    renderer.forget();
    this.edges.close();
    const before = keep && old.get(keep);
    const after = keep && state.byId.get(keep);
    if (before && after) {
      // What was clicked stays under the pointer; everything else moves around it.
      viewport.follow(before, after);
      if (!isCalm()) renderer.startTween(old, before, after);
    }
    if (fit) viewport.open(view);
    const wanted = isNode(focus) ? state.boxOf(focus) : undefined;
    if (wanted) this.reveal(wanted);
    this.paintTheme();
    this.repeat.follow();
    performance.mark("dag:shown");
  }

  paintTheme() {
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
    if (showsAll) this.loader.layOutAnew();
    this.renderer.paint();
  }

  fit() {
    if (!this.state.view || !this.viewport.width) return;
    this.viewport.fit(this.state.view);
    this.renderer.draw();
  }

  /** Gives the drawing and the card beside it the whole screen, or takes it back. */
  async fill() {
    this.hide();
    if (document.fullscreenElement) return document.exitFullscreen();
    const { host } = /** @type {ShadowRoot} */ (this.host.getRootNode());
    const row = host?.closest('[data-testid="stHorizontalBlock"]');
    await (row ?? this.host).requestFullscreen();
    this.canvas.focus({ preventScroll: true });
  }

  /**
   * @param {number} factor
   * @param {number} [x] of the screen, which stays where it is
   * @param {number} [y]
   */
  zoomBy(factor, x, y) {
    if (!this.state.view) return;
    this.viewport.zoomBy(this.state.view, factor, x, y);
    this.move();
  }

  /**
   * @param {number} dx
   * @param {number} dy
   */
  pan(dx, dy) {
    this.viewport.panBy(dx, dy);
    this.move();
  }

  /**
   * Brings what lies at a point of the small map to the middle.
   * @param {number} x of the screen
   * @param {number} y
   */
  lookAtMap(x, y) {
    if (this.state.view && this.viewport.centerMapPoint(this.state.view, x, y)) {
      this.renderer.draw();
    }
  }

  /** Draws after a step of zooming or panning. */
  move() {
    this.hide();
    this.renderer.move();
  }

  /**
   * Brings a box into view, readable, moving no more than is needed.
   * @param {Box} box
   */
  reveal(box) {
    this.viewport.reveal(box);
    this.state.focus = box.id;
    this.renderer.draw();
  }

  /**
   * Centre of a box in the window, by its id or a node's index; null when it is not shown.
   * @param {string | number} which
   */
  positionOf(which) {
    const { state } = this;
    const box = typeof which === "number" ? state.boxOf(which) : state.byId.get(which);
    if (!box) return null;
    const bounds = this.canvas.getBoundingClientRect();
    const { x, y } = this.viewport.handleOf(box);
    return { x: bounds.left + x, y: bounds.top + y };
  }

  // -- Doing ------------------------------------------------------------------------------------

  /**
   * What is at a point of the screen: a box, or where none is (or only the ground of an unfolded
   * group's head) a link.
   * @param {number} x
   * @param {number} y
   */
  under(x, y) {
    return this.state.under(this.viewport.graphPoint(x, y), this.viewport.zoom);
  }

  /**
   * What a click at a point of the canvas does.
   * @param {number} x
   * @param {number} y
   */
  clickAt(x, y) {
    const [graphX, graphY] = this.viewport.graphPoint(x, y);
    const arrow = this.renderer.arrows.find((rect) => contains(rect, graphX, graphY));
    if (arrow) return this.stepBlock(arrow.box, arrow.by);
    const { box, link } = this.under(x, y);
    if (link) return this.edges.open(link);
    this.act(box);
  }

  /**
   * Shows another block of an unfolded repeat.
   * @param {Box} box
   * @param {number} to its number, counted on from either end; -1: all
   */
  showBlock(box, to) {
    if (!this.state.view) return;
    const count = box.repeats;
    const block = to < 0 ? -1 : to % count;
    this.state.focus = box.id;
    this.chrome.announce(block < 0 ? `all ${count} shown` : `${block + 1} of ${count} shown`);
    this.loader.load(this.state.blockLoad(box, block));
  }

  /**
   * @param {Box} box
   * @param {number} by
   */
  stepBlock(box, by) {
    this.showBlock(box, Math.max(0, box.block) + by);
  }

  /**
   * Selects a node, folds or unfolds a group, or clears the selection where there is neither.
   * @param {Box | null} box
   */
  act(box) {
    if (!box || !this.state.view) return this.clear();
    this.state.focus = box.id;
    this.edges.close();
    this.repeat.follow();
    if (box.node >= 0) return this.select(box.node);
    this.chrome.announce(`${box.label} ${box.open ? "folded" : "unfolded"}`);
    this.loader.load(this.state.toggleLoad(box));
  }

  /**
   * Folds by module path or by data, or again by the order of execution; what is selected stays in
   * view.
   * @param {string} by
   */
  foldBy(by) {
    const { state } = this;
    this.setFold(state.fold === by ? BY_ORDER : by);
    state.focus = null;
    this.chrome.announce(SAID[state.fold] ?? "");
    this.loader.load({ fresh: true, fit: true, focus: state.selected });
    this.setStateValue("fold", state.fold);
  }

  /**
   * Selects a node wherever it is, and brings it into view.
   * @param {number} node
   */
  choose(node) {
    this.edges.close();
    const box = this.state.boxOf(node);
    if (box) this.reveal(box);
    else this.loader.load({ focus: node });
    this.select(node);
  }

  /** @param {number} node */
  select(node) {
    this.state.selected = node;
    this.asked = node;
    this.setStateValue("selected", { node });
    const box = this.state.boxOf(node);
    if (box) this.chrome.announce(`${box.where}, ${box.label}, ${box.note}, ${box.time}`);
    this.renderer.draw();
  }

  clear() {
    const { state } = this;
    state.focus = null;
    this.edges.close();
    if (state.selected !== null) {
      state.selected = null;
      this.asked = null;
      this.setStateValue("selected", { node: null });
    }
    this.renderer.draw();
  }

  /**
   * Moves the focus along an edge, to what comes after or before.
   * @param {"source" | "target"} end
   */
  walk(end) {
    this.moveTo(this.state.neighbour(end));
  }

  /**
   * Moves the focus to the next box to the side.
   * @param {number} by
   */
  beside(by) {
    this.moveTo(this.state.boxToSide(by));
  }

  /** @param {Box | undefined} box */
  moveTo(box) {
    if (!box) return;
    this.reveal(box);
    this.chrome.announce(`${box.label}, ${box.note}, ${box.time}`);
  }

  // -- Showing ----------------------------------------------------------------------------------

  /**
   * @param {number} x of the screen
   * @param {number} y
   */
  hoverAt(x, y) {
    const { box, link } = this.under(x, y);
    this.canvas.style.cursor = box || link ? "pointer" : "";
    if (this.state.point(box, link)) this.renderer.draw();
    const lines = this.state.hoverLines();
    if (!lines.length) return this.hide();
    this.chrome.showTooltip(lines, { x, y }, this.viewport);
  }

  hide() {
    this.chrome.hideTooltip();
    if (this.state.point(null, null)) this.renderer.draw();
  }
}

export default mount(Dag, ".dag");
