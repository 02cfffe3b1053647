// The edges of a link, one by one, with type and ports; each end can be chosen.

import { button, element, find } from "../common/elements.js";
import { formatCount } from "../common/numbers.js";
import { ask } from "../common/server.js";

/** @import { Dag } from "./dag.js" */
/** @import { EdgeList, EdgeRow, Link } from "./wire.js" */

export class EdgeCard {
  /** @param {Dag} dag */
  constructor(dag) {
    this.dag = dag;
    this.card = find(dag.root, ".edges", HTMLElement);
  }

  /** @param {Link} link */
  async open(link) {
    const { dag } = this;
    const { state } = dag;
    state.chosenLink = link;
    dag.hide();
    dag.renderer.draw();
    const { source, target } = link;
    /** @type {EdgeList} */
    const list = await ask(
      `/api/dag/edges?${new URLSearchParams({ ...state.query, source, target })}`,
    );
    if (state.chosenLink !== link) return;
    const [from, to] = [state.labelOf(source), state.labelOf(target)];
    const rows = list.rows.map((row) => this.row(row));
    if (list.total > rows.length) {
      rows.push(element("li", "", `and ${formatCount(list.total - rows.length)} more`));
    }
    const close = button("×", "Close (Esc)", () => this.close());
    close.className = "close";
    this.card.replaceChildren(
      close,
      element("b", "", `${from} → ${to}`),
      element("p", "", list.kinds.join("; ") || "no edge: it holds it"),
      element("ul", "", rows),
    );
    this.card.hidden = false;
    dag.chrome.announce(`${list.total} edges from ${from} to ${to}: ${list.kinds.join("; ")}`);
  }

  /** @param {EdgeRow} row */
  row(row) {
    return element("li", row.critical ? "critical" : "", [
      this.end(row.source, row.before),
      element("span", "", "→"),
      this.end(row.target, row.after),
      element("small", "", row.what),
    ]);
  }

  /**
   * @param {number} node
   * @param {string} text
   */
  end(node, text) {
    const made = button(text, `Choose node ${text}`, () => this.dag.choose(node));
    made.className = "end";
    return made;
  }

  /** Goes through the links of the box that has the focus. */
  next() {
    const link = this.dag.state.nextLink();
    if (link) this.open(link);
  }

  close() {
    this.card.hidden = true;
    if (!this.dag.state.chosenLink) return;
    this.dag.state.chosenLink = null;
    this.dag.renderer.draw();
  }
}
