// The card of a link: its edges with type and ports. Each end selects its node.

import { find, makeButton, makeElement } from "../../../../ui/components/common/elements.js";
import { formatCount } from "../../../../ui/components/common/numbers.js";
import { fetchJson } from "../../../../ui/components/common/server.js";

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
    dag.clearHover();
    dag.renderer.draw();
    const { source, target } = link;
    /** @type {EdgeList} */
    const list = await fetchJson(
      `/api/dag/edges?${new URLSearchParams({ ...state.query, source, target })}`,
    );
    if (state.chosenLink !== link) return;
    const [from, to] = [state.getLabel(source), state.getLabel(target)];
    const rows = list.rows.map((row) => this.makeRow(row));
    if (list.total > rows.length) {
      rows.push(makeElement("li", "", `and ${formatCount(list.total - rows.length)} more`));
    }
    const close = makeButton("×", "Close (Esc)", () => this.close());
    close.className = "close";
    this.card.replaceChildren(
      close,
      makeElement("b", "", `${from} → ${to}`),
      makeElement("p", "", list.kinds.join("; ") || "no edge: the node contains the graph"),
      makeElement("ul", "", rows),
    );
    this.card.hidden = false;
    dag.chrome.announce(`${list.total} edges from ${from} to ${to}: ${list.kinds.join("; ")}`);
  }

  /** @param {EdgeRow} row */
  makeRow(row) {
    return makeElement("li", row.critical ? "critical" : "", [
      this.makeEnd(row.source, row.before),
      makeElement("span", "", "→"),
      this.makeEnd(row.target, row.after),
      makeElement("small", "", row.what),
    ]);
  }

  /**
   * @param {number} node
   * @param {string} text
   */
  makeEnd(node, text) {
    const button = makeButton(text, `Select node ${text}`, () => this.dag.goToNode(node));
    button.className = "end";
    return button;
  }

  /** Show the next link of the focused box. */
  openNext() {
    const link = this.dag.state.findNextLink();
    if (link) this.open(link);
  }

  close() {
    this.card.hidden = true;
    if (!this.dag.state.chosenLink) return;
    this.dag.state.chosenLink = null;
    this.dag.renderer.draw();
  }
}
