// What stands beside the drawing: the blocks of a repeat, the edges of a link, waiting, and saving.

/** An element with a class and text; children instead of text where given. */
function part(tag, kind, content) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (Array.isArray(content)) element.append(...content);
  else if (content !== undefined) element.textContent = content;
  return element;
}

async function asked(path, query, signal) {
  const response = await fetch(`/api/dag/${path}?${query}`, { signal });
  const body = await response.json();
  if (!response.ok) throw new Error(body.error.message);
  return body;
}

/** The blocks of the repeat that the reader is at: their times, which one is shown, what differs. */
class RepeatBar {
  constructor(dag) {
    this.dag = dag;
    this.bar = dag.root.querySelector(".repeat");
    this.card = null;
  }

  /** The innermost unfolded repeat around what has the focus, else the only one that is shown. */
  box() {
    const { view, byId } = this.dag;
    if (!view) return null;
    const open = view.boxes.filter((box) => box.open && box.repeats);
    const at = byId.get(this.dag.focus || this.dag.selectedId() || "");
    const around = at && open.filter((box) => box.first <= at.first && at.first + at.count <= box.first + box.count);
    if (around && around.length) return around[around.length - 1];
    return open.length === 1 || this.card === null ? open[0] || null : byId.get(this.card.id) || open[0] || null;
  }

  async follow() {
    const box = this.box();
    const key = box ? `${this.dag.source}/${this.dag.fold}/${box.id}:${box.block}` : "";
    if (key === this.key) return;
    this.key = key;
    if (!box || !box.open) {
      this.bar.hidden = true;
      this.card = null;
      this.mark([]);
      return;
    }
    const query = new URLSearchParams({ ...this.dag.query, group: box.id, block: String(box.block) });
    try {
      const card = await asked("repeat", query);
      if (this.key === key) this.show(card);
    } catch {
      this.bar.hidden = true;
    }
  }

  show(card) {
    this.card = card;
    const { dag } = this;
    const to = (block) => () => {
      const box = dag.byId.get(card.id);
      if (box) dag.showBlock(box, block);
    };
    const at = card.block < 0 ? `all ${card.repeats.toLocaleString("en")}` :
      `${(card.block + 1).toLocaleString("en")} of ${card.repeats.toLocaleString("en")}`;
    const bars = part("div", card.bars.length > 40 ? "bars many" : "bars", card.bars.map(([first, last, height, differs]) => {
      const here = card.block >= first && card.block <= last;
      const bar = part("i", `${here ? "here" : ""} ${differs ? "differs" : ""}`.trim());
      bar.style.height = `${Math.max(8, height * 100)}%`;
      bar.addEventListener("click", to(first));
      return bar;
    }));
    bars.title = `Time of each: ${card.summary}`;
    const more = part("details", "differences", [
      part("summary", "", card.next_unlike < 0 ? "Differences" : "They differ"),
      part("ul", "", [part("li", "", `Times: ${card.summary}.`), ...card.differences.map((line) => part("li", "", line))]),
    ]);
    const buttons = [
      dagButton("‹", "The one before ( [ )", to(Math.max(0, card.block) - 1)),
      part("span", "at", at),
      dagButton("›", "The next one ( ] )", to(card.block + 1)),
    ];
    if (card.next_unlike >= 0) buttons.push(dagButton("Next that differs", "The next that is not like most", to(card.next_unlike)));
    buttons.push(card.block < 0 ? dagButton("One for all", "Show one for all", to(0)) :
      dagButton("All", "Show all of them side by side", to(-1)));
    const name = part("b", "", card.block < 0 || !card.block_title ? card.title : card.block_title);
    this.bar.replaceChildren(name, part("span", "time", card.block < 0 ? "" : card.block_time), bars, ...buttons, more);
    this.bar.hidden = false;
    this.bar.dataset.block = String(card.block);
    this.mark(card.unlike);
  }

  mark(nodes) {
    this.dag.unlike = new Set(nodes);
    this.dag.draw();
  }

  step(by) {
    const box = this.card && this.dag.byId.get(this.card.id);
    if (box) this.dag.stepBlock(box, by);
  }
}

/** The edges of a link, one by one, with type and ports; each end can be chosen. */
class EdgeCard {
  constructor(dag) {
    this.dag = dag;
    this.card = dag.root.querySelector(".edges");
  }

