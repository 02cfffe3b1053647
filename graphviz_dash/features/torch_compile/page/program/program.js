// The compiled program as a tree: a list of which only the rows in sight are elements of the page,
// so that thousands of boxes scroll like ten.

import { element, find } from "../../../../ui/components/common/elements.js";
import { mount } from "../../../../ui/components/common/mount.js";
import { clamp, counted, formatTime } from "../../../../ui/components/common/numbers.js";
import { firstFolds, makeTree, shownRows } from "./rows.js";

/** @typedef {import("./wire.js").ProgramData} ProgramData */

const ROW = 30;
const MARGIN = 12;

/** @type {ProgramData} */
const NOTHING = {
  ids: [],
  parents: [],
  kinds: [],
  titles: [],
  lines: [],
  times: [],
  causes: [],
  whole: 0,
  colour: "time",
  selected: null,
};

class ProgramTree {
  /** @param {HTMLElement | ShadowRoot} root */
  constructor(root) {
    this.host = find(root, ".program", HTMLElement);
    this.list = find(root, ".list", HTMLElement);
    this.space = find(root, ".space", HTMLElement);
    this.search = find(root, "input", HTMLInputElement);
    this.count = find(root, ".count", HTMLElement);
    this.data = NOTHING;
    this.tree = makeTree([], []);
    /** @type {Set<number>} */
    this.folds = new Set();
    /** @type {number[]} */
    this.rows = [];
    this.cursor = 0;
    /** @type {(id: string) => void} */
    this.select = () => {};
    this.done = new AbortController();
    const { signal } = this.done;
    this.list.addEventListener("scroll", () => this.draw(), { signal, passive: true });
    this.search.addEventListener("input", () => this.searched(), { signal });
    this.list.addEventListener("keydown", (event) => this.key(event), { signal });
    this.list.addEventListener("click", (event) => this.clicked(event), { signal });
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.list);
  }

  /** @param {import("../../../../ui/components/common/mount.js").Component<ProgramData>} component */
  update({ data, setStateValue }) {
    this.select = (id) => setStateValue("selected", id);
    const isOther = data.ids.length !== this.data.ids.length || data.ids[0] !== this.data.ids[0];
    this.data = data;
    if (isOther) {
      const words = data.titles.map((title, i) => `${title} ${data.lines[i]} ${data.kinds[i]}`);
      this.tree = makeTree(data.parents, words);
      this.folds = firstFolds(this.tree);
      this.list.scrollTop = 0;
    }
    this.arrange();
  }

  dispose() {
    this.done.abort();
    this.watch.disconnect();
  }

  searched() {
    this.list.scrollTop = 0;
    this.arrange();
  }

  arrange() {
    this.rows = shownRows(this.tree, this.folds, this.search.value);
    this.cursor = clamp(this.cursor, 0, Math.max(0, this.rows.length - 1));
    this.space.style.height = `${this.rows.length * ROW}px`;
    const all = counted(this.data.ids.length, "box").replace("boxs", "boxes");
    const some = this.rows.length.toLocaleString("en");
    this.count.textContent = this.search.value ? `${some} of ${all}` : all;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - MARGIN);
    const height = this.list.clientHeight || this.rows.length * ROW;
    const last = Math.ceil((this.list.scrollTop + height) / ROW) + MARGIN;
    const made = [];
    for (let at = first; at < Math.min(last, this.rows.length); at++) made.push(this.row(at));
    this.space.replaceChildren(...made);
    this.host.dataset.painted = String(made.length);
  }

  /** @param {number} at */
  row(at) {
    const { data, tree } = this;
    const place = this.rows[at];
    const time = data.times[place];
    const share = time === null || !data.whole ? 0 : clamp(time / data.whole, 0, 1);
    const hasChildren = tree.end[place] > place + 1;
    const isOpen = hasChildren && (this.search.value !== "" || !this.folds.has(place));
    const bar = element("span", "bar");
    bar.style.width = `${(share * 100).toFixed(2)}%`;
    const made = element("div", "row", [
      element("span", "fold", hasChildren ? (isOpen ? "▾" : "▸") : ""),
      element("span", "kind", data.kinds[place]),
      element("span", "title", data.titles[place]),
      element("span", "line", data.lines[place]),
      element("span", "mend", data.causes[place] ? `${data.causes[place]} to mend` : ""),
      element("span", "time", [bar, element("span", "", time === null ? "" : formatTime(time))]),
    ]);
    made.style.transform = `translateY(${at * ROW}px)`;
    made.style.setProperty("--depth", String(tree.depth[place]));
    made.style.setProperty("--share", `${(Math.sqrt(share) * 26).toFixed(1)}%`);
    made.dataset.at = String(at);
    made.dataset.tint = this.tint(place, share);
    made.setAttribute("role", "treeitem");
    made.setAttribute("aria-level", String(tree.depth[place] + 1));
    made.setAttribute("aria-selected", String(data.ids[place] === data.selected));
    if (hasChildren) made.setAttribute("aria-expanded", String(isOpen));
    if (at === this.cursor) made.classList.add("cursor");
    return made;
  }

  /**
   * @param {number} place
   * @param {number} share
   */
  tint(place, share) {
    if (this.data.colour === "cause") return this.data.causes[place] ? "cause" : "";
    return share ? "time" : "";
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = event.target instanceof Element ? event.target : null;
    const row = target?.closest(".row");
    if (!(row instanceof HTMLElement)) return;
    this.cursor = Number(row.dataset.at);
    if (target?.classList.contains("fold")) this.fold();
    else this.choose();
  }

  choose() {
    const id = this.data.ids[this.rows[this.cursor]];
    if (id === undefined) return;
    this.data = { ...this.data, selected: id };
    this.select(id);
    this.draw();
  }

  fold() {
    const place = this.rows[this.cursor];
    if (this.tree.end[place] === place + 1) return;
    if (!this.folds.delete(place)) this.folds.add(place);
    this.arrange();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const place = this.rows[this.cursor];
    const isFolded = this.folds.has(place);
    if (event.key === "ArrowDown") this.move(1);
    else if (event.key === "ArrowUp") this.move(-1);
    else if (event.key === "ArrowRight" && isFolded) this.fold();
    else if (event.key === "ArrowLeft" && !isFolded) this.fold();
    else if (event.key === "Enter" || event.key === " ") this.choose();
    else return;
    event.preventDefault();
  }

  /** @param {number} by */
  move(by) {
    this.cursor = clamp(this.cursor + by, 0, Math.max(0, this.rows.length - 1));
    const top = this.cursor * ROW;
    const { scrollTop, clientHeight } = this.list;
    if (top < scrollTop) this.list.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.list.scrollTop = top + ROW - clientHeight;
    this.draw();
  }
}

export default mount(ProgramTree, ".program");
