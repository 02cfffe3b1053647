// The timeline: eager above graphed on one axis, drawn on a canvas from views that the server bins.

const MARGIN = 0.25;
const MIN_SPAN = 200;
const DEBOUNCE_MS = 60;
const MAX_WAIT_MS = 180;
const TELL_MS = 120;

class Timeline {
  constructor(root) {
    this.root = root;
    this.canvas = root.querySelector("canvas");
    this.host = root.querySelector(".timeline");
    this.panel = root.querySelector(".panel");
    this.legend = root.querySelector(".legend");
    this.tooltip = root.querySelector(".tooltip");
    this.live = root.querySelector(".live");
    this.loading = root.querySelector(".loading");
    this.ctx = this.canvas.getContext("2d");
    this.view = null;
    this.window = null;
    this.scroll = 0;
    this.hover = null;
    this.pointer = null;
    this.card = null;
    this.selected = null;
    this.asked = undefined;
    this.frames = [];
    this.sizes = [];
    this.painted = 0;
    this.fetches = 0;
    this.told = new Told();
    this.ruler = new Ruler(this, root.querySelector(".ruler"));
    this.more = new More(this, root.querySelector(".job"));
    this.canvas.__timeline = this;
    const buttons = root.querySelector(".buttons");
    buttons.replaceChildren(
      button("−", "Zoom out (S)", () => this.zoom(1 / 1.6)),
      button("+", "Zoom in (W)", () => this.zoom(1.6)),
      button("Fit", "Fit the step (F)", () => this.fit()),
    );
    this.stop = new AbortController();
    listen(this, this.stop.signal);
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(this.canvas);
  }

  /** Takes what Python says; a change of experiment, runs or steps starts afresh. */
  update(component) {
    const { data, setStateValue } = component;
    this.setStateValue = setStateValue;
    this.palette = data.palette;
    this.theme = readTheme(this.host, this.palette);
    this.hatch = null;
    this.legendKey = "";
    this.least = data.height;
    if (!this.grown) this.host.style.height = `${data.height}px`;
    const source = JSON.stringify([data.experiment, data.runs, data.steps]);
    if (source !== this.source) {
      const kept = this.source && this.experiment === data.experiment ? this.window : null;
      this.source = source;
      this.experiment = data.experiment;
      this.query = new URLSearchParams([["experiment", data.experiment]]);
      for (const run of data.runs) this.query.append("run", run);
      for (const step of data.steps) this.query.append("step", step === null ? "" : String(step));
      this.names = data.runs;
      this.steps = Object.fromEntries(data.runs.map((run, i) => [run, data.steps[i]]));
      this.window = kept;
      this.card = null;
      this.more.reset();
      this.grown = false;
      this.host.style.height = `${this.least}px`;
      performance.mark("timeline:mount");
      this.load();
      this.ruler.measure();
    }
    this.ruler.follow(data.ruler);
    if (data.selected !== this.asked) {
      this.asked = data.selected;
      const echo = this.told.echoes(data.selected);
      if (!echo && data.selected !== this.selected) this.follow(data.selected);
    }
    this.resize();
    renderPanel(this);
    this.draw();
  }

  dispose() {
    this.stop.abort();
    this.resizes.disconnect();
    clearTimeout(this.timer);
    clearTimeout(this.patience);
    clearTimeout(this.telling);
    this.source = null;
    if (this.request) this.request.abort();
  }

  get plot() {
    return Math.max(1, this.width - GUTTER);
  }

  /** The time under the pointer, or null when it is elsewhere. */
  get cursor() {
    return this.pointer && this.pointer[0] >= GUTTER ? this.time(this.pointer[0]) : null;
  }

  /** Looks anew at what is under the pointer, after either has moved. */
  look() {
    this.hover = this.pointer && !this.target ? this.hit(...this.pointer) : null;
    if (this.hover) renderTooltip(this, ...this.pointer);
    else this.tooltip.hidden = true;
  }

