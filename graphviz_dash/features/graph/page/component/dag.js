// The DAG: a folded graph whose groups unfold in place, from views that the server lays out.

import {
  button,
  contextOf,
  element,
  find,
  isCalm,
  placeTooltip,
} from "../../../../ui/components/common/elements.js";
import { clamp, counted } from "../../../../ui/components/common/numbers.js";
import { ask, isAbort, messageOf } from "../../../../ui/components/common/server.js";
import { mount } from "../../../../ui/components/common/mount.js";
import { NO_PALETTE, readTheme } from "../../../../ui/components/common/theme.js";
import { WheelGate } from "../../../../ui/components/wheel.js";
import { drawDag, keepFrame } from "./draw.js";
import { EdgeCard } from "./edge_card.js";
import { Finder } from "./finder.js";
import {
  boxAt,
  boxBeside,
  contains,
  fitted,
  HEAD,
  isInView,
  linkAt,
  mapFrame,
  opening,
  READABLE,
  recentred,
  zoomedAt,
} from "./geometry.js";
import { BY_DATA, BY_MODULE, listen } from "./input.js";
import { RepeatBar } from "./repeat_bar.js";
import { saveMenu } from "./save.js";
import { boxLines, decodeView, linkLines, shownText, stateText, toggled } from "./view.js";
import { Waiting } from "./waiting.js";

/** @import { Component } from "../../../../ui/components/common/mount.js" */
/** @import { Palette, Theme } from "../../../../ui/components/common/theme.js" */
/** @import { Camera, Rect } from "./geometry.js" */
/** @import { Paths } from "./paths.js" */
/** @import { View } from "./view.js" */
/** @import { Box, DagData, DagView, Link } from "./wire.js" */

/**
 * What is asked of a view.
 * @typedef {object} Load
 * @property {boolean} [fresh] the server unfolds what fits
 * @property {string[]} [expanded] ids of the groups to unfold; without, those unfolded now
 * @property {Record<string, number>} [shown] the blocks that repeats show; without, those shown now
 * @property {string} [first] a group that unfolds even if others must fold for it
 * @property {string} [keep] the box that stays where it is on the screen
 * @property {number | null} [focus] a node to bring into view
 * @property {boolean} [fit] show all
 */

/** @typedef {{begin: number, ms: number, from: Map<string, Rect>, source: Rect}} Tween */
/** @typedef {{canvas: HTMLCanvasElement, zoom: number, x: number, y: number}} Layer */

const REST_MS = 110;
const TWEEN_MS = 130;
const SLOW_FRAME_MS = 18.5;

/** How much wider or narrower a canvas becomes, for its height, before another layout suits it. */
const RESHAPED = 1.2;
const BY_ORDER = "order";

/** What is said of each way to fold. */
const SAID = /** @type {Record<string, string>} */ ({
  [BY_MODULE]: "folded by module path",
  [BY_DATA]: "only the dependencies that the data needs",
  [BY_ORDER]: "folded by order of execution",
});

/** How close a box is shown that is to be read and was not. */
const READING = 0.8;

export class Dag {
  /** @type {(name: string, value: unknown) => void} tells Python */
  setStateValue = () => {};

  // What is shown, and what of it the reader is at.
  /** @type {View | null} */
  view = null;
  /** @type {Map<string, Box>} */
  byId = new Map();
  /** @type {string | null} id of the box that the keys are at */
  focus = null;
  /** @type {Box | null} */
  hover = null;
  /** @type {Link | null} */
  hoverLink = null;
  /** @type {Link | null} the link whose edges are listed */
  chosenLink = null;
  /** @type {number | null} the selected node */
  selected = null;
  /** @type {number | null} the selected node as Python knows it */
  asked = null;
  /** @type {Set<number>} nodes unlike those of other blocks */
  unlike = new Set();
  /** Which graph it is: another one starts afresh. */
  source = "";
  /** @type {Record<string, string>} */
  graph = {};
  fold = "";
  colour = "";
  ready = true;
  /** Whether the times are known. */
  complete = false;
  /** @type {string | null} the graph that Python was told to be there whole */
  announced = null;
  /** @type {AbortController | null} of the view that is fetched */
  loading = null;
  /** @type {AbortController | null} of the wait for times */
  completing = null;
  /** @type {Load} */
  last = {};

