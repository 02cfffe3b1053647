// The nodes that a search found. No drawing and no requests.

import { countBelow } from "../../../../ui/components/common/numbers.js";

/** @import { Box, Hits } from "./wire.js" */

export class SearchHits {
  /** @type {Set<number>} */
  nodes = new Set();
  /** @type {number[]} the nodes in the order in which the reader visits them */
  list = [];
  /** @type {number[]} positions of the nodes in the order of the fold, ascending */
  positions = [];
  /** Index of the visited hit in the list; -1 before the first. */
  index = -1;

  /** @param {Hits} found */
  setHits({ nodes, positions }) {
    this.list = nodes;
    this.nodes = new Set(nodes);
    this.positions = positions;
    this.index = -1;
  }

  clear() {
    this.setHits({ total: 0, nodes: [], positions: [], groups: [] });
  }

  /**
   * Move to the next or previous hit, wrapping around.
   * @param {1 | -1} by
   * @returns {number | null} its node; null without hits
   */
  step(by) {
    if (!this.list.length) return null;
    this.index = (this.index + by + this.list.length) % this.list.length;
    return this.list[this.index];
  }

  /**
   * Count the hits in a box.
   * @param {Box} box
   */
  countIn(box) {
    if (!this.nodes.size) return 0;
    return countBelow(this.positions, box.first + box.count) -
      countBelow(this.positions, box.first);
  }

  /**
   * Whether a box is drawn faded because it has none of the hits.
   * @param {Box} box
   */
  isDim(box) {
    return this.nodes.size > 0 && !this.countIn(box);
  }
}