  async open(link) {
    const { dag } = this;
    dag.chosenLink = link;
    dag.hide();
    dag.draw();
    const query = new URLSearchParams({ ...dag.query, source: link.source, target: link.target });
    const list = await asked("edges", query);
    if (dag.chosenLink !== link) return;
    const [from, to] = [link.source, link.target].map((id) => dag.byId.get(id).label);
    const end = (place, text) => {
      const button = dagButton(text, `Choose node ${text}`, () => dag.choose(place));
      button.className = "end";
      return button;
    };
    const rows = list.rows.map((row) => part("li", row.critical ? "critical" : "", [
      end(row.source, row.before), part("span", "", "→"), end(row.target, row.after), part("small", "", row.what),
    ]));
    if (list.total > list.rows.length) rows.push(part("li", "", `and ${(list.total - list.rows.length).toLocaleString("en")} more`));
    const close = dagButton("×", "Close (Esc)", () => this.close());
    close.className = "close";
    this.card.replaceChildren(close, part("b", "", `${from} → ${to}`), part("p", "", list.kinds.join("; ") || "no edge: it holds it"), part("ul", "", rows));
    this.card.hidden = false;
    dag.say(`${list.total} edges from ${from} to ${to}: ${list.kinds.join("; ")}`);
  }

  /** Goes through the links of the box that has the focus. */
  next() {
    const { dag } = this;
    const at = dag.focus || dag.selectedId();
    const links = dag.view ? dag.view.links.filter((link) => link.count && (link.source === at || link.target === at)) : [];
    if (links.length) this.open(links[(links.indexOf(dag.chosenLink) + 1) % links.length]);
  }

  close() {
    this.card.hidden = true;
    if (this.dag.chosenLink) {
      this.dag.chosenLink = null;
      this.dag.draw();
    }
  }
}

/** Says what the server is at while a first view takes long, and lets the reader give it up. */
class Waiting {
  constructor(dag) {
    this.dag = dag;
    this.panel = dag.root.querySelector(".waiting");
    this.words = part("p", "");
    this.progress = part("progress", "");
    this.button = dagButton("Cancel", "Give up preparing the graph", () => this.giveUp());
    this.panel.replaceChildren(this.words, this.progress, this.button);
  }

  begin() {
    clearInterval(this.timer);
    const ticket = (this.ticket = {});
    this.timer = setInterval(() => this.look(ticket), 250);
    return ticket;
  }

  async look(ticket) {
    const job = await asked("progress", new URLSearchParams(this.dag.query)).catch(() => null);
    if (this.ticket !== ticket || !job || job.state !== "running") return;
    this.words.textContent = `Preparing the graph: ${job.what.toLowerCase()}`;
    Object.assign(this.progress, { max: 1, value: job.share });
    this.panel.hidden = false;
  }

  end(ticket = this.ticket) {
    if (ticket !== this.ticket) return;
    clearInterval(this.timer);
    this.ticket = null;
    this.panel.hidden = true;
  }

  giveUp() {
    const { dag } = this;
    fetch(`/api/dag/cancel?${new URLSearchParams(dag.query)}`, { method: "POST" });
    if (dag.loading) dag.loading.abort();
    this.end();
    const again = dagButton("Try again", "Prepare the graph", () => {
      dag.problem.hidden = true;
      dag.load(dag.last);
    });
    dag.problem.replaceChildren("Preparing the graph was cancelled. ", again);
    dag.problem.hidden = false;
  }
}

/** Saves what is seen: a picture of the whole drawing as it is folded now, or its structure. */
function saveMenu(dag) {
  const menu = part("details", "save");
  const item = (text, label, action) => dagButton(text, label, () => {
    menu.open = false;
    action();
  });
  menu.append(part("summary", "", "Save"), part("div", "items", [
    item("SVG", "Save what is seen as SVG", () => saveText(dag, "svg")),
    item("PNG", "Save what is seen as PNG", () => savePicture(dag)),
    item("DOT", "Save what is seen as DOT", () => saveText(dag, "dot")),
  ]));
  return menu;
}

async function saveText(dag, format) {
  if (!dag.view) return;
  const query = dag.queryOf(dag.view.expanded, dag.view.shown);
  query.set("format", format);
  query.set("theme", dag.theme.dark ? "dark" : "light");
  const file = await asked("drawing", query);
  saveBlob(new Blob([file.text], { type: file.type }), file.name);
}

const MOST_PIXELS = 8000;

function savePicture(dag) {
  if (!dag.view) return;
  const { view } = dag;
  const scale = Math.min(2, MOST_PIXELS / view.width, MOST_PIXELS / view.height);
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(view.width * scale);
  canvas.height = Math.ceil(view.height * scale);
  const ctx = canvas.getContext("2d");
  ctx.fillStyle = dag.theme.background;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  const { zoom, hot } = dag;
  // Text and lines as at full size, wherever the reader has zoomed to.
  dag.zoom = Math.max(1, scale);
  drawScene(dag, ctx, scale, 0, 0);
  Object.assign(dag, { zoom, hot });
  canvas.toBlob((blob) => saveBlob(blob, `${dag.query.run}-${dag.query.graph}.png`.replace(/[^\w.-]+/g, "-")));
}

function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
