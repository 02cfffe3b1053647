// The edges of a link, one by one, with type and ports; each end can be chosen.

import { button, element, find } from "../../../../ui/components/common/elements.js";
import { formatCount } from "../../../../ui/components/common/numbers.js";
import { ask } from "../../../../ui/components/common/server.js";

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
    dag.chosenLink = link;
    dag.hide();
    dag.draw();
    const { source, target } = link;
    /** @type {EdgeList} */
    const list = await ask(
      `/api/dag/edges?${new URLSearchParams({ ...dag.query, source, target })}`,
    );
    if (dag.chosenLink !== link) return;
    const [from, to] = [dag.labelOf(source), dag.labelOf(target)];
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
    dag.say(`${list.total} edges from ${from} to ${to}: ${list.kinds.join("; ")}`);
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
    const { view, focus, chosenLink } = this.dag;
    const id = focus ?? this.dag.selectedId();
    if (!view || !id) return;
    const links = view.links.filter((link) =>
      link.count && (link.source === id || link.target === id)
    );
    const at = chosenLink ? links.indexOf(chosenLink) : -1;
    if (links.length) this.open(links[(at + 1) % links.length]);
  }

  close() {
    this.card.hidden = true;
    if (!this.dag.chosenLink) return;
    this.dag.chosenLink = null;
    this.dag.draw();
  }
}
