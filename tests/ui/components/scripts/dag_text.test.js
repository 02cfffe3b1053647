// The sizes of the DAG's texts.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  openCamera,
  READABLE_ZOOM,
} from "../../../../graphviz_dash/features/graph/page/component/geometry.js";
import {
  computeTextSize,
  SIZES,
} from "../../../../graphviz_dash/features/graph/page/component/text.js";

test("no text falls below nine pixels of the screen at a first view", () => {
  for (let width = 100; width < 60_000; width = Math.round(width * 1.07)) {
    for (const height of [100, 2_000, 50_000]) {
      const { zoom } = openCamera({ width, height }, { width: 1000, height: 640 });
      for (const size of Object.values(SIZES)) assert.ok(computeTextSize(zoom, size) * zoom >= 11);
    }
  }
});

test("a drawing too large to read opens at its beginning", () => {
  const screen = { width: 1000, height: 640 };
  const wide = openCamera({ width: 20_000, height: 300 }, screen);
  assert.deepEqual(wide, { zoom: READABLE_ZOOM, x: 14, y: 14 });
  const tall = openCamera({ width: 500, height: 9_000 }, screen);
  assert.deepEqual(tall, { zoom: READABLE_ZOOM, x: (1000 - 500 * READABLE_ZOOM) / 2, y: 14 });
  assert.ok(openCamera({ width: 500, height: 300 }, screen).zoom > 1);
});