  x(time) {
    return GUTTER + ((time - this.window[0]) / (this.window[1] - this.window[0])) * this.plot;
  }

  time(x) {
    return this.window[0] + ((x - GUTTER) / this.plot) * (this.window[1] - this.window[0]);
  }

  resize() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const dpr = window.devicePixelRatio || 1;
    if (!width || !height) return;
    if (width === this.width && height === this.height && dpr === this.dpr) return;
    const wider = Math.abs(width - (this.width || 0)) > 8;
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
    this.grow();
    const most = Math.max(0, this.layout.total - this.height);
    this.scroll = Math.min(Math.max(0, this.scroll), most);
  }

  /** Makes room for lanes that do not fit, up to half as much again; beyond that they scroll. */
  grow() {
    const missing = this.layout.total - this.height;
    const now = this.host.offsetHeight;
    const wanted = Math.min(Math.ceil(now + missing), Math.round(1.5 * this.least));
    if (missing <= 0 || wanted <= now) return;
    this.grown = true;
    this.host.style.height = `${wanted}px`;
  }

  // -- Data -------------------------------------------------------------------------------------

  /** Loads once interaction pauses, and at least every MAX_WAIT_MS while it goes on. */
  refine() {
    const now = performance.now();
    this.waiting = this.waiting || now;
    clearTimeout(this.timer);
    const left = Math.max(0, this.waiting + MAX_WAIT_MS - now);
    this.timer = setTimeout(() => this.load(), Math.min(DEBOUNCE_MS, left));
  }

  async load() {
    this.waiting = 0;
    clearTimeout(this.timer);
    if (this.request) this.request.abort();
    this.request = new AbortController();
    const query = new URLSearchParams(this.query);
    const target = this.target || this.window;
    query.set("px", String(Math.round(Math.max(50, this.plot || this.canvas.clientWidth - GUTTER))));
    if (target) {
      query.set("t0", String(Math.round(target[0])));
      query.set("t1", String(Math.round(target[1])));
    }
    const begun = performance.now();
    const { signal } = this.request;
    clearTimeout(this.patience);
    // A large trace is laid out when it is first asked for; nothing is said of what is quick.
    if (!this.view) this.patience = setTimeout(() => (this.loading.hidden = false), 300);
    try {
      const answer = await fetch(`/api/timeline/view?${query}`, { signal });
      const text = await answer.text();
      const body = JSON.parse(text);
      if (!answer.ok) throw new Error(body.error ? body.error.message : answer.statusText);
      if (!signal.aborted) this.accept(decodeView(body), text.length, performance.now() - begun);
    } catch (problem) {
      if (signal.aborted) return;
      this.problem(`The timeline could not be loaded: ${problem.message}`);
    }
  }

  accept(view, bytes, elapsed) {
    this.view = view;
    if (!this.window) this.window = view.window.slice();
    this.root.querySelector(".problem").hidden = true;
    clearTimeout(this.patience);
    this.loading.hidden = true;
    this.relayout();
    this.look();
    this.fetches++;
    const marks = this.canvas.dataset;
    marks.level = view.level;
    marks.bytes = String(bytes);
    this.sizes.push(bytes);
    if (this.sizes.length > 600) this.sizes.shift();
    marks.complete = view.complete ? "yes" : "no";
    marks.refineMs = elapsed.toFixed(1);
    const words = view.runs.map((run) => `${run.run}: ${run.summary || run.problem || ""}`);
    this.canvas.setAttribute("aria-label", `Timeline of ${words.join("; ")}`);
    this.draw();
    renderLegend(this);
    marks.fetches = String(this.fetches);
    performance.mark(this.fetches === 1 ? "timeline:painted" : "timeline:refined");
    if (this.unseen) this.reveal(this.unseen);
    if (!view.complete) this.more.begin();
  }

  problem(text) {
    const box = this.root.querySelector(".problem");
    box.textContent = text;
    box.hidden = false;
  }

  // -- Drawing ----------------------------------------------------------------------------------

  paint() {
    if (this.scheduled) return;
    this.scheduled = requestAnimationFrame(() => {
      this.scheduled = 0;
      this.draw();
    });
  }

  draw() {
    if (!this.width || !this.view || !this.window || !this.layout) return;
    const begun = performance.now();
    this.theme = readTheme(this.host, this.palette);
    const stroke = alpha(this.theme.idle, this.theme.dark ? 0.34 : 0.3);
    if (!this.hatch || this.hatchOf !== stroke) this.hatch = hatch(this.ctx, stroke, this.dpr);
    this.hatchOf = stroke;
    drawTimeline(this);
    const marks = this.canvas.dataset;
    marks.painted = String(++this.painted);
    marks.window = this.window.map((at) => Math.round(at)).join(",");
    marks.moving = this.target ? "yes" : "no";
    this.frames.push(performance.now() - begun);
    if (this.frames.length > 600) this.frames.shift();
  }

  // -- Moving -----------------------------------------------------------------------------------

  bounded([begin, stop]) {
    const [low, high] = this.view.limits;
    const longest = high - low;
    const span = Math.min(Math.max(stop - begin, MIN_SPAN), 2 * longest);
    const middle = (begin + stop) / 2;
    const from = Math.min(Math.max(middle - span / 2, low - longest / 2), high + longest / 2 - span);
    return [from, from + span];
  }

  show(window) {
    this.window = this.bounded(window);
    this.look();
    this.paint();
    this.refine();
  }

  /** Glides to `window`; what it will show is asked for at once. */
  glide(window) {
    if (!this.view) return;
    const to = this.bounded(window);
    const from = this.window.slice();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return this.show(to);
    this.target = to;
    this.look();
    this.load();
    const begun = performance.now();
    const tick = (now) => {
      if (this.target !== to) return;
      const share = Math.min(1, Math.max(0, now - begun) / 140);
      const eased = 1 - (1 - share) ** 3;
      this.window = from.map((at, i) => at + (to[i] - at) * eased);
      if (share === 1) {
        this.target = null;
        this.look();
      }
      this.draw();
      if (share < 1) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  pan(share) {
    const base = this.target || this.window;
    const shift = (base[1] - base[0]) * share;
    this.glide([base[0] + shift, base[1] + shift]);
  }

  zoom(factor) {
    const base = this.target || this.window;
    const at = this.cursor === null ? (base[0] + base[1]) / 2 : this.cursor;
    this.glide([at - (at - base[0]) / factor, at + (base[1] - at) / factor]);
  }

  zoomAt(x, factor) {
    this.target = null;
    const at = this.time(Math.max(GUTTER, x));
    const [begin, stop] = this.window;
    if (factor > 1 && stop - begin <= MIN_SPAN) return;
    this.show([at - (at - begin) / factor, at + (stop - at) / factor]);
  }

  fit() {
    if (this.view) this.glide(this.view.fit);
  }

  zoomTo(begin, end) {
    const air = Math.max((end - begin) * 1.2, 300);
    this.glide([begin - air, end + air]);
  }

  zoomToCard() {
    if (this.card) this.zoomTo(this.card.begin, this.card.begin + this.card.dur);
  }

  // -- Finding ----------------------------------------------------------------------------------

  /** What lies under (x, y) of the canvas: a slice, a gap or a busy bin of a lane; or null. */
  hit(x, y) {
    if (!this.layout || x < GUTTER || y < this.layout.axis) return null;
    const at = this.time(x);
    const under = (row) => y + this.scroll >= row.y && y + this.scroll < row.y + row.h + 3;
    for (const block of this.layout.blocks) {
      for (const row of block.lanes) if (under(row)) return this.hitLane(block.run, row.lane, at);
      for (const row of block.differences)
        if (under(row)) return { run: block.run, difference: row.difference, at, i: -1 };
    }
    return null;
  }

  hitLane(run, lane, at) {
    if (lane.busy) {
      const [begin, stop] = this.view.loaded;
      const span = (stop - begin) / lane.busy.length;
      const bin = Math.floor((at - begin) / span);
      if (bin < 0 || bin >= lane.busy.length) return null;
      return { run, lane, at, i: -1, busy: lane.busy[bin], span };
    }
    const reach = ((this.window[1] - this.window[0]) / this.plot) * 2;
    const next = countUpTo(lane.start, at);
    let best = -1;
    let distance = reach;
    for (const i of [next - 1, next]) {
      if (i < 0 || i >= lane.count) continue;
      const away = at < lane.start[i] ? lane.start[i] - at : Math.max(0, at - lane.end[i]);
      if (away < distance) [best, distance] = [i, away];
    }
    if (best >= 0) return { run, lane, at, i: best, name: lane.name[best] };
    const open = next === 0 || next === lane.count;
    const length = open ? 0 : lane.start[next] - lane.end[next - 1];
    return { run, lane, at, i: -1, gap: { open, length } };
  }

  /** For tests and for keys: the slice's box on the canvas in CSS pixels, or null if not drawn. */
  sliceRect(runName, token) {
    const block = this.layout && this.layout.blocks.find((one) => one.run.run === runName);
    const found = block && findSlice(block.run, token);
    if (!found) return null;
    const row = block.lanes.find((one) => one.lane === found.lane);
    const left = this.x(found.lane.start[found.i]);
    return {
      x: left,
      y: row.y - this.scroll,
      width: this.x(found.lane.end[found.i]) - left,
      height: row.h,
    };
  }

  /** For tests: the loaded slices as run, token, name, start and duration. */
  slices() {
    const found = [];
    for (const run of this.view ? this.view.runs : [])
      for (const lane of run.lanes)
        for (let i = 0; i < lane.count; i++)
          found.push({
            run: run.run,
            token: tokenOf(lane, i),
            name: this.view.names[lane.name[i]][0],
            start: lane.start[i],
            dur: lane.end[i] - lane.start[i],
          });
    return found;
  }

  // -- Selecting --------------------------------------------------------------------------------

  /** The selected slice among the loaded ones, at once, without waiting for its card. */
  selectedSlice() {
    if (!this.selected || !this.view) return null;
    // A node's name leads to a slice only through the card.
    const name = this.selected.includes("#")
      ? this.card && `${this.card.run}/${this.card.token}`
      : this.selected;
    if (this.foundName !== name || this.foundIn !== this.view) {
      const cut = name ? name.indexOf("/") : -1;
      const run = this.view.runs.find((one) => name && one.run === name.slice(0, cut));
      this.found = run ? findSlice(run, name.slice(cut + 1)) : null;
      this.foundName = name;
      this.foundIn = this.view;
    }
    return this.found;
  }

  /** The begin and end of the selected slice, or null: its card knows them on the way there too. */
  selectedSpan() {
    const { card } = this;
    if (card && this.selected === `${card.run}/${card.token}`)
      return [card.begin, card.begin + card.dur];
    const now = this.selectedSlice();
    return now && [now.lane.start[now.i], now.lane.end[now.i]];
  }

  /** Selects a slice by run and token, or clears; tells Python, and moves there if it is unseen. */
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
    this.telling = setTimeout(() => {
      this.told.say(this.selected, this.asked);
      this.setStateValue("selected", { slice: this.selected, at });
    }, TELL_MS);
  }

  /** Follows a selection that comes from Python; it was told of it, so nothing is sent back. */
  follow(selected) {
    this.selected = selected;
    const cut = selected ? selected.indexOf("/") : -1;
    if (cut < 0) this.loadCard(null, null);
    else this.loadCard(selected.slice(0, cut), selected.slice(cut + 1), true);
  }

  async loadCard(run, token, reveal) {
    if (this.cardRequest) this.cardRequest.abort();
    this.cardProblem = "";
    if (!run || !token) {
      this.card = null;
      this.canvas.dataset.card = "";
      renderPanel(this);
      return this.paint();
    }
    this.cardRequest = new AbortController();
    const { signal } = this.cardRequest;
    const step = this.steps[run];
    const query = new URLSearchParams({ experiment: this.experiment, run, slice: token });
    if (step !== null && step !== undefined) query.set("step", String(step));
    for (const other of this.names) {
      query.append("shown", other);
      query.append("shown_step", this.steps[other] === null ? "" : String(this.steps[other]));
    }
    try {
      const answer = await fetch(`/api/timeline/slice?${query}`, { signal });
      const body = await answer.json();
      if (!answer.ok) throw new Error(body.error ? body.error.message : answer.statusText);
      if (signal.aborted) return;
      this.card = body;
      this.live.textContent = `${body.title}, ${formatTime(body.dur)}, in ${body.run}`;
      if (reveal) this.reveal(body);
    } catch (problem) {
      if (signal.aborted) return;
      this.card = null;
      this.cardProblem = `This slice could not be shown: ${problem.message}`;
    }
    renderPanel(this);
    this.paint();
    performance.mark("timeline:card");
    this.canvas.dataset.card = this.card ? `${this.card.run}/${this.card.token}` : "";
  }

  /** Brings a slice into view, at the present zoom unless it would be too thin or too wide. */
  reveal(card) {
    // Before the first view there is nowhere to go yet; the card waits for it.
    this.unseen = this.view ? null : card;
    if (!this.view) return;
    const [begin, stop] = this.target || this.window;
    const span = stop - begin;
    const inside = card.begin >= begin && card.begin + card.dur <= stop;
    if (inside && (card.dur / span) * this.plot >= 3) return;
    const wanted = Math.min(Math.max(span, card.dur * 3), Math.max(card.dur * 60, 2000));
    const middle = card.begin + card.dur / 2;
    this.glide([middle - wanted / 2, middle + wanted / 2]);
  }

  /** Selects the slice `by` places further on the selected one's lane (the first in view if none). */
  step(by) {
    const now = this.selectedSlice();
    if (!now) return this.selectFirst();
    const i = now.i + by;
    if (i >= 0 && i < now.lane.count) this.select(now.run.run, tokenOf(now.lane, i), true);
  }

  selectFirst() {
    if (this.view.level === "busy") this.live.textContent = "Zoom in to select slices";
    for (const block of this.layout ? this.layout.blocks : [])
      for (const { lane } of block.lanes) {
        if (lane.kind !== "gpu" || !lane.count) continue;
        const i = Math.min(countUpTo(lane.end, this.window[0]), lane.count - 1);
        if (lane.start[i] <= this.window[1]) return this.select(block.run.run, tokenOf(lane, i));
      }
  }

  /** Selects the slice at the same time on the lane above (-1) or below (1). */
  stepLane(by) {
    const now = this.selectedSlice();
    if (!now) return this.selectFirst();
    const lanes = this.layout.blocks.flatMap((b) => b.lanes.map(({ lane }) => [b.run, lane]));
    let at = lanes.findIndex(([, lane]) => lane === now.lane) + by;
    for (; at >= 0 && at < lanes.length; at += by) {
      const [run, lane] = lanes[at];
      if (!lane.count) continue;
      const i = Math.max(0, countUpTo(lane.start, now.lane.start[now.i]) - 1);
      return this.select(run.run, tokenOf(lane, i), true);
    }
  }
}

const timelines = new WeakMap();

export default function (component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".timeline");
  let timeline = timelines.get(parentElement);
  if (!timeline || timeline.host !== host) {
    if (timeline) timeline.dispose();
    timeline = new Timeline(parentElement);
    timelines.set(parentElement, timeline);
  }
  timeline.update(component);
  return () => {
    timeline.dispose();
    timelines.delete(parentElement);
  };
}