  // How it is drawn, and what is kept from one frame to the next.
  zoom = 1;
  x = 0;
  y = 0;
  /** @type {Camera | null} that showed all: while it is in place, all stays shown */
  home = null;
  width = 0;
  height = 0;
  dpr = 1;
  /** Width over height of the canvas that the view is laid out for. */
  ratio = 0;
  /** Whether the reader unfolded or folded what is shown. */
  byHand = false;
  /** @type {Palette} */
  palette = NO_PALETTE;
  /** @type {Theme} */
  theme;
  /** @type {string[]} of the legend, in the page's theme */
  colours = [];
  /** @type {(Rect & {box: Box, by: number})[]} arrows to other blocks of a repeat */
  arrows = [];
  /** @type {Paths | null} */
  paths = null;
  /** @type {Tween | null} */
  tween = null;
  /** @type {Layer | null} the last frame, to be moved */
  layer = null;
  /** @type {{canvas: HTMLCanvasElement, scale: number} | null} a small picture of all */
  whole = null;
  /** @type {{canvas: HTMLCanvasElement, width: number, height: number} | null} */
  mapPicture = null;
  moving = false;
  slow = false;
  crisp = false;
  frame = 0;
  lastFrame = 0;
  painted = 0;
  rest = 0;
  sizing = 0;

  /** @param {HTMLElement | ShadowRoot} root */
  constructor(root) {
    this.root = root;
    this.host = find(root, ".dag", HTMLElement);
    this.canvas = find(root, "canvas", HTMLCanvasElement);
    this.tooltip = find(root, ".tooltip", HTMLElement);
    this.problem = find(root, ".problem", HTMLElement);
    this.state = find(root, ".state", HTMLElement);
    this.live = find(root, ".live", HTMLElement);
    this.wheel = new WheelGate(this.canvas, find(root, ".wheel", HTMLElement), "graph");
    this.legend = find(root, ".legend", HTMLElement);
    this.ctx = contextOf(this.canvas);
    this.theme = readTheme(this.host, this.palette);
    Object.assign(this.canvas, { __dag: this });
    this.finder = new Finder(this);
    this.repeat = new RepeatBar(this);
    this.edges = new EdgeCard(this);
    this.waiting = new Waiting(this);
    this.byModule = button("By module", "Fold by module path (M)", () => this.foldBy(BY_MODULE));
    this.byData = button(
      "By data",
      "Only the dependencies that the data needs (N)",
      () => this.foldBy(BY_DATA),
    );
    this.addButtons();
    this.stop = new AbortController();
    listen(this, this.stop.signal);
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(this.canvas);
  }

  addButtons() {
    const bar = find(this.root, ".buttons", HTMLElement);
    for (const old of bar.querySelectorAll("button, details")) old.remove();
    bar.append(
      button("−", "Zoom out (-)", () => this.zoomBy(1 / 1.3)),
      button("+", "Zoom in (+)", () => this.zoomBy(1.3)),
      button("Fit", "Fit the graph (F)", () => this.fit()),
      button("Full screen", "Full screen (X)", () => this.fill()),
      button("Fold", "Fold as at the start", () => this.load({ fresh: true, fit: true })),
      this.byModule,
      this.byData,
      saveMenu(this),
    );
  }

  /**
   * Takes what Python says; another graph starts afresh, another colour keeps what is open.
   * @param {Component<DagData>} component
   */
  update(component) {
    const { data, setStateValue } = component;
    this.setStateValue = setStateValue;
    this.palette = data.palette;
    this.theme = readTheme(this.host, this.palette);
    this.host.style.setProperty("--dag-critical", this.theme.critical);
    this.resize();
    const recoloured = data.colour !== this.colour;
    const refolded = data.fold !== this.fold;
    Object.assign(this, { colour: data.colour, ready: data.ready });
    this.setFold(data.fold);
    const { selected } = data;
    if (this.isOther(data)) {
      this.start(data);
    } else if (refolded) {
      this.selected = selected;
      this.load({ fresh: true, fit: true, focus: selected });
    } else if (selected !== this.asked && selected !== this.selected) {
      this.selected = selected;
      if (selected === null) this.draw();
      else this.load({ focus: selected });
    } else if (recoloured) this.load({});
    this.asked = selected;
    this.finder.follow(data.find || "");
    this.paintTheme();
  }

  /** @param {DagData} data */
  isOther({ experiment, run, graph, against }) {
    const source = JSON.stringify([experiment, run, graph, against]);
    const other = source !== this.source;
    this.source = source;
    return other;
  }

