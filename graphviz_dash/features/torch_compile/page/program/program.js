// The compiled program as a tree. Only visible rows are elements of the page, so that thousands of
// boxes scroll fast.

import { find, makeElement } from "../../../../ui/components/common/elements.js";
import { mount } from "../../../../ui/components/common/mount.js";
import { clamp, formatTime, pluralize } from "../../../../ui/components/common/numbers.js";
import { chooseFolds, listRows, makeTree } from "./rows.js";

/** @typedef {import("./wire.js").ProgramData} ProgramData */

const ROW_HEIGHT = 30;
const MARGIN_ROWS = 12;

/** @type {ProgramData} */
const NO_PROGRAM = {
  ids: [],
  parents: [],
  kinds: [],
  titles: [],
  lines: [],
  times: [],
  causes: [],
  step_ns: 0,
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
    this.data = NO_PROGRAM;
    this.tree = makeTree([], []);
    /** @type {Set<number>} */
    this.folds = new Set();
    /** @type {number[]} */
    this.rows = [];
    this.cursor = 0;
    /** @type {(id: string) => void} */
    this.reportSelection = () => {};
    this.done = new AbortController();
    const { signal } = this.done;
    this.list.addEventListener("scroll", () => this.draw(), { signal, passive: true });
    this.search.addEventListener("input", () => this.handleSearch(), { signal });
    this.list.addEventListener("keydown", (event) => this.handleKey(event), { signal });
    this.list.addEventListener("click", (event) => this.handleClick(event), { signal });
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.list);
  }

  /** @param {import("../../../../ui/components/common/mount.js").Component<ProgramData>} component */
  update({ data, setStateValue }) {
    this.reportSelection = (id) => setStateValue("selected", id);
    const isOther = data.ids.length !== this.data.ids.length || data.ids[0] !== this.data.ids[0];
    this.data = data;
    if (isOther) {
      const words = data.titles.map((title, i) => `${title} ${data.lines[i]} ${data.kinds[i]}`);
      this.tree = makeTree(data.parents, words);
      this.folds = chooseFolds(this.tree);
      this.list.scrollTop = 0;
    }
    this.updateRows();
  }

  dispose() {
    this.done.abort();
    this.watch.disconnect();
  }

  handleSearch() {
    this.list.scrollTop = 0;
    this.updateRows();
  }

  updateRows() {
    this.rows = listRows(this.tree, this.folds, this.search.value);
    this.cursor = clamp(this.cursor, 0, Math.max(0, this.rows.length - 1));
    this.space.style.height = `${this.rows.length * ROW_HEIGHT}px`;
    const all = pluralize(this.data.ids.length, "box").replace("boxs", "boxes");
    const some = this.rows.length.toLocaleString("en");
    this.count.textContent = this.search.value ? `${some} of ${all}` : all;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW_HEIGHT) - MARGIN_ROWS);
    const height = this.list.clientHeight || this.rows.length * ROW_HEIGHT;
    const last = Math.ceil((this.list.scrollTop + height) / ROW_HEIGHT) + MARGIN_ROWS;
    const rows = [];
    for (let at = first; at < Math.min(last, this.rows.length); at++) rows.push(this.makeRow(at));
    this.space.replaceChildren(...rows);
    this.host.dataset.painted = String(rows.length);
  }

  /** @param {number} at */
  makeRow(at) {
    const { data, tree } = this;
    const place = this.rows[at];
    const time = data.times[place];
    const share = time === null || !data.step_ns ? 0 : clamp(time / data.step_ns, 0, 1);
    const hasChildren = tree.end[place] > place + 1;
    const isOpen = hasChildren && (this.search.value !== "" || !this.folds.has(place));
    const bar = makeElement("span", "bar");
    bar.style.width = `${(share * 100).toFixed(2)}%`;
    const row = makeElement("div", "row", [
      makeElement("span", "fold", hasChildren ? (isOpen ? "▾" : "▸") : ""),
      makeElement("span", "kind", data.kinds[place]),
      makeElement("span", "title", data.titles[place]),
      makeElement("span", "line", data.lines[place]),
      makeElement("span", "fix-count", data.causes[place] ? `${data.causes[place]} to fix` : ""),
      makeElement("span", "time", [
        bar,
        makeElement("span", "", time === null ? "" : formatTime(time)),
      ]),
    ]);
    row.style.transform = `translateY(${at * ROW_HEIGHT}px)`;
    row.style.setProperty("--depth", String(tree.depth[place]));
    row.style.setProperty("--share", `${(Math.sqrt(share) * 26).toFixed(1)}%`);
    row.dataset.at = String(at);
    row.dataset.tint = this.getTint(place, share);
    row.setAttribute("role", "treeitem");
    row.setAttribute("aria-level", String(tree.depth[place] + 1));
    row.setAttribute("aria-selected", String(data.ids[place] === data.selected));
    if (hasChildren) row.setAttribute("aria-expanded", String(isOpen));
    if (at === this.cursor) row.classList.add("cursor");
    return row;
  }

  /**
   * @param {number} place
   * @param {number} share
   */
  getTint(place, share) {
    if (this.data.colour === "cause") return this.data.causes[place] ? "cause" : "";
    return share ? "time" : "";
  }

  /** @param {MouseEvent} event */
  handleClick(event) {
    const target = event.target instanceof Element ? event.target : null;
    const row = target?.closest(".row");
    if (!(row instanceof HTMLElement)) return;
    this.cursor = Number(row.dataset.at);
    if (target?.classList.contains("fold")) this.toggleFold();
    else this.selectRow();
  }

  selectRow() {
    const id = this.data.ids[this.rows[this.cursor]];
    if (id === undefined) return;
    this.data = { ...this.data, selected: id };
    this.reportSelection(id);
    this.draw();
  }

  toggleFold() {
    const place = this.rows[this.cursor];
    if (this.tree.end[place] === place + 1) return;
    if (!this.folds.delete(place)) this.folds.add(place);
    this.updateRows();
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const place = this.rows[this.cursor];
    const isFolded = this.folds.has(place);
    if (event.key === "ArrowDown") this.moveCursor(1);
    else if (event.key === "ArrowUp") this.moveCursor(-1);
    else if (event.key === "ArrowRight" && isFolded) this.toggleFold();
    else if (event.key === "ArrowLeft" && !isFolded) this.toggleFold();
    else if (event.key === "Enter" || event.key === " ") this.selectRow();
    else return;
    event.preventDefault();
  }

  /** @param {number} by */
  moveCursor(by) {
    this.cursor = clamp(this.cursor + by, 0, Math.max(0, this.rows.length - 1));
    const top = this.cursor * ROW_HEIGHT;
    const { scrollTop, clientHeight } = this.list;
    if (top < scrollTop) this.list.scrollTop = top;
    else if (top + ROW_HEIGHT > scrollTop + clientHeight) {
      this.list.scrollTop = top + ROW_HEIGHT - clientHeight;
    }
    this.draw();
  }
}

export default mount(ProgramTree, ".program");
