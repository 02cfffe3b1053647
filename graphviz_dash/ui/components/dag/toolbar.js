// The buttons above the graph.

import { button, find } from "../common/elements.js";
import { BY_DATA, BY_MODULE } from "./input.js";
import { saveMenu } from "./save.js";

/** @import { Dag } from "./dag.js" */

export class Toolbar {
  /** @param {Dag} dag */
  constructor(dag) {
    this.byModule = button("By module", "Fold by module path (M)", () => dag.foldBy(BY_MODULE));
    this.byData = button(
      "By data",
      "Only the dependencies that the data needs (N)",
      () => dag.foldBy(BY_DATA),
    );
    const bar = find(dag.root, ".buttons", HTMLElement);
    for (const old of bar.querySelectorAll("button, details")) old.remove();
    bar.append(
      button("−", "Zoom out (-)", () => dag.zoomBy(1 / 1.3)),
      button("+", "Zoom in (+)", () => dag.zoomBy(1.3)),
      button("Fit", "Fit the graph (F)", () => dag.fit()),
      button("Full screen", "Full screen (X)", () => dag.fill()),
      button("Fold", "Fold as at the start", () => dag.loader.load({ fresh: true, fit: true })),
      this.byModule,
      this.byData,
      saveMenu(dag),
    );
  }

  /** @param {string} fold that is in use */
  showFold(fold) {
    this.byModule.setAttribute("aria-pressed", String(fold === BY_MODULE));
    this.byData.setAttribute("aria-pressed", String(fold === BY_DATA));
  }
}