  /** @param {DagData} data */
  start({ experiment, run, graph, against, selected }) {
    this.complete = false;
    this.completing?.abort();
    this.completing = null;
    this.graph = { experiment, run, graph, ...against };
    this.selected = selected;
    performance.mark("dag:mount");
    this.load({ fresh: true, fit: true, focus: selected });
  }

  /** @param {string} fold */
  setFold(fold) {
    this.fold = fold;
    this.byModule.setAttribute("aria-pressed", String(fold === BY_MODULE));
    this.byData.setAttribute("aria-pressed", String(fold === BY_DATA));
  }

  dispose() {
    this.stop.abort();
    this.resizes.disconnect();
    clearTimeout(this.finder.timer);
    clearTimeout(this.rest);
    clearTimeout(this.sizing);
    this.waiting.end();
    this.loading?.abort();
    this.completing?.abort();
  }

  // -- Data -------------------------------------------------------------------------------------

  /**
   * The parameters that say which graph, and how it is folded.
   * @returns {Record<string, string>}
   */
  get query() {
    return { ...this.graph, fold: this.fold };
  }

  /** Width over height of the canvas, as a view can be asked for. */
  get shape() {
    return clamp((this.width || 16) / (this.height || 10), 0.1, 20);
  }

  /**
   * The parameters of a view.
   * @param {readonly string[]} [expanded] ids of unfolded groups; without, those that fit
   * @param {Record<string, number>} [shown] the blocks that repeats show
   */
  queryOf(expanded, shown) {
    const query = new URLSearchParams({
      ...this.query,
      colour: this.colour,
      ratio: this.shape.toFixed(3),
    });
    if (this.width) query.set("width", String(Math.round(this.width)));
    if (expanded) query.set("expanded", expanded.join(","));
    const pairs = Object.entries(shown ?? {}).map(([id, block]) => `${id}:${block}`);
    if (pairs.length) query.set("shown", pairs.join(","));
    return query;
  }

  /**
   * Fetches a view and shows it.
   * @param {Load} wanted
   */
  async load(wanted) {
    this.loading?.abort();
    const request = this.loading = new AbortController();
    const before = wanted.fresh ? null : this.view;
    const query = this.queryOf(
      wanted.expanded ?? before?.expanded,
      wanted.shown ?? before?.shown,
    );
    // A large graph is drawn before its times are known.
    if (!this.complete) query.set("soon", "yes");
    if (wanted.first) query.set("first", wanted.first);
    if (isNode(wanted.focus)) query.set("focus", String(wanted.focus));
    this.last = wanted;
    this.ratio = this.shape;
    if (wanted.fresh || wanted.expanded || wanted.shown) this.byHand = !wanted.fresh;
    const begin = performance.now();
    const ticket = this.waiting.begin();
    try {
      /** @type {DagView} */
      const sent = await ask(`/api/dag/view?${query}`, { signal: request.signal });
      this.show(decodeView(sent), wanted);
      this.canvas.dataset.loadMs = (performance.now() - begin).toFixed(1);
      this.canvas.dataset.fold = query.get("fold") ?? "";
      this.complete = sent.complete;
      if (wanted.fresh && this.finder.text) this.finder.search();
      if (sent.complete) this.announce();
      else this.awaitTimes();
    } catch (error) {
      if (isAbort(error)) return;
      this.problem.textContent = `The graph cannot be shown: ${messageOf(error)}`;
      this.problem.hidden = false;
    } finally {
      if (this.loading === request) this.loading = null;
      this.waiting.end(ticket);
    }
  }

  /** Once the server knows the times too, the same view again with them. */
  async awaitTimes() {
    if (this.completing) return;
    const waiting = this.completing = new AbortController();
    const { source } = this;
    const query = new URLSearchParams(this.query);
    try {
      await ask(`/api/dag/complete?${query}`, { signal: waiting.signal });
    } catch (error) {
      if (isAbort(error)) return;
      this.state.textContent = `The times cannot be shown: ${messageOf(error)}`;
      return;
    } finally {
      if (this.completing === waiting) this.completing = null;
    }
    if (source !== this.source) return;
    this.complete = true;
    // What is being fetched asks again when it is there without them.
    if (!this.loading) await this.load({});
    this.announce();
  }

  /** The page left what takes long to the drawing: now all of it is there. */
  announce() {
    if (this.ready || this.announced === this.source) return;
    this.announced = this.source;
    this.setStateValue("loaded", this.source);
  }

