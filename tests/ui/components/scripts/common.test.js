// What all components share: numbers, rows, colours.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  clamp,
  countBelow,
  countUpTo,
  formatTime,
  formatTimeChange,
  pluralize,
} from "../../../../graphviz_dash/ui/components/common/numbers.js";
import { readRow } from "../../../../graphviz_dash/ui/components/common/rows.js";
import {
  chooseInk,
  computeLuminance,
  mixColours,
  parseColour,
  setAlpha,
} from "../../../../graphviz_dash/ui/components/common/theme.js";

test("places in ascending arrays, equal values included", () => {
  const values = [1, 3, 3, 5];
  assert.deepEqual([0, 1, 3, 4, 9].map((limit) => countBelow(values, limit)), [0, 0, 1, 3, 4]);
  assert.deepEqual([0, 1, 3, 4, 9].map((limit) => countUpTo(values, limit)), [0, 1, 3, 3, 4]);
});

test("times are in a fitting unit, with four digits or so", () => {
  const texts = [0, 999, 1000, 12_345, 123_456, 1_234_567, 2.5e9].map(formatTime);
  assert.deepEqual(texts, [
    "0 ns",
    "999 ns",
    "1.000 µs",
    "12.35 µs",
    "123.5 µs",
    "1.235 ms",
    "2.500 s",
  ]);
  assert.deepEqual([-1500, 20].map(formatTimeChange), ["−1.500 µs", "+20 ns"]);
});

test("counts have their noun in the right number", () => {
  assert.deepEqual([0, 1, 1204].map((count) => pluralize(count, "node")), [
    "0 nodes",
    "1 node",
    "1,204 nodes",
  ]);
  assert.deepEqual([-3, 2, 9].map((value) => clamp(value, 0, 5)), [0, 2, 5]);
});

test("a row is a record by the order of its fields", () => {
  /** @type {{a: number, b: string}} */
  const record = readRow(["a", "b"], [1, "x"]);
  assert.deepEqual(record, { a: 1, b: "x" });
});

test("colours are read in every form that a theme has them in", () => {
  assert.deepEqual(parseColour("#fa0"), [255, 170, 0]);
  assert.deepEqual(parseColour("#ffaa00"), [255, 170, 0]);
  assert.deepEqual(parseColour("rgba(255, 170, 0, 0.5)"), [255, 170, 0]);
});

test("colours are mixed, made transparent and written on", () => {
  assert.equal(mixColours("#000000", "#ffffff", 0.5), "rgb(128,128,128)");
  assert.equal(setAlpha("#102030", 0.25), "rgba(16,32,48,0.25)");
  assert.equal(computeLuminance("#ffffff"), 1);
  assert.equal(chooseInk("#ffffff"), "#10141b");
  assert.equal(chooseInk("#101828"), "#ffffff");
});
