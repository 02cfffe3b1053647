// The DAG: a folded graph whose groups unfold in place, from views that the server lays out.

const FIELDS = ["id", "x", "y", "w", "h", "node", "open", "label", "note", "time", "colour", "strip", "repeats", "name", "body", "where", "off", "critical", "first", "count", "block", "differ"];
const LINK_FIELDS = ["source", "target", "points", "dashed", "text", "count", "critical"];
const SEARCH_MS = 140;
const REST_MS = 110;
const TWEEN_MS = 130;
const MAX_ZOOM = 3;
const BY_MODULE = "module";

class Dag {
  constructor(root) {
    this.root = root;
    this.host = root.querySelector(".dag");
    this.canvas = root.querySelector("canvas");
    this.ctx = this.canvas.getContext("2d");
    this.tooltip = root.querySelector(".tooltip");
    this.problem = root.querySelector(".problem");
    this.state = root.querySelector(".state");
    this.live = root.querySelector(".live");
    this.legend = root.querySelector(".legend");
    this.search = root.querySelector(".search");
    this.hitsText = root.querySelector(".hits");
    Object.assign(this, { view: null, zoom: 1, x: 0, y: 0, focus: null, hover: null, selected: null });
    Object.assign(this, { hits: new Set(), hitList: [], hitLeaves: [], hitAt: -1, painted: 0, colours: [] });
    Object.assign(this, { unlike: new Set(), hot: [], hoverLink: null, chosenLink: null });
    Object.assign(this, { complete: false, completing: null, loading: null, said: null });
    Object.assign(this, { moving: false, slow: false, crisp: false, layer: null, whole: null, tween: null });
    this.canvas.__dag = this;
    const buttons = root.querySelector(".buttons");
    if (!buttons.querySelector("button"))
      buttons.append(
        dagButton("−", "Zoom out (-)", () => this.zoomBy(1 / 1.3)),
        dagButton("+", "Zoom in (+)", () => this.zoomBy(1.3)),
        dagButton("Fit", "Fit the graph (F)", () => this.fit()),
        dagButton("Fold", "Fold as at the start", () => this.load({ fresh: true, fit: true })),
        (this.byModule = dagButton("By module", "Fold by module path (M)", () => this.foldByModule())),
        saveMenu(this),
      );
    this.repeat = new RepeatBar(this);
    this.edges = new EdgeCard(this);
    this.waiting = new Waiting(this);
    this.stop = new AbortController();
    listenDag(this, this.stop.signal);
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(this.canvas);
  }

  /** Takes what Python says; another graph starts afresh, another colour keeps what is open. */
  update(component) {
    const { data, setStateValue } = component;
    this.setStateValue = setStateValue;
    this.palette = data.palette;
    this.readTheme();
    this.host.style.height = `${data.height}px`;
    this.resize();
    const source = JSON.stringify([data.experiment, data.run, data.graph, data.against]);
    const fresh = source !== this.source;
    const recoloured = data.colour !== this.colour;
    this.colour = data.colour;
    this.ready = data.ready;
    const refolded = data.fold !== this.fold;
    this.fold = data.fold;
    this.byModule.setAttribute("aria-pressed", String(this.fold === BY_MODULE));
    if (fresh) {
      this.source = source;
      this.complete = false;
      if (this.completing) this.completing.abort();
      this.completing = null;
      this.graph = { experiment: data.experiment, run: data.run, graph: data.graph, ...data.against };
      this.asked = data.selected;
      this.selected = data.selected;
      performance.mark("dag:mount");
      this.load({ fresh: true, fit: true, focus: data.selected });
    } else if (refolded) {
      this.asked = this.selected = data.selected;
      this.load({ fresh: true, fit: true, focus: data.selected });
    } else if (data.selected !== this.asked && data.selected !== this.selected) {
      this.asked = data.selected;
      this.selected = data.selected;
      if (data.selected === null) this.draw();
      else this.load({ focus: data.selected });
    } else if (recoloured) this.load({});
    this.asked = data.selected;
    if ((data.find || "") !== (this.askedText || "")) {
      this.askedText = data.find || "";
      if (this.askedText !== this.search.value.trim()) {
        this.search.value = this.askedText;
        if (this.view) this.find();
      }
    }
    this.paintTheme();
  }

