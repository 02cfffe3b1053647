// The timeline: eager above graphed on one axis, drawn on a canvas from views that the server bins.

import { button, contextOf, find, isCalm } from "../../../../ui/components/common/elements.js";
import { mount } from "../../../../ui/components/common/mount.js";
import { countUpTo, formatTime } from "../../../../ui/components/common/numbers.js";
import { ask, askSized, messageOf } from "../../../../ui/components/common/server.js";
import { alpha, hatch, NO_PALETTE, readTheme } from "../../../../ui/components/common/theme.js";
import { WheelGate } from "../../../../ui/components/wheel.js";
import { drawTimeline } from "./draw.js";
import { Echoes } from "./echoes.js";
import { hoverAt } from "./hover.js";
import { listen } from "./input.js";
import { Job } from "./job.js";
import { GUTTER, layOut } from "./layout.js";
import { decodeView, findSlice, parseSelection, tokenOf } from "./model.js";
import { keySheet, renderLegend, renderPanel, renderTooltip } from "./panel.js";
import { Ruler } from "./ruler.js";
import { bounded, LEAST_SPAN, partWay, revealing, shifted, zoomedAbout } from "./span.js";

/** @import { Component } from "../../../../ui/components/common/mount.js" */
/** @import { Palette, Theme } from "../../../../ui/components/common/theme.js" */
/** @import { Hover } from "./hover.js" */
/** @import { Layout } from "./layout.js" */
/** @import { Slice, View } from "./model.js" */
/** @import { Span } from "./span.js" */
/** @import { SliceCard, TimelineData, TimelineView } from "./wire.js" */

const DEBOUNCE_MS = 60;
const MAX_WAIT_MS = 180;
const PATIENCE_MS = 300;
const TELL_MS = 120;
const GLIDE_MS = 140;
const MOST_KEPT = 600;
const WIDER_PX = 8;
const SLICE_AIR = 1.2;
const LEAST_AIR = 300;
const PANEL_PX = 166;

export class Timeline {
  /** @type {(name: string, value: unknown) => void} tells Python */
  setStateValue = () => {};

  // What is shown.
  /** Which runs and steps they are: others start afresh. */
  source = "";
  experiment = "";
  query = new URLSearchParams();
  /** @type {string[]} */
  names = [];
  /** @type {Record<string, number | null>} */
  steps = {};
  /** @type {View | null} */
  view = null;
  /** @type {Layout | null} */
  layout = null;
  /** @type {Span} what is in view */
  window = [0, 1];
  /** @type {Span | null} where the window glides to */
  target = null;
  /** Whether the window is that of the reader, not yet that of a first view. */
  placed = false;
  /** How far the lanes are scrolled, in pixels. */
  scroll = 0;

  // What the reader is at.
  /** @type {{x: number, y: number} | null} */
  pointer = null;
  /** @type {Hover | null} */
  hover = null;
  /** @type {string | null} run and token of the selected slice, or of a graph's node */
  selected = null;
  /** @type {string | null | undefined} what Python asks for */
  asked = undefined;
  /** @type {SliceCard | null} */
  card = null;
  cardProblem = "";
  /** @type {SliceCard | null} what is to be brought into view once there is one */
  unseen = null;
  echoes = new Echoes();

  // How it is drawn.
  width = 0;
  height = 0;
  dpr = 1;
  /** @type {Palette} */
  palette = NO_PALETTE;
  /** @type {Theme} */
  theme;
  /** @type {CanvasPattern | null} */
  hatch = null;
  hatchOf = "";
  legendKey = "";
  /** Height that Python asks for. */
  least = 0;
  /** Height without the panel: that, or more where the lanes need it. */
  tall = 0;
  frame = 0;
  painted = 0;
  fetches = 0;
  /** @type {number[]} ms that the last frames took to draw */
  frames = [];
  /** @type {number[]} lengths of the last views */
  sizes = [];

  // What is under way.
  /** Since when a view is to be fetched; 0: none is. */
  waiting = 0;
  timer = 0;
  patience = 0;
  telling = 0;
  request = new AbortController();
  cardRequest = new AbortController();

