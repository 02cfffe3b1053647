// The buttons above the graph.

import { find, makeButton } from "../../../../ui/components/common/elements.js";
import { BY_DATA, BY_MODULE } from "./input.js";
import { makeSaveMenu } from "./save.js";

/** @import { Dag } from "./dag.js" */

export class Toolbar {
  /** @param {Dag} dag */
  constructor(dag) {
    this.byModule = makeButton("By module", "Fold by module path (M)", () => dag.foldBy(BY_MODULE));
    this.byData = makeButton(
      "Data dependencies",
      "Show only data dependencies (N)",
      () => dag.foldBy(BY_DATA),
    );
    const bar = find(dag.root, ".buttons", HTMLElement);
    for (const old of bar.querySelectorAll("button, details")) old.remove();
    bar.append(
      makeButton("−", "Zoom out (-)", () => dag.zoomBy(1 / 1.3)),
      makeButton("+", "Zoom in (+)", () => dag.zoomBy(1.3)),
      makeButton("Fit", "Fit the graph (F)", () => dag.fit()),
      makeButton("Full screen", "Full screen (X)", () => dag.toggleFullScreen()),
      makeButton(
        "Reset folding",
        "Restore the initial folding",
        () => dag.loader.load({ fresh: true, fit: true }),
      ),
      this.byModule,
      this.byData,
      makeSaveMenu(dag),
    );
  }

  /** @param {string} fold the current way to fold */
  showFold(fold) {
    this.byModule.setAttribute("aria-pressed", String(fold === BY_MODULE));
    this.byData.setAttribute("aria-pressed", String(fold === BY_DATA));
  }
}