  /**
   * @param {View} view
   * @param {Load} wanted
   */
  show(view, { keep, focus, fit }) {
    const old = this.byId;
    this.view = view;
    this.byId = new Map(view.boxes.map((box) => [box.id, box]));
    this.problem.hidden = true;
    this.forget();
    Object.assign(this, { hover: null, hoverLink: null, chosenLink: null });
    this.edges.close();
    const before = keep && old.get(keep);
    const after = keep && this.byId.get(keep);
    if (before && after) {
      // What was clicked stays under the pointer; everything else moves around it.
      this.x += (before.x - after.x) * this.zoom;
      this.y += (before.y - after.y) * this.zoom;
      if (!isCalm()) this.startTween(old, before, after);
    }
    if (fit) this.open();
    const wanted = isNode(focus) ? this.byId.get(`n${focus}`) : undefined;
    if (wanted) this.reveal(wanted);
    if (this.focus && !this.byId.has(this.focus)) this.focus = null;
    this.paintTheme();
    this.repeat.follow();
    performance.mark("dag:shown");
  }

  /**
   * Boxes move from where they were, by the place that stays; new ones come out of that box.
   * @param {Map<string, Box>} old
   * @param {Box} before
   * @param {Box} after
   */
  startTween(old, before, after) {
    const dx = after.x - before.x;
    const dy = after.y - before.y;
    const from = new Map();
    for (const [id, { x, y, width, height }] of old) {
      if (this.byId.has(id)) from.set(id, { x: x + dx, y: y + dy, width, height });
    }
    const source = { x: after.x, y: after.y, width: before.width, height: before.height };
    this.tween = { begin: performance.now(), ms: TWEEN_MS, from, source };
  }

  /** Drops what was made for drawing the view before. */
  forget() {
    Object.assign(this, { paths: null, layer: null, whole: null, mapPicture: null });
    Object.assign(this, { crisp: false, slow: false });
  }

  paintTheme() {
    const { view, theme } = this;
    const side = theme.dark ? "dark" : "light";
    const legend = view ? view.legend : [];
    this.colours = legend.map((entry) => entry[side]);
    const chips = legend.map((entry) => chip(entry.label, entry[side], ""));
    if (view?.boxes.some((box) => box.critical)) {
      chips.push(chip("critical path", theme.critical, "path"));
    }
    this.legend.replaceChildren(...chips);
    if (view) {
      this.state.textContent = stateText(view);
      this.canvas.setAttribute(
        "aria-label",
        `Graph of ${counted(view.nodes, "node")} in ${shownText(view)}. ` +
          "Arrows walk along the edges, Enter unfolds or chooses.",
      );
    }
    this.paths =
      this.mapPicture =
      this.whole =
      this.layer =
        null;
    this.draw();
  }

  // -- Camera -----------------------------------------------------------------------------------