  /** @param {HTMLElement | ShadowRoot} root */
  constructor(root) {
    this.root = root;
    this.host = find(root, ".timeline", HTMLElement);
    this.canvas = find(root, "canvas", HTMLCanvasElement);
    this.panel = find(root, ".panel", HTMLElement);
    this.legend = find(root, ".legend", HTMLElement);
    this.tooltip = find(root, ".tooltip", HTMLElement);
    this.problem = find(root, ".problem", HTMLElement);
    this.live = find(root, ".live", HTMLElement);
    this.loading = find(root, ".loading", HTMLElement);
    this.wheel = new WheelGate(this.canvas, find(root, ".wheel", HTMLElement), "timeline");
    this.ctx = contextOf(this.canvas);
    this.theme = readTheme(this.host, this.palette);
    this.ruler = new Ruler(this, find(root, ".ruler", HTMLElement));
    this.job = new Job(this, find(root, ".job", HTMLElement));
    Object.assign(this.canvas, { __timeline: this });
    find(root, ".buttons", HTMLElement).replaceChildren(
      button("−", "Zoom out (S)", () => this.zoom(1 / 1.6)),
      button("+", "Zoom in (W)", () => this.zoom(1.6)),
      button("Fit", "Fit the step (F)", () => this.fit()),
      button("?", "Keys (?)", () => this.showKeys()),
    );
    this.keys = keySheet(find(root, ".stage", HTMLElement));
    this.stop = new AbortController();
    listen(this, this.stop.signal);
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(this.canvas);
  }

  /**
   * Takes what Python says; a change of experiment, runs or steps starts afresh.
   * @param {Component<TimelineData>} component
   */
  update(component) {
    const { data, setStateValue } = component;
    this.setStateValue = setStateValue;
    this.palette = data.palette;
    this.theme = readTheme(this.host, this.palette);
    this.hatch = null;
    this.legendKey = "";
    this.least = data.height;
    this.tall = Math.max(this.tall, this.least);
    const source = JSON.stringify([data.experiment, data.runs, data.steps]);
    if (source !== this.source) this.start(source, data);
    this.ruler.follow(data.ruler);
    if (data.selected !== this.asked) {
      this.asked = data.selected;
      const echo = this.echoes.has(data.selected);
      if (!echo && data.selected !== this.selected) this.follow(data.selected);
    }
    this.resize();
    renderPanel(this);
    this.setHeight();
    this.draw();
  }

  /**
   * @param {string} source
   * @param {TimelineData} data
   */
  start(source, { experiment, runs, steps }) {
    this.placed = this.placed && this.experiment === experiment;
    this.source = source;
    this.experiment = experiment;
    this.query = new URLSearchParams({ experiment });
    for (const run of runs) this.query.append("run", run);
    for (const step of steps) this.query.append("step", stepParameter(step));
    this.names = runs;
    this.steps = Object.fromEntries(runs.map((run, i) => [run, steps[i]]));
    this.card = null;
    this.job.reset();
    this.tall = this.least;
    this.setHeight();
    performance.mark("timeline:mount");
    this.load();
    this.ruler.measure();
  }

  dispose() {
    this.stop.abort();
    this.resizes.disconnect();
    clearTimeout(this.timer);
    clearTimeout(this.patience);
    clearTimeout(this.telling);
    this.source = "";
    this.request.abort();
  }

  // -- Place and time ---------------------------------------------------------------------------

  /** Width of the lanes. */
  get plot() {
    return Math.max(1, this.width - GUTTER);
  }

  /** Time that a pixel stands for, in ns. */
  get perPixel() {
    return (this.window[1] - this.window[0]) / this.plot;
  }

  /** The time under the pointer, or null when it is elsewhere. */
  get cursor() {
    return this.pointer && this.pointer.x >= GUTTER ? this.time(this.pointer.x) : null;
  }

  /** Whether the lanes do not all fit. */
  get overflows() {
    return this.layout !== null && this.layout.total > this.height;
  }