  readTheme() {
    this.theme = readTheme(this.host, this.palette);
    this.theme.critical = this.palette.critical[this.theme.dark ? 1 : 0];
    this.host.style.setProperty("--dag-critical", this.theme.critical);
  }

  dispose() {
    this.stop.abort();
    this.resizes.disconnect();
    clearTimeout(this.timer);
    clearTimeout(this.rest);
    this.waiting.end();
    if (this.loading) this.loading.abort();
    if (this.completing) this.completing.abort();
  }

  // -- Data -------------------------------------------------------------------------------------

  /** The parameters that say which graph, and how it is folded. */
  get query() {
    return { ...this.graph, fold: this.fold };
  }

  /** The parameters of a view; `open` are the ids of unfolded groups, null for those that fit. */
  queryOf(open, shown) {
    const ratio = Math.min(20, Math.max(0.1, (this.width || 16) / (this.height || 10)));
    const query = new URLSearchParams({ ...this.query, colour: this.colour, ratio: ratio.toFixed(3) });
    if (open) query.set("expanded", open.join(","));
    const pairs = Object.entries(shown || {}).map(([id, block]) => `${id}:${block}`);
    if (pairs.length) query.set("shown", pairs.join(","));
    return query;
  }

  /** Fetches a view. `fresh`: what the server unfolds by itself; `first`: the group that unfolds
      even if others must fold for it; `shown`: the blocks that repeats show; `keep`: the box that
      stays where it is on the screen; `focus`: the node to bring into view; `fit`: show all. */
  async load({ fresh = false, expanded = null, shown = null, first = null, keep = null, focus = null, fit = false }) {
    if (this.loading) this.loading.abort();
    const request = (this.loading = new AbortController());
    const before = fresh || !this.view ? null : this.view;
    const query = this.queryOf(expanded || (before && before.expanded), shown || (before && before.shown));
    // A large graph is drawn before its times are known.
    if (!this.complete) query.set("soon", "yes");
    if (first) query.set("first", first);
    if (focus !== null && focus !== undefined) query.set("focus", String(focus));
    this.last = { fresh, expanded, shown, first, keep, focus, fit };
    const begin = performance.now();
    const ticket = this.waiting.begin();
    try {
      const response = await fetch(`/api/dag/view?${query}`, { signal: request.signal });
      const body = await response.json();
      if (!response.ok) throw new Error(body.error.message);
      this.show(body, { keep, focus, fit });
      this.canvas.dataset.loadMs = (performance.now() - begin).toFixed(1);
      this.canvas.dataset.fold = query.get("fold");
      this.complete = body.complete;
      if (fresh && this.search.value.trim()) this.find();
      if (body.complete) this.tell();
      else this.awaitTimes();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.problem.textContent = `The graph cannot be shown: ${error.message}`;
      this.problem.hidden = false;
    } finally {
      if (this.loading === request) this.loading = null;
      this.waiting.end(ticket);
    }
  }

