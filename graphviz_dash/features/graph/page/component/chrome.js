// The elements around the canvas: legend, status line, tooltip and messages.

import { find, makeElement, placeTooltip } from "../../../../ui/components/common/elements.js";
import { pluralize } from "../../../../ui/components/common/numbers.js";
import { describeView, formatBoxCount } from "./view.js";

/** @import { Theme } from "../../../../ui/components/common/theme.js" */
/** @import { View } from "./view.js" */

export class Chrome {
  /**
   * @param {HTMLElement | ShadowRoot} root
   * @param {HTMLCanvasElement} canvas
   */
  constructor(root, canvas) {
    this.canvas = canvas;
    this.tooltip = find(root, ".tooltip", HTMLElement);
    this.problem = find(root, ".problem", HTMLElement);
    this.status = find(root, ".state", HTMLElement);
    this.live = find(root, ".live", HTMLElement);
    this.legend = find(root, ".legend", HTMLElement);
  }

  /**
   * Show the legend and the status of a view.
   * @param {View | null} view
   * @param {Theme} theme
   */
  showView(view, theme) {
    const side = theme.dark ? "dark" : "light";
    const chips = (view?.legend ?? []).map((entry) => makeChip(entry.label, entry[side], ""));
    if (view?.boxes.some((box) => box.critical)) {
      chips.push(makeChip("critical path", theme.critical, "path"));
    }
    this.legend.replaceChildren(...chips);
    if (!view) return;
    this.status.textContent = describeView(view);
    this.canvas.setAttribute(
      "aria-label",
      `Graph of ${pluralize(view.nodes, "node")} in ${formatBoxCount(view)}. ` +
        "Arrow keys follow edges, Enter unfolds a group or selects a node.",
    );
  }

  /**
   * Show the tooltip at a point of the canvas.
   * @param {string[]} lines
   * @param {{x: number, y: number}} point
   * @param {{width: number, height: number}} stage
   */
  showTooltip(lines, point, stage) {
    this.tooltip.replaceChildren(
      ...lines.map((line, i) => makeElement(i ? "small" : "b", "", line)),
    );
    this.tooltip.hidden = false;
    placeTooltip(this.tooltip, point, stage);
  }

  hideTooltip() {
    this.tooltip.hidden = true;
  }

  /** @param {...(string | Node)} content */
  showProblem(...content) {
    this.problem.replaceChildren(...content);
    this.problem.hidden = false;
  }

  hideProblem() {
    this.problem.hidden = true;
  }

  /** @param {string} text for screen readers */
  announce(text) {
    this.live.textContent = text;
  }
}

/**
 * Make an entry of the legend.
 * @param {string} text
 * @param {string} colour
 * @param {string} kind
 */
function makeChip(text, colour, kind) {
  const mark = makeElement("i");
  mark.style.background = colour;
  return makeElement("span", `chip ${kind}`.trim(), [mark, document.createTextNode(text)]);
}
