// The sizes of the DAG's texts.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  opening,
  READABLE,
} from "../../../../graphviz_dash/features/graph/page/component/geometry.js";
import { legible, SIZES } from "../../../../graphviz_dash/features/graph/page/component/text.js";

test("no text falls below nine pixels of the screen at a first view", () => {
  for (let width = 100; width < 60_000; width = Math.round(width * 1.07)) {
    for (const height of [100, 2_000, 50_000]) {
      const { zoom } = opening({ width, height }, { width: 1000, height: 640 });
      for (const size of Object.values(SIZES)) assert.ok(legible(zoom, size) * zoom >= 9);
    }
  }
});

test("what cannot be read whole is shown from its beginning on", () => {
  const screen = { width: 1000, height: 640 };
  const wide = opening({ width: 20_000, height: 300 }, screen);
  assert.deepEqual(wide, { zoom: READABLE, x: 14, y: 14 });
  const tall = opening({ width: 500, height: 9_000 }, screen);
  assert.deepEqual(tall, { zoom: READABLE, x: (1000 - 500 * READABLE) / 2, y: 14 });
  assert.ok(opening({ width: 500, height: 300 }, screen).zoom > 1);
});