  /** Once the server knows the times too, the same view again with them. */
  async awaitTimes() {
    if (this.completing) return;
    const waiting = (this.completing = new AbortController());
    const source = this.source;
    try {
      await asked("complete", new URLSearchParams(this.query), waiting.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.state.textContent = `The times cannot be shown: ${error.message}`;
      return;
    } finally {
      if (this.completing === waiting) this.completing = null;
    }
    if (source !== this.source) return;
    this.complete = true;
    // What is being fetched asks again when it is there without them.
    if (!this.loading) await this.load({});
    this.tell();
  }

  /** The page left what takes long to the drawing: now all of it is there. */
  tell() {
    if (this.ready !== false || this.said === this.source) return;
    this.said = this.source;
    this.setStateValue("loaded", this.source);
  }

  show(body, { keep, focus, fit }) {
    const old = this.view && this.byId;
    const before = keep && old && old.get(keep);
    const view = body;
    view.boxes = body.boxes.map((row) => named(FIELDS, row));
    view.links = body.links.map((row) => named(LINK_FIELDS, row));
    for (const box of view.boxes) if (box.node >= 0 && !box.where) box.where = `node ${box.node}`;
    this.view = view;
    this.byId = new Map(view.boxes.map((box) => [box.id, box]));
    this.problem.hidden = true;
    this.forget();
    Object.assign(this, { hover: null, hoverLink: null, chosenLink: null });
    this.edges.close();
    const after = keep && this.byId.get(keep);
    if (before && after) {
      // What was clicked stays under the pointer; everything else moves around it.
      this.x += (before.x - after.x) * this.zoom;
      this.y += (before.y - after.y) * this.zoom;
      if (!calm()) this.startTween(old, before, after);
    }
    if (fit) this.fit(false);
    const wanted = focus === null || focus === undefined ? null : this.byId.get(`n${focus}`);
    if (wanted) this.reveal(wanted);
    if (this.focus && !this.byId.has(this.focus)) this.focus = null;
    this.paintTheme();
    this.repeat.follow();
    performance.mark("dag:shown");
  }

  /** Boxes move from where they were, by the place that stays; new ones come out of that box. */
  startTween(old, before, after) {
    const dx = after.x - before.x;
    const dy = after.y - before.y;
    const from = new Map();
    for (const [id, box] of old)
      if (this.byId.has(id)) from.set(id, { x: box.x + dx, y: box.y + dy, w: box.w, h: box.h });
    const source = { x: after.x, y: after.y, w: before.w, h: before.h };
    this.tween = { begin: performance.now(), ms: TWEEN_MS, from, source };
  }

  /** Drops what was made for drawing the view before. */
  forget() {
    Object.assign(this, { paths: null, layer: null, whole: null, mapPicture: null, crisp: false, slow: false });
  }

  paintTheme() {
    const side = this.theme.dark ? "dark" : "light";
    const legend = this.view ? this.view.legend : [];
    this.colours = legend.map((entry) => entry[side]);
    this.legend.replaceChildren(
      ...legend.map((entry) => {
        const chip = document.createElement("span");
        chip.className = "chip";
        const mark = document.createElement("i");
        mark.style.background = entry[side];
        chip.append(mark, entry.label);
        return chip;
      }),
    );
    if (this.view && this.view.boxes.some((box) => box.critical)) {
      const chip = document.createElement("span");
      chip.className = "chip path";
      const mark = document.createElement("i");
      mark.style.background = this.theme.critical;
      chip.append(mark, "critical path");
      this.legend.append(chip);
    }
    if (this.view) {
      const { nodes, edges, boxes, full, note, complete } = this.view;
      const shown = boxes.filter((box) => !box.open).length;
      const more = (full ? " · more unfold when others are folded" : "") + (note ? ` · ${note}` : "") + (complete ? "" : " · times follow");
      const boxed = shown === 1 ? "1 box" : `${shown} boxes`;
      this.state.textContent = `${counted(nodes, "node")}, ${counted(edges, "edge")} · ${boxed}${more}`;
      this.canvas.setAttribute(
        "aria-label",
        `Graph of ${counted(nodes, "node")} in ${boxed}. Arrows walk along the edges, Enter unfolds or chooses.`,
      );
    }
    this.paths = this.mapPicture = this.whole = this.layer = null;
    this.draw();
  }

  // -- Place ------------------------------------------------------------------------------------

  resize() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const dpr = window.devicePixelRatio || 1;
    if (!width || !height) return;
    if (width === this.width && height === this.height && dpr === this.dpr) return;
    const first = !this.width;
    Object.assign(this, { width, height, dpr });
    this.canvas.width = Math.round(width * dpr);
    this.canvas.height = Math.round(height * dpr);
    this.whole = this.layer = this.mapPicture = null;
    if (first && this.view) this.fit(false);
    this.paint();
  }

