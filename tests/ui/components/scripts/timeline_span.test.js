// Windows of time: moving, zooming, ticks.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  boundSpan,
  chooseAxisUnit,
  chooseTickStep,
  computeTicks,
  interpolateSpan,
  revealSlice,
  shiftSpan,
  zoomSpan,
} from "../../../../graphviz_dash/features/timeline/page/component/span.js";

test("a window stays near the runs and between the least and twice their length", () => {
  assert.deepEqual(boundSpan([0, 10], [0, 10_000]), [-95, 105]);
  assert.deepEqual(boundSpan([-1e6, 1e6], [0, 10_000]), [-5000, 15_000]);
  assert.deepEqual(boundSpan([90_000, 91_000], [0, 10_000]), [14_000, 15_000]);
});

test("zooming keeps the instant under the pointer", () => {
  const [begin, end] = zoomSpan([0, 100], 25, 2);
  assert.deepEqual([begin, end], [12.5, 62.5]);
  assert.equal((25 - begin) / (end - begin), 0.25);
});

test("a window moves by a share of itself", () => {
  assert.deepEqual(shiftSpan([100, 200], -0.2), [80, 180]);
  assert.deepEqual(interpolateSpan([0, 10], [100, 210], 0.5), [50, 110]);
});

test("a slice that is seen well stays where it is", () => {
  assert.equal(revealSlice([0, 1000], { begin: 100, dur: 50 }, 500), null);
});

test("a slice out of view comes to the middle, neither too thin nor too wide", () => {
  assert.deepEqual(revealSlice([0, 10_000], { begin: 20_000, dur: 1000 }, 500), [15_500, 25_500]);
  assert.deepEqual(revealSlice([0, 1e9], { begin: 0, dur: 100 }, 500), [-2950, 3050]);
  assert.deepEqual(revealSlice([0, 100], { begin: 50, dur: 1000 }, 500), [-950, 2050]);
});

test("ticks are 1, 2 or 5 times a power of ten apart", () => {
  assert.deepEqual([0.5, 1, 1.1, 3, 6, 11, 499, 501].map(chooseTickStep), [
    1,
    1,
    2,
    5,
    10,
    20,
    500,
    1000,
  ]);
  assert.deepEqual(computeTicks([-7, 12], 4), { step: 5, ticks: [-5, 0, 5, 10] });
  assert.ok(computeTicks([-7, 12], 4).ticks.every((at) => !Object.is(at, -0)));
});

test("an axis counts in the unit that gives it short numbers", () => {
  const names = [200, 4e6, 1e7, 3e8, 2e10].map((length) =>
    chooseAxisUnit([5e9, 5e9 + length]).name
  );
  assert.deepEqual(names, ["µs", "µs", "ms", "ms", "s"]);
});
