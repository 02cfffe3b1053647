// The bar of a repeat: the times of its blocks, the shown block, and differences between blocks.

import { find, makeButton, makeElement } from "../../../../ui/components/common/elements.js";
import { formatCount } from "../../../../ui/components/common/numbers.js";
import { readRow } from "../../../../ui/components/common/rows.js";
import { fetchJson } from "../../../../ui/components/common/server.js";
import { REPEAT_BAR_FIELDS } from "./wire.js";

/** @import { Dag } from "./dag.js" */
/** @import { RepeatCard } from "./wire.js" */

const MANY_BARS = 40;

export class RepeatBar {
  /** @param {Dag} dag */
  constructor(dag) {
    this.dag = dag;
    this.bar = find(dag.root, ".repeat", HTMLElement);
    /** @type {RepeatCard | null} */
    this.card = null;
    this.key = "";
  }

  /** Find the innermost unfolded repeat around the focus, else the only unfolded one. */
  findRepeat() {
    return this.dag.state.findCurrentRepeat(this.card?.id);
  }

  /** Show the repeat around the focus. */
  async update() {
    const { state } = this.dag;
    const box = this.findRepeat();
    const key = box ? `${state.source}/${state.fold}/${box.id}:${box.block}` : "";
    if (key === this.key) return;
    this.key = key;
    if (!box || !box.open) {
      this.bar.hidden = true;
      this.card = null;
      this.markNodes([]);
      return;
    }
    const shown = { group: box.id, block: String(box.block) };
    try {
      /** @type {RepeatCard} */
      const card = await fetchJson(
        `/api/dag/repeat?${new URLSearchParams({ ...state.query, ...shown })}`,
      );
      if (this.key === key) this.show(card);
    } catch {
      this.bar.hidden = true;
    }
  }

  /** @param {RepeatCard} card */
  show(card) {
    this.card = card;
    const all = card.block < 0;
    const title = makeElement("b", "", all || !card.block_title ? card.title : card.block_title);
    const time = makeElement("span", "time", all ? "" : card.block_time);
    this.bar.replaceChildren(
      title,
      time,
      this.makeBars(card),
      ...this.makeButtons(card),
      makeDifferences(card),
    );
    this.bar.hidden = false;
    this.bar.dataset.block = String(card.block);
    this.markNodes(card.unlike);
  }

  /** @param {RepeatCard} card */
  makeBars(card) {
    const bars = card.bars.map((row) => {
      const { first, last, height, differs } = readRow(REPEAT_BAR_FIELDS, row);
      const here = card.block >= first && card.block <= last;
      const bar = makeElement(
        "i",
        [here && "here", differs && "differs"].filter(Boolean).join(" "),
      );
      bar.style.height = `${Math.max(8, height * 100)}%`;
      bar.addEventListener("click", () => this.showBlock(first));
      return bar;
    });
    const chart = makeElement("div", bars.length > MANY_BARS ? "bars many" : "bars", bars);
    chart.title = `Time per block: ${card.summary}`;
    return chart;
  }

  /** @param {RepeatCard} card */
  makeButtons(card) {
    const count = formatCount(card.repeats);
    const all = card.block < 0;
    const position = all ? `all ${count}` : `${formatCount(card.block + 1)} of ${count}`;
    /** @type {(text: string, label: string, block: number) => HTMLElement} */
    const makeStep = (text, label, block) => makeButton(text, label, () => this.showBlock(block));
    const buttons = [
      makeStep("‹", "Previous block ( [ )", Math.max(0, card.block) - 1),
      makeElement("span", "at", position),
      makeStep("›", "Next block ( ] )", card.block + 1),
    ];
    if (card.next_unlike >= 0) {
      buttons.push(
        makeStep("Next difference", "Next block that differs from the others", card.next_unlike),
      );
    }
    buttons.push(
      all
        ? makeStep("One block", "Show one block for all", 0)
        : makeStep("All", "Show all blocks side by side", -1),
    );
    return buttons;
  }

  /** @param {number} block */
  showBlock(block) {
    const box = this.card && this.dag.state.byId.get(this.card.id);
    if (box) this.dag.showBlock(box, block);
  }

  /**
   * Mark the nodes that differ from those of most blocks.
   * @param {number[]} nodes
   */
  markNodes(nodes) {
    this.dag.state.differing = new Set(nodes);
    this.dag.renderer.draw();
  }

  /** @param {number} by */
  step(by) {
    const box = this.card && this.dag.state.byId.get(this.card.id);
    if (box) this.dag.stepBlock(box, by);
  }
}

/** @param {RepeatCard} card */
function makeDifferences(card) {
  const lines = [`Times: ${card.summary}.`, ...card.differences];
  return makeElement("details", "differences", [
    makeElement("summary", "", card.next_unlike < 0 ? "Differences" : "Blocks differ"),
    makeElement("ul", "", lines.map((line) => makeElement("li", "", line))),
  ]);
}
