// The elements around the canvas: legend, tooltip, panel and messages.

import { find, makeElement, placeTooltip } from "../../../../ui/components/common/elements.js";
import { addKeySheet, listLegend } from "./panel.js";

/** @import { Look } from "./draw.js" */
/** @import { View } from "./model.js" */

export class Chrome {
  legendKey = "";

  /** @param {HTMLElement | ShadowRoot} root */
  constructor(root) {
    this.panel = find(root, ".panel", HTMLElement);
    this.legend = find(root, ".legend", HTMLElement);
    this.tooltip = find(root, ".tooltip", HTMLElement);
    this.problem = find(root, ".problem", HTMLElement);
    this.live = find(root, ".live", HTMLElement);
    this.loading = find(root, ".loading", HTMLElement);
    this.keys = addKeySheet(find(root, ".stage", HTMLElement));
  }

  /**
   * Show the legend of a view.
   * @param {Look} look
   * @param {View} view
   */
  showLegend(look, view) {
    const entries = listLegend(look, view);
    const key = JSON.stringify(entries);
    if (key === this.legendKey) return;
    this.legendKey = key;
    const chips = entries.map(([text, fill, title]) => {
      const swatch = makeElement("i");
      swatch.style.background = fill;
      swatch.hidden = !fill;
      const chip = makeElement("span", "chip", [swatch, document.createTextNode(text)]);
      chip.title = title ?? "";
      return chip;
    });
    const idle = makeElement("i", "idle");
    idle.style.setProperty("--idle", look.theme.idle);
    const idleChip = makeElement("span", "chip", [idle, document.createTextNode("GPU idle")]);
    this.legend.replaceChildren(...chips, idleChip);
  }

  /**
   * Show the tooltip at a point of the canvas.
   * @param {string[]} lines the title first
   * @param {{x: number, y: number}} point
   * @param {{width: number, height: number}} stage
   */
  showTooltip([title, ...rest], point, stage) {
    this.tooltip.hidden = false;
    this.tooltip.replaceChildren(
      makeElement("b", "", title),
      ...rest.map((text) => makeElement("span", "", text)),
    );
    placeTooltip(this.tooltip, point, stage);
  }

  hideTooltip() {
    this.tooltip.hidden = true;
  }

  /** @param {string} text */
  showProblem(text) {
    this.problem.textContent = text;
    this.problem.hidden = false;
  }

  hideProblem() {
    this.problem.hidden = true;
  }

  /** Show the list of keys, or hides it. */
  toggleKeys() {
    this.keys.hidden = !this.keys.hidden;
  }

  /** @param {string} text for screen readers */
  announce(text) {
    this.live.textContent = text;
  }
}
