// The legend of the timeline, and the colours of its slices.

import assert from "node:assert/strict";
import { test } from "node:test";

import { listLegend } from "../../../../graphviz_dash/features/timeline/page/component/panel.js";
import {
  getRunInk,
  getSliceColour,
} from "../../../../graphviz_dash/features/timeline/page/component/runs.js";
import { lane, run } from "./builders.js";

/** @import { Look } from "../../../../graphviz_dash/features/timeline/page/component/draw.js" */
/** @import { View } from "../../../../graphviz_dash/features/timeline/page/component/model.js" */

const LOOK = /** @type {Look} */ (/** @type {unknown} */ ({
  palette: {
    categories: [
      { label: "gemm", shade: ["#111111", "#eeeeee"] },
      { label: "CPU: graph launch", shade: ["#222222", "#dddddd"], call: "graph launch" },
      { label: "CPU: synchronise", shade: ["#333333", "#cccccc"], call: "synchronise" },
    ],
  },
  theme: {
    background: "#ffffff",
    text: "#000000",
    categories: ["#111111", "#222222", "#333333"],
    run: "#444444",
    light: "#555555",
    idle: "#666666",
    saved: "#777777",
  },
}));

/**
 * @param {Partial<View>} given
 * @returns {View}
 */
function view(given) {
  return /** @type {View} */ ({ names: [], runs: [], differences: [], ...given });
}

test("a slice has the colour that the legend says", () => {
  const shown = view({
    names: [["a gemm", 0], ["cudaGraphLaunch", 1], ["cudaStreamSynchronize", 2]],
    runs: [
      run([lane([[0, 1], [1, 2]], { name: [0, 0] })], { run: "graph" }),
      run([lane([[0, 1], [2, 3]], { name: [1, 2], kind: "cpu" })], { run: "recorded" }),
    ],
  });
  assert.deepEqual(listLegend(LOOK, shown), [
    ["gemm", getSliceColour(LOOK, 0), ""],
    ["CPU", "#222222", "graph launch, synchronise"],
  ]);
});

test("busy bins have the colours of their dominant categories, which the legend lists", () => {
  const bytes = { busy: Uint8Array.from([9, 0]), category: Uint8Array.from([0, 1]) };
  const shown = view({ runs: [run([lane([], bytes)])] });
  assert.deepEqual(listLegend(LOOK, shown), [["gemm", getSliceColour(LOOK, 0), ""]]);
});

test("the legend has at most eight entries, that of idle time included", () => {
  const categories = Array.from(
    { length: 12 },
    (_, i) => ({ ...LOOK.palette.categories[0], label: `k${i}` }),
  );
  const look = { ...LOOK, palette: { ...LOOK.palette, categories } };
  const bytes = { busy: new Uint8Array(12).fill(9), category: Uint8Array.from(categories.keys()) };
  const entries = listLegend(look, view({ runs: [run([lane([], bytes)])] }));
  assert.equal(entries.length, 7);
  assert.deepEqual(entries[6], ["6 more", "", "k6, k7, k8, k9, k10, k11"]);
});

test("runs are told by ink, not by a category's colour", () => {
  const busy = lane([], { busy: Uint8Array.from([1]) });
  const runs = [run([busy], { run: "eager", light: true }), run([busy], { run: "compile" })];
  assert.deepEqual(runs.map((each) => getRunInk(LOOK, each)), ["#555555", "#444444"]);
});
