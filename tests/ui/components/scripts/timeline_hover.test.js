// What lies under the pointer, what is said of it, and where the ruler snaps to.

import assert from "node:assert/strict";
import { test } from "node:test";

import { describeDifference } from "../../../../graphviz_dash/features/timeline/page/component/difference.js";
import { Echoes } from "../../../../graphviz_dash/features/timeline/page/component/echoes.js";
import {
  findHover,
  findNearestEdge,
  findNearestSlice,
} from "../../../../graphviz_dash/features/timeline/page/component/hover.js";
import { getWheelFactor } from "../../../../graphviz_dash/features/timeline/page/component/input.js";
import { GUTTER } from "../../../../graphviz_dash/features/timeline/page/component/layout.js";
import { parseSpan } from "../../../../graphviz_dash/features/timeline/page/component/ruler.js";
import { lane, run } from "./builders.js";

const WORK = lane([[10, 20], [25, 45]]);

/**
 * @param {number} at
 * @param {import("../../../../graphviz_dash/features/timeline/page/component/model.js").Lane} [shown]
 */
function hover(at, shown = WORK) {
  const eager = run([shown]);
  const block = {
    run: eager,
    top: 26,
    lanesTop: 50,
    gpuTop: 50,
    lanesBottom: 90,
    bottom: 110,
    lanes: [{ lane: shown, y: 50, h: 36 }],
    differences: [],
  };
  const layout = { blocks: [block], axis: 26, total: 120 };
  return findHover(layout, [0, 100], { x: GUTTER + at, y: 60 }, at, 1);
}

test("a slice is hit at its place and a few pixels beside it", () => {
  assert.equal(findNearestSlice(WORK, 15, 2), 0);
  assert.equal(findNearestSlice(WORK, 21, 2), 0);
  assert.equal(findNearestSlice(WORK, 24, 2), 1);
  assert.equal(findNearestSlice(WORK, 22.5, 2), -1);
});

test("between two slices there is a gap of known length, outside of them an open one", () => {
  const inside = hover(22.5);
  assert.ok(inside?.kind === "gap");
  assert.deepEqual([inside.open, inside.length], [false, 5]);
  const after = hover(80);
  assert.ok(after?.kind === "gap" && after.open);
});

test("a busy lane tells the bin under the pointer", () => {
  const busy = hover(60, lane([], { busy: Uint8Array.of(0, 255) }));
  assert.ok(busy?.kind === "busy");
  assert.deepEqual([busy.busy, busy.span], [255, 50]);
  assert.equal(hover(120, lane([], { busy: Uint8Array.of(0, 255) })), null);
});

test("names at the left are no lane", () => {
  assert.equal(hover(-5), null);
});

test("the ruler snaps to the nearest edge within reach", () => {
  assert.equal(findNearestEdge(WORK, 21, 3), 20);
  assert.equal(findNearestEdge(WORK, 24, 3), 25);
  assert.equal(findNearestEdge(WORK, 33, 3), 33);
});

test("a ruler is two numbers", () => {
  assert.deepEqual(parseSpan("1000,5000"), [1000, 5000]);
  for (const text of ["", "7", "1,x", "1,2,3", null]) assert.equal(parseSpan(text), null);
});

test("losses are told at an instant, between the edges of its bin", () => {
  const difference = {
    run: "graph",
    problem: "",
    idleAt: Float64Array.of(0, 2000, 2000),
    busyAt: Float64Array.of(0, 0, -4000),
    bins: 2,
    total: /** @type {[number, number]} */ ([2000, -4000]),
    most: 4000,
    text: "how",
    cause: "",
    work: -4000,
  };
  const lines = describeDifference(difference, 5000, [0, 20_000], "eager");
  assert.equal(lines?.[0], "eager is 1.000 µs behind graph");
  assert.equal(lines?.[2], "here it loses 20% of the time");
  const late = describeDifference(difference, 20_000 - 1e-6, [0, 20_000], "eager");
  assert.equal(late?.[0], "eager is 2.000 µs ahead of graph");
  assert.equal(describeDifference(difference, 30_000, [0, 20_000], "eager"), null);
  const waitingAt = Float64Array.of(0, 0, 3000);
  const waits = describeDifference(
    { ...difference, waitingAt },
    20_000 - 1e-6,
    [0, 20_000],
    "eager",
  );
  assert.equal(waits?.[0], "eager is 1.000 µs behind graph");
  assert.equal(waits?.[2], "+3.000 µs from waiting for other ranks");
});

test("an answer of Python is an echo, and only once", () => {
  const echoes = new Echoes();
  echoes.add("a", null);
  echoes.add("b", null);
  echoes.add("c", "c");
  assert.ok(echoes.has("b"));
  assert.ok(!echoes.has("a"), "earlier values are no echoes any more");
  assert.ok(!echoes.has("b"));
});

test("a turn of the wheel by lines is as much as one by pixels", () => {
  assert.ok(getWheelFactor({ deltaY: -100, deltaMode: 0 }) > 1);
  assert.equal(
    getWheelFactor({ deltaY: -2, deltaMode: 1 }),
    getWheelFactor({ deltaY: -36, deltaMode: 0 }),
  );
});