  fit(draw = true) {
    if (!this.view || !this.width) return;
    const margin = 14;
    const across = (this.width - 2 * margin) / this.view.width;
    const down = (this.height - 2 * margin) / this.view.height;
    this.zoom = Math.min(1.15, across, down);
    this.x = (this.width - this.view.width * this.zoom) / 2;
    this.y = Math.max(margin, (this.height - this.view.height * this.zoom) / 2);
    if (draw) this.draw();
  }

  zoomBy(factor, x = this.width / 2, y = this.height / 2) {
    if (!this.view) return;
    const least = Math.min(0.05, this.width / this.view.width / 2);
    const zoom = Math.min(MAX_ZOOM, Math.max(least, this.zoom * factor));
    this.x = x - ((x - this.x) * zoom) / this.zoom;
    this.y = y - ((y - this.y) * zoom) / this.zoom;
    this.zoom = zoom;
    this.move();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.move();
  }

  lookAt(x, y) {
    this.x = this.width / 2 - x * this.zoom;
    this.y = this.height / 2 - y * this.zoom;
    this.draw();
  }

  /** Draws after a step of zooming or panning; sharp again once the reader rests. */
  move() {
    this.hide();
    if (!this.moving) keepFrame(this);
    this.moving = true;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.moving = false;
      this.lastFrame = 0;
      this.draw();
    }, REST_MS);
    this.draw();
  }

  /** Brings a box into view, readable, moving no more than is needed. */
  reveal(box) {
    if (this.zoom < 0.7) this.zoom = 0.8;
    const left = box.x * this.zoom + this.x;
    const top = box.y * this.zoom + this.y;
    const inside =
      left > 20 && top > 20 && left + box.w * this.zoom < this.width - 20 && top + box.h * this.zoom < this.height - 20;
    if (!inside) this.lookAt(box.x + box.w / 2, box.y + box.h / 2);
    this.focus = box.id;
    this.draw();
  }

  boxAt(x, y) {
    if (!this.view) return null;
    const gx = (x - this.x) / this.zoom;
    const gy = (y - this.y) / this.zoom;
    let found = null;
    for (const box of this.view.boxes) {
      const inside = gx >= box.x && gx <= box.x + box.w && gy >= box.y && gy <= box.y + box.h;
      // Of an unfolded group only its head is clicked; inside it lie the others.
      if (inside && (!box.open || gy <= box.y + 26)) found = box;
    }
    return found;
  }

  /** The link that passes within a few pixels of a place on the screen, if any does. */
  linkAt(x, y) {
    if (!this.view) return null;
    const gx = (x - this.x) / this.zoom;
    const gy = (y - this.y) / this.zoom;
    let nearest = 6 / this.zoom;
    let found = null;
    for (const link of this.view.links) {
      const away = distanceTo(link.points, gx, gy);
      if (away < nearest) [nearest, found] = [away, link];
    }
    return found;
  }

  /** The arrow to another block of a repeat at a place on the screen, if there is one. */
  arrowAt(x, y) {
    const gx = (x - this.x) / this.zoom;
    const gy = (y - this.y) / this.zoom;
    return this.hot.find((one) => gx >= one.x && gx <= one.x + one.w && gy >= one.y && gy <= one.y + one.h);
  }

  /** Centre of a box on the screen, by its id or a node's index; null when it is not shown. */
  positionOf(which) {
    const box = this.byId && this.byId.get(typeof which === "number" ? `n${which}` : which);
    if (!box) return null;
    const bounds = this.canvas.getBoundingClientRect();
    const down = box.open ? 13 : box.h / 2;
    return {
      x: bounds.left + this.x + (box.x + (box.open ? 40 : box.w / 2)) * this.zoom,
      y: bounds.top + this.y + (box.y + down) * this.zoom,
    };
  }

  // -- Doing ------------------------------------------------------------------------------------

  /** What a click at a place of the canvas does. */
  clickAt(x, y) {
    const arrow = this.arrowAt(x, y);
    if (arrow) return this.stepBlock(arrow.box, arrow.by);
    const box = this.boxAt(x, y);
    const link = box && !box.open ? null : this.linkAt(x, y);
    if (link && !(box && box.open)) return this.edges.open(link);
    return this.act(box);
  }

  /** Shows another block of an unfolded repeat: `by` further, or number `to` (-1: all). */
  showBlock(box, to) {
    const count = box.repeats;
    const block = to < 0 ? -1 : ((to % count) + count) % count;
    this.focus = box.id;
    this.say(block < 0 ? `all ${count} shown` : `${block + 1} of ${count} shown`);
    this.load({ shown: { ...this.view.shown, [box.id]: block }, first: box.id, keep: box.id });
  }

  stepBlock(box, by) {
    this.showBlock(box, Math.max(0, box.block) + by);
  }

  act(box) {
    if (!box) return this.clear();
    this.focus = box.id;
    this.edges.close();
    this.repeat.follow();
    if (box.node >= 0) return this.select(box.node);
    const open = new Set(this.view.expanded);
    if (box.open) {
      for (const id of open) if (id === box.id || id.startsWith(`${box.id}.`)) open.delete(id);
    } else open.add(box.id);
    this.say(`${box.label} ${box.open ? "folded" : "unfolded"}`);
    this.load({ expanded: [...open], first: box.open ? null : box.id, keep: box.id });
  }

  /** Folds by module path, or again by the order of execution; what is selected stays in view. */
  foldByModule() {
    this.fold = this.fold === BY_MODULE ? "order" : BY_MODULE;
    this.byModule.setAttribute("aria-pressed", String(this.fold === BY_MODULE));
    this.focus = null;
    this.say(this.fold === BY_MODULE ? "folded by module path" : "folded by order of execution");
    this.load({ fresh: true, fit: true, focus: this.selected });
    this.setStateValue("fold", this.fold);
  }

  /** Selects a node wherever it is, and brings it into view. */
  choose(node) {
    this.edges.close();
    if (this.byId.has(`n${node}`)) this.reveal(this.byId.get(`n${node}`));
    else this.load({ focus: node });
    this.select(node);
  }

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
    if (this.selected !== null && this.selected !== undefined) {
      this.selected = null;
      this.asked = null;
      this.setStateValue("selected", { node: null });
    }
    this.draw();
  }

  selectedId() {
    return this.selected === null || this.selected === undefined ? null : `n${this.selected}`;
  }

  focusBox() {
    return (this.focus && this.byId.get(this.focus)) || null;
  }

  /** Moves the focus along an edge: to what comes after ("target") or before ("source"). */
  walk(end) {
    if (!this.view) return;
    const other = end === "target" ? "source" : "target";
    const now = this.focus || this.selectedId();
    const link = now && this.view.links.find((one) => one[other] === now);
    const first = this.view.boxes.find((box) => !box.open);
    const next = link ? this.byId.get(link[end]) : now ? null : first;
    if (next) this.moveTo(next);
  }

  /** Moves the focus to the next box to the side, among those that follow the same one. */
  beside(by) {
    const box = this.focusBox();
    if (!box) return this.walk("target");
    const shown = this.view.boxes.filter((one) => !one.open && Math.abs(one.y - box.y) < box.h);
    shown.sort((a, b) => a.x - b.x);
    const next = shown[shown.indexOf(box) + by];
    if (next) this.moveTo(next);
  }

  moveTo(box) {
    this.reveal(box);
    this.say(`${box.label}, ${box.note}, ${box.time}`);
  }

  // -- Search -----------------------------------------------------------------------------------

  type() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.find(), SEARCH_MS);
  }

  async find() {
    const text = this.search.value.trim();
    if (text !== (this.askedText || "")) {
      this.askedText = text;
      this.setStateValue("found", text);
    }
    if (!text) {
      this.hits = new Set();
      this.hitList = [];
      this.hitLeaves = [];
      this.hitsText.textContent = "";
      this.canvas.dataset.hits = "";
      this.paintTheme();
      return;
    }
    const query = new URLSearchParams({ ...this.query, q: text });
    const response = await fetch(`/api/dag/search?${query}`);
    const body = await response.json();
    if (!response.ok || text !== this.search.value.trim()) return;
    this.hitList = body.nodes;
    this.hits = new Set(body.nodes);
    this.hitLeaves = body.leaves;
    this.hitAt = -1;
    this.hitsText.textContent = body.total ? `${body.total} found` : "none found";
    this.canvas.dataset.hits = String(body.total);
    const open = [...new Set([...this.view.expanded, ...body.around])].slice(0, 400);
    await this.load({ expanded: open });
    if (body.total) this.nextHit(1);
  }

  nextHit(by) {
    if (!this.hitList.length) return;
    this.hitAt = (this.hitAt + by + this.hitList.length) % this.hitList.length;
    const node = this.hitList[this.hitAt];
    this.hitsText.textContent = `${this.hitAt + 1} of ${this.hitList.length}`;
    const box = this.byId.get(`n${node}`);
    if (box) this.reveal(box);
    else this.load({ focus: node });
  }

  /** How many of the nodes found are in a box. */
  hitsIn(box) {
    return below(this.hitLeaves, box.first + box.count) - below(this.hitLeaves, box.first);
  }

  // -- Showing ----------------------------------------------------------------------------------

  isHover(box) {
    return this.hover === box || this.focus === box.id;
  }

  hoverAt(x, y) {
    const box = this.boxAt(x, y);
    const link = box ? null : this.linkAt(x, y);
    this.canvas.style.cursor = box || link ? "pointer" : "";
    if (box !== this.hover || link !== this.hoverLink) {
      this.hover = box;
      this.hoverLink = link;
      this.draw();
    }
    if (!box && !link) return this.hide();
    const lines = link ? linkLines(this, link) : boxLines(this, box);
    this.tooltip.replaceChildren(
      ...lines.map((line, i) => {
        const element = document.createElement(i ? "small" : "b");
        element.textContent = line;
        return element;
      }),
    );
    this.tooltip.hidden = false;
    const { offsetWidth: w, offsetHeight: h } = this.tooltip;
    const left = x + 16 + w > this.width ? x - w - 12 : x + 16;
    const top = y + 16 + h > this.height ? y - h - 10 : y + 16;
    this.tooltip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  }

  hide() {
    this.tooltip.hidden = true;
    if (this.hover || this.hoverLink) {
      this.hover = this.hoverLink = null;
      this.draw();
    }
  }

  say(text) {
    this.live.textContent = text;
  }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      this.judge(now);
      this.paint();
    });
  }

  /** A view whose frames follow each other too slowly in motion is slow. */
  judge(now) {
    const gap = this.moving && this.lastFrame ? now - this.lastFrame : 0;
    this.lastFrame = this.moving ? now : 0;
    if (gap < SLOW_FRAME_MS || gap > REST_MS || this.slow) return;
    this.slow = true;
    keepFrame(this);
  }

  paint() {
    if (!this.width || !this.theme) return;
    drawDag(this);
    this.painted += 1;
    const { dataset } = this.canvas;
    dataset.painted = String(this.painted);
    dataset.boxes = this.view ? String(this.view.boxes.length) : "";
    dataset.zoom = this.zoom.toFixed(3);
    dataset.selected = this.selected === null || this.selected === undefined ? "" : String(this.selected);
  }
}

const dags = new WeakMap();

export default function (component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".dag");
  let dag = dags.get(parentElement);
  if (!dag || dag.host !== host) {
    if (dag) dag.dispose();
    dag = new Dag(parentElement);
    dags.set(parentElement, dag);
  }
  dag.update(component);
  return () => {
    dag.dispose();
    dags.delete(parentElement);
  };
}