  resize() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const dpr = window.devicePixelRatio || 1;
    if (!width || !height) return;
    if (width === this.width && height === this.height && dpr === this.dpr) return;
    const before = { width: this.width, height: this.height };
    Object.assign(this, { width, height, dpr });
    this.canvas.width = Math.round(width * dpr);
    this.canvas.height = Math.round(height * dpr);
    this.whole = this.layer = this.mapPicture = null;
    if (!before.width || this.isHome) {
      this.open();
      this.layOutAnew();
    } else Object.assign(this, recentred(this, before, this));
    this.paint();
  }

  /** Whether the reader has not moved since all was shown. */
  get isHome() {
    const { home } = this;
    return home !== null && home.zoom === this.zoom && home.x === this.x && home.y === this.y;
  }

  /** Asks for a layout for the canvas as it is now, once its size rests. */
  layOutAnew() {
    clearTimeout(this.sizing);
    this.sizing = window.setTimeout(() => {
      const change = this.shape / this.ratio;
      if (!this.view || Math.max(change, 1 / change) < RESHAPED) return;
      this.load({ fresh: !this.byHand, fit: true, focus: this.selected });
    }, REST_MS);
  }

  /** Shows all, or as much of it from its beginning on as can be read. */
  open() {
    if (!this.view || !this.width) return;
    this.home = opening(this.view, this);
    Object.assign(this, this.home);
  }

  fit() {
    if (!this.view || !this.width) return;
    this.home = fitted(this.view, this);
    Object.assign(this, this.home);
    this.draw();
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
  zoomBy(factor, x = this.width / 2, y = this.height / 2) {
    if (!this.view) return;
    Object.assign(this, zoomedAt(this, factor, x, y, this.view, this));
    this.move();
  }

  /**
   * @param {number} dx
   * @param {number} dy
   */
  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.move();
  }

  /**
   * Brings a point of the graph to the middle.
   * @param {number} x
   * @param {number} y
   */
  lookAt(x, y) {
    this.x = this.width / 2 - x * this.zoom;
    this.y = this.height / 2 - y * this.zoom;
    this.draw();
  }

  /**
   * Brings what lies at a point of the small map to the middle.
   * @param {number} x of the screen
   * @param {number} y
   */
  lookAtMap(x, y) {
    const map = this.view && mapFrame(this.view, this, this);
    if (map) this.lookAt((x - map.x) / map.scale, (y - map.y) / map.scale);
  }

  /** Draws after a step of zooming or panning; sharp again once the reader rests. */
  move() {
    this.hide();
    if (!this.moving) keepFrame(this);
    this.moving = true;
    clearTimeout(this.rest);
    this.rest = window.setTimeout(() => {
      this.moving = false;
      this.lastFrame = 0;
      this.draw();
    }, REST_MS);
    this.draw();
  }

  /**
   * Brings a box into view, readable, moving no more than is needed.
   * @param {Box} box
   */
  reveal(box) {
    if (this.zoom < READABLE) this.zoom = READING;
    if (!isInView(box, this, this)) {
      this.lookAt(box.x + box.width / 2, box.y + box.height / 2);
    }
    this.focus = box.id;
    this.draw();
  }

  /**
   * A point of the screen as one of the graph.
   * @param {number} x
   * @param {number} y
   * @returns {[x: number, y: number]}
   */
  graphPoint(x, y) {
    return [(x - this.x) / this.zoom, (y - this.y) / this.zoom];
  }

  /**
   * Centre of a box in the window, by its id or a node's index; null when it is not shown.
   * @param {string | number} which
   */
  positionOf(which) {
    const box = this.byId.get(typeof which === "number" ? `n${which}` : which);
    if (!box) return null;
    const bounds = this.canvas.getBoundingClientRect();
    const down = box.open ? HEAD / 2 : box.height / 2;
    return {
      x: bounds.left + this.x + (box.x + (box.open ? 40 : box.width / 2)) * this.zoom,
      y: bounds.top + this.y + (box.y + down) * this.zoom,
    };
  }

  // -- Doing ------------------------------------------------------------------------------------

  /**
   * What is at a point of the screen: a box, or where none is (or only the ground of an unfolded
   * group's head) a link.
   * @param {number} x
   * @param {number} y
   * @returns {{box: Box | null, link: Link | null}}
   */
  under(x, y) {
    if (!this.view) return { box: null, link: null };
    const [graphX, graphY] = this.graphPoint(x, y);
    const box = boxAt(this.view.boxes, graphX, graphY);
    const link = box ? null : linkAt(this.view.links, graphX, graphY, this.zoom);
    return { box, link };
  }

  /**
   * What a click at a point of the canvas does.
   * @param {number} x
   * @param {number} y
   */
  clickAt(x, y) {
    const [graphX, graphY] = this.graphPoint(x, y);
    const arrow = this.arrows.find((rect) => contains(rect, graphX, graphY));
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
    if (!this.view) return;
    const count = box.repeats;
    const block = to < 0 ? -1 : to % count;
    this.focus = box.id;
    this.say(block < 0 ? `all ${count} shown` : `${block + 1} of ${count} shown`);
    this.load({ shown: { ...this.view.shown, [box.id]: block }, first: box.id, keep: box.id });
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
    if (!box || !this.view) return this.clear();
    this.focus = box.id;
    this.edges.close();
    this.repeat.follow();
    if (box.node >= 0) return this.select(box.node);
    this.say(`${box.label} ${box.open ? "folded" : "unfolded"}`);
    const expanded = toggled(this.view.expanded, box);
    this.load({ expanded, first: box.open ? undefined : box.id, keep: box.id });
  }

  /**
   * Folds by module path or by data, or again by the order of execution; what is selected stays in
   * view.
   * @param {string} by
   */
  foldBy(by) {
    this.setFold(this.fold === by ? BY_ORDER : by);
    this.focus = null;
    this.say(SAID[this.fold] ?? "");
    this.load({ fresh: true, fit: true, focus: this.selected });
    this.setStateValue("fold", this.fold);
  }

  /**
   * Selects a node wherever it is, and brings it into view.
   * @param {number} node
   */
  choose(node) {
    this.edges.close();
    const box = this.byId.get(`n${node}`);
    if (box) this.reveal(box);
    else this.load({ focus: node });
    this.select(node);
  }

  /** @param {number} node */
  select(node) {
    this.selected = node;
    this.asked = node;
    this.setStateValue("selected", { node });
    const box = this.byId.get(`n${node}`);
    if (box) this.say(`${box.where}, ${box.label}, ${box.note}, ${box.time}`);
    this.draw();
  }

  clear() {
    this.focus = null;
    this.edges.close();
    if (this.selected !== null) {
      this.selected = null;
      this.asked = null;
      this.setStateValue("selected", { node: null });
    }
    this.draw();
  }

  selectedId() {
    return this.selected === null ? null : `n${this.selected}`;
  }

  focusBox() {
    return (this.focus && this.byId.get(this.focus)) || null;
  }

  /** @param {string} id of a box */
  labelOf(id) {
    return this.byId.get(id)?.label ?? "";
  }

  /**
   * Moves the focus along an edge, to what comes after or before.
   * @param {"source" | "target"} end
   */
  walk(end) {
    if (!this.view) return;
    const other = end === "target" ? "source" : "target";
    const now = this.focus ?? this.selectedId();
    const link = this.view.links.find((each) => each[other] === now);
    const first = this.view.boxes.find((box) => !box.open);
    const next = link ? this.byId.get(link[end]) : now ? undefined : first;
    if (next) this.moveTo(next);
  }

  /**
   * Moves the focus to the next box to the side.
   * @param {number} by
   */
  beside(by) {
    const box = this.focusBox();
    if (!box || !this.view) return this.walk("target");
    const next = boxBeside(this.view.boxes, box, by);
    if (next) this.moveTo(next);
  }

  /** @param {Box} box */
  moveTo(box) {
    this.reveal(box);
    this.say(`${box.label}, ${box.note}, ${box.time}`);
  }

  // -- Showing ----------------------------------------------------------------------------------

  /**
   * @param {number} x of the screen
   * @param {number} y
   */
  hoverAt(x, y) {
    const { box, link } = this.under(x, y);
    this.canvas.style.cursor = box || link ? "pointer" : "";
    if (box !== this.hover || link !== this.hoverLink) {
      this.hover = box;
      this.hoverLink = link;
      this.draw();
    }
    const lines = this.hoverLines();
    if (!lines.length) return this.hide();
    this.tooltip.replaceChildren(
      ...lines.map((line, i) => element(i ? "small" : "b", "", line)),
    );
    this.tooltip.hidden = false;
    placeTooltip(this.tooltip, { x, y }, this);
  }

  hoverLines() {
    if (this.hover && this.view) return boxLines(this.view, this.hover);
    return this.hoverLink ? linkLines(this.hoverLink, (id) => this.labelOf(id)) : [];
  }

  hide() {
    this.tooltip.hidden = true;
    if (!this.hover && !this.hoverLink) return;
    this.hover = this.hoverLink = null;
    this.draw();
  }

  /** @param {string} text for who hears the page */
  say(text) {
    this.live.textContent = text;
  }

  /** Draws with the next frame of the screen. */
  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      this.judge(now);
      this.paint();
    });
  }

  /**
   * A view whose frames follow each other too slowly in motion is slow.
   * @param {number} now
   */
  judge(now) {
    const gap = this.moving && this.lastFrame ? now - this.lastFrame : 0;
    this.lastFrame = this.moving ? now : 0;
    if (gap < SLOW_FRAME_MS || gap > REST_MS || this.slow) return;
    this.slow = true;
    keepFrame(this);
  }

  paint() {
    if (!this.width || !this.source) return;
    drawDag(this);
    this.painted += 1;
    const { dataset } = this.canvas;
    dataset.painted = String(this.painted);
    dataset.boxes = this.view ? String(this.view.boxes.length) : "";
    dataset.zoom = this.zoom.toFixed(3);
    dataset.selected = this.selected === null ? "" : String(this.selected);
  }
}

/**
 * @param {number | null | undefined} node
 * @returns {node is number}
 */
function isNode(node) {
  return node !== null && node !== undefined;
}

/**
 * An entry of the legend.
 * @param {string} text
 * @param {string} colour
 * @param {string} kind
 */
function chip(text, colour, kind) {
  const mark = element("i");
  mark.style.background = colour;
  return element("span", `chip ${kind}`.trim(), [mark, document.createTextNode(text)]);
}

export default mount(Dag, ".dag");