  /** @param {number} time */
  x(time) {
    return GUTTER + (time - this.window[0]) / this.perPixel;
  }

  /** @param {number} x */
  time(x) {
    return this.window[0] + (x - GUTTER) * this.perPixel;
  }

  resize() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const dpr = window.devicePixelRatio || 1;
    if (!width || !height) return;
    if (width === this.width && height === this.height && dpr === this.dpr) return;
    const wider = Math.abs(width - this.width) > WIDER_PX;
    Object.assign(this, { width, height, dpr, hatch: null });
    this.canvas.width = Math.round(width * dpr);
    this.canvas.height = Math.round(height * dpr);
    this.relayout();
    if (this.view && wider) this.refine();
    this.paint();
  }

  relayout() {
    if (!this.view || !this.height) return;
    this.layout = layOut(this.view, this.height);
    this.grow(this.layout.total - this.height);
    this.scrollBy(0);
  }

  /**
   * Makes room for lanes that do not fit, up to half as much again; beyond that they scroll.
   * @param {number} missing pixels
   */
  grow(missing) {
    const wanted = Math.min(Math.ceil(this.tall + missing), Math.round(1.5 * this.least));
    if (missing <= 0 || wanted <= this.tall) return;
    this.tall = wanted;
    this.setHeight();
  }

  /** The panel comes and goes below the lanes, which stay as tall as they are. */
  setHeight() {
    this.host.style.height = `${this.tall + (this.panel.hidden ? 0 : PANEL_PX)}px`;
  }

  /**
   * Scrolls the lanes, where they do not all fit.
   * @param {number} by pixels
   */
  scrollBy(by) {
    const most = this.layout ? Math.max(0, this.layout.total - this.height) : 0;
    this.scroll = Math.min(Math.max(0, this.scroll + by), most);
    this.paint();
  }

  // -- Data -------------------------------------------------------------------------------------

  /** Loads once interaction pauses, and at least every MAX_WAIT_MS while it goes on. */
  refine() {
    const now = performance.now();
    this.waiting = this.waiting || now;
    clearTimeout(this.timer);
    const left = Math.max(0, this.waiting + MAX_WAIT_MS - now);
    this.timer = window.setTimeout(() => this.load(), Math.min(DEBOUNCE_MS, left));
  }

  async load() {
    this.waiting = 0;
    clearTimeout(this.timer);
    this.request.abort();
    const { signal } = this.request = new AbortController();
    const query = new URLSearchParams(this.query);
    const plot = this.width ? this.plot : this.canvas.clientWidth - GUTTER;
    query.set("px", String(Math.round(Math.max(50, plot))));
    if (this.placed) {
      const [begin, end] = this.target ?? this.window;
      query.set("t0", String(Math.round(begin)));
      query.set("t1", String(Math.round(end)));
    }
    const begun = performance.now();
    clearTimeout(this.patience);
    // A large trace is laid out when it is first asked for; nothing is said of what is quick.
    if (!this.view) {
      this.patience = window.setTimeout(() => (this.loading.hidden = false), PATIENCE_MS);
    }
    try {
      const { body, length } = await askSized(`/api/timeline/view?${query}`, { signal });
      if (signal.aborted) return;
      const view = decodeView(/** @type {TimelineView} */ (body));
      this.accept(view, length, performance.now() - begun);
    } catch (error) {
      if (signal.aborted) return;
      this.problem.textContent = `The timeline could not be loaded: ${messageOf(error)}`;
      this.problem.hidden = false;
    }
  }

  /** Loads all anew, once the server knows more. */
  reload() {
    this.load();
    if (this.card) this.loadCard(this.card.run, this.card.token);
    this.ruler.measure();
  }

  /**
   * @param {View} view
   * @param {number} bytes
   * @param {number} elapsed ms
   */
  accept(view, bytes, elapsed) {
    this.view = view;
    if (!this.placed) this.window = view.window;
    this.placed = true;
    this.problem.hidden = true;
    clearTimeout(this.patience);
    this.loading.hidden = true;
    this.relayout();
    this.look();
    this.fetches++;
    keep(this.sizes, bytes);
    const marks = this.canvas.dataset;
    marks.level = view.level;
    marks.bytes = String(bytes);
    marks.complete = view.complete ? "yes" : "no";
    marks.refineMs = elapsed.toFixed(1);
    const words = view.runs.map(({ run, summary, problem }) => `${run}: ${summary || problem}`);
    this.canvas.setAttribute("aria-label", `Timeline of ${words.join("; ")}`);
    this.draw();
    renderLegend(this, view);
    marks.fetches = String(this.fetches);
    performance.mark(this.fetches === 1 ? "timeline:painted" : "timeline:refined");
    if (this.unseen) this.reveal(this.unseen);
    if (!view.complete) this.job.begin();
  }

  // -- Drawing ----------------------------------------------------------------------------------

  /** Draws with the next frame of the screen. */
  paint() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    if (!this.width || !this.layout || !this.placed) return;
    const begun = performance.now();
    this.theme = readTheme(this.host, this.palette);
    const stroke = alpha(this.theme.idle, this.theme.dark ? 0.34 : 0.3);
    if (!this.hatch || this.hatchOf !== stroke) this.hatch = hatch(this.ctx, stroke, this.dpr);
    this.hatchOf = stroke;
    drawTimeline(this, this.layout);
    const marks = this.canvas.dataset;
    marks.painted = String(++this.painted);
    marks.window = this.window.map((at) => Math.round(at)).join(",");
    marks.moving = this.target ? "yes" : "no";
    keep(this.frames, performance.now() - begun);
  }

  /** Shows the keys, or takes them away. */
  showKeys() {
    this.keys.hidden = !this.keys.hidden;
  }

  /** @param {string} text for who hears the page */
  say(text) {
    this.live.textContent = text;
  }

  // -- Moving -----------------------------------------------------------------------------------

  /**
   * Moves at once.
   * @param {Span} span
   */
  show(span) {
    if (!this.view) return;
    this.window = bounded(span, this.view.limits);
    this.look();
    this.paint();
    this.refine();
  }

  /**
   * Moves at once, and no further to where it glides.
   * @param {Span} span
   */
  moveTo(span) {
    this.target = null;
    this.show(span);
  }

  /**
   * Glides to a window; what it will show is asked for at once.
   * @param {Span} span
   */
  glide(span) {
    if (!this.view) return;
    if (isCalm()) return this.show(span);
    const to = bounded(span, this.view.limits);
    const from = this.window;
    this.target = to;
    this.look();
    this.load();
    const begun = performance.now();
    /** @type {(now: number) => void} */
    const tick = (now) => {
      if (this.target !== to) return;
      const share = Math.min(1, Math.max(0, now - begun) / GLIDE_MS);
      this.window = partWay(from, to, 1 - (1 - share) ** 3);
      if (share === 1) {
        this.target = null;
        this.look();
      }
      this.draw();
      if (share < 1) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  /** @param {number} share of the window */
  pan(share) {
    this.glide(shifted(this.target ?? this.window, share));
  }

  /**
   * Zooms at the pointer, or in the middle where that is elsewhere.
   * @param {number} factor
   */
  zoom(factor) {
    const span = this.target ?? this.window;
    this.glide(zoomedAbout(span, this.cursor ?? (span[0] + span[1]) / 2, factor));
  }

  /**
   * @param {number} x
   * @param {number} factor
   */
  zoomAt(x, factor) {
    this.target = null;
    if (factor > 1 && this.window[1] - this.window[0] <= LEAST_SPAN) return;
    this.show(zoomedAbout(this.window, this.time(Math.max(GUTTER, x)), factor));
  }

  fit() {
    if (this.view) this.glide(this.view.fit);
  }

  /**
   * @param {number} begin
   * @param {number} end
   */
  zoomTo(begin, end) {
    const air = Math.max((end - begin) * SLICE_AIR, LEAST_AIR);
    this.glide([begin - air, end + air]);
  }

  zoomToCard() {
    if (this.card) this.zoomTo(this.card.begin, this.card.begin + this.card.dur);
  }

  // -- Pointing ---------------------------------------------------------------------------------

  /** Looks anew at what is under the pointer, after either has moved. */
  look() {
    const { pointer, view } = this;
    this.hover = pointer && !this.target ? this.hit(pointer.x, pointer.y) : null;
    if (this.hover && pointer && view) renderTooltip(this, view, pointer);
    else this.tooltip.hidden = true;
  }

  /** Nothing is pointed at any more. */
  leave() {
    this.hover = null;
    this.tooltip.hidden = true;
  }

  /**
   * What lies under a point of the canvas.
   * @param {number} x
   * @param {number} y
   */
  hit(x, y) {
    const { layout, view } = this;
    if (!layout || !view || y < layout.axis) return null;
    const point = { x, y: y + this.scroll };
    return hoverAt(layout, view.loaded, point, this.time(x), this.perPixel);
  }

  /**
   * For tests: the slice's box on the canvas in CSS pixels, or null if it is not drawn.
   * @param {string} run
   * @param {string} token
   */
  sliceRect(run, token) {
    const block = this.layout?.blocks.find((each) => each.run.run === run);
    const slice = block && findSlice(block.run, token);
    const row = slice && block.lanes.find(({ lane }) => lane === slice.lane);
    if (!slice || !row) return null;
    const left = this.x(slice.lane.start[slice.i]);
    const width = this.x(slice.lane.end[slice.i]) - left;
    return { x: left, y: row.y - this.scroll, width, height: row.h };
  }

  /** For tests: the loaded slices as run, token, name, start and duration. */
  slices() {
    const { view } = this;
    if (!view) return [];
    return view.runs.flatMap(({ run, lanes }) =>
      lanes.flatMap((lane) =>
        Array.from({ length: lane.count }, (_, i) => ({
          run,
          token: tokenOf(lane, i),
          name: view.names[lane.name[i]][0],
          start: lane.start[i],
          dur: lane.end[i] - lane.start[i],
        }))
      )
    );
  }

  // -- Selecting --------------------------------------------------------------------------------

  /**
   * The selected slice among the loaded ones, at once, without waiting for its card.
   * @returns {Slice | null}
   */
  selectedSlice() {
    // A node's name leads to a slice only through the card.
    const ofNode = this.selected?.includes("#");
    const name = parseSelection(ofNode ? this.cardName() : this.selected);
    const run = name && this.view?.runs.find((each) => each.run === name.run);
    return run ? findSlice(run, name.token) : null;
  }

  cardName() {
    return this.card && `${this.card.run}/${this.card.token}`;
  }

  /**
   * The begin and end of the selected slice: its card knows them on the way there too.
   * @returns {Span | null}
   */
  selectedSpan() {
    const { card } = this;
    if (card && this.selected === this.cardName()) return [card.begin, card.begin + card.dur];
    const slice = this.selectedSlice();
    return slice && [slice.lane.start[slice.i], slice.lane.end[slice.i]];
  }

  /**
   * Selects a slice, or clears; tells Python, and moves there if it is unseen.
   * @param {string | null} run
   * @param {string | null} token
   */
  async select(run, token, reveal = false) {
    const next = run && token ? `${run}/${token}` : null;
    const changed = next !== this.selected;
    this.selected = next;
    await this.loadCard(run, token, reveal);
    // Only then: the script of the page that this starts would keep the card waiting.
    if (changed && next === this.selected) this.tellLater();
  }

  /** Tells Python what is selected once a row of selections has come to its end. */
  tellLater() {
    clearTimeout(this.telling);
    const at = Date.now();
    this.telling = window.setTimeout(() => {
      this.echoes.add(this.selected, this.asked);
      this.setStateValue("selected", { slice: this.selected, at });
    }, TELL_MS);
  }

  /**
   * Follows a selection that comes from Python, which needs to hear nothing of it.
   * @param {string | null} selected
   */
  follow(selected) {
    this.selected = selected;
    const name = parseSelection(selected);
    if (name) this.loadCard(name.run, name.token, true);
    else this.loadCard(null, null);
  }

  /**
   * @param {string | null} run
   * @param {string | null} token
   */
  async loadCard(run, token, reveal = false) {
    this.cardRequest.abort();
    const { signal } = this.cardRequest = new AbortController();
    this.cardProblem = "";
    if (!run || !token) {
      this.card = null;
    } else {
      try {
        /** @type {SliceCard} */
        const card = await ask(`/api/timeline/slice?${this.cardQuery(run, token)}`, { signal });
        if (signal.aborted) return;
        this.card = card;
        this.say(`${card.title}, ${formatTime(card.dur)}, in ${card.run}`);
        if (reveal) this.reveal(card);
      } catch (error) {
        if (signal.aborted) return;
        this.card = null;
        this.cardProblem = `This slice could not be shown: ${messageOf(error)}`;
      }
      performance.mark("timeline:card");
    }
    renderPanel(this);
    this.setHeight();
    this.paint();
    this.canvas.dataset.card = this.cardName() ?? "";
  }

  /**
   * @param {string} run
   * @param {string} token
   */
  cardQuery(run, token) {
    const query = new URLSearchParams({ experiment: this.experiment, run, slice: token });
    const step = stepParameter(this.steps[run]);
    if (step) query.set("step", step);
    for (const shown of this.names) {
      query.append("shown", shown);
      query.append("shown_step", stepParameter(this.steps[shown]));
    }
    return query;
  }

  /**
   * Brings a slice into view, at the present zoom unless it would be too thin or too wide. Before
   * the first view there is nowhere to go yet; the slice waits for it.
   * @param {SliceCard} card
   */
  reveal(card) {
    this.unseen = this.view ? null : card;
    if (!this.view) return;
    const span = revealing(this.target ?? this.window, card, this.plot);
    if (span) this.glide(span);
  }

  /**
   * Selects the slice `by` places further on the selected one's lane (the first in view if none).
   * @param {number} by
   */
  step(by) {
    const now = this.selectedSlice();
    if (!now) return this.selectFirst();
    const i = now.i + by;
    if (i >= 0 && i < now.lane.count) this.select(now.run.run, tokenOf(now.lane, i), true);
  }

  selectFirst() {
    if (this.view?.level === "busy") this.say("Zoom in to select slices");
    for (const { run, lanes } of this.layout?.blocks ?? []) {
      for (const { lane } of lanes) {
        if (lane.kind !== "gpu" || !lane.count) continue;
        const i = Math.min(countUpTo(lane.end, this.window[0]), lane.count - 1);
        if (lane.start[i] > this.window[1]) continue;
        this.select(run.run, tokenOf(lane, i));
        return;
      }
    }
  }

  /**
   * Selects the slice at the same time on the lane above (-1) or below (1).
   * @param {1 | -1} by
   */
  stepLane(by) {
    const now = this.selectedSlice();
    if (!now || !this.layout) return this.selectFirst();
    const lanes = this.layout.blocks.flatMap(({ run, lanes: rows }) =>
      rows.filter(({ lane }) => lane.kind !== "range").map(({ lane }) => ({ run, lane }))
    );
    let at = lanes.findIndex(({ lane }) => lane === now.lane) + by;
    while (lanes[at] && !lanes[at].lane.count) at += by;
    if (!lanes[at]) return;
    const { run, lane } = lanes[at];
    const i = Math.max(0, countUpTo(lane.start, now.lane.start[now.i]) - 1);
    this.select(run.run, tokenOf(lane, i), true);
  }
}

/**
 * A step as the server's parameter: empty for the typical one.
 * @param {number | null | undefined} step
 */
function stepParameter(step) {
  return step === null || step === undefined ? "" : String(step);
}

/**
 * Adds to what is kept of the last few.
 * @param {number[]} values
 * @param {number} value
 */
function keep(values, value) {
  values.push(value);
  if (values.length > MOST_KEPT) values.shift();
}

export default mount(Timeline, ".timeline");
