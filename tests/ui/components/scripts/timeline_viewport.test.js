// The visible part of the timeline.

import assert from "node:assert/strict";
import { test } from "node:test";

import { GUTTER } from "../../../../graphviz_dash/features/timeline/page/component/layout.js";
import { TimeViewport } from "../../../../graphviz_dash/features/timeline/page/component/viewport.js";

/** A viewport that shows 1,000 ns on 500 pixels. */
function makeViewport() {
  const viewport = new TimeViewport();
  Object.assign(viewport, { width: GUTTER + 500, height: 300, dpr: 1 });
  viewport.placeWindow([1000, 2000]);
  return viewport;
}

test("times and pixels are converted both ways", () => {
  const viewport = makeViewport();
  assert.equal(viewport.perPixel, 2);
  assert.equal(viewport.toX(1000), GUTTER);
  assert.equal(viewport.toTime(viewport.toX(1234)), 1234);
});

test("without a size the lanes still have a width", () => {
  assert.equal(new TimeViewport().plot, 1);
});

test("the first view sets the window, later ones keep it", () => {
  const viewport = makeViewport();
  viewport.placeWindow([0, 10]);
  assert.deepEqual(viewport.window, [1000, 2000]);
});

test("the pointer has a time only over the lanes", () => {
  const viewport = makeViewport();
  assert.equal(viewport.cursor, null);
  viewport.pointer = { x: GUTTER - 1, y: 0 };
  assert.equal(viewport.cursor, null);
  viewport.pointer = { x: GUTTER + 100, y: 0 };
  assert.equal(viewport.cursor, 1200);
});

test("zooming keeps the time under the pointer, else the middle", () => {
  const viewport = makeViewport();
  assert.deepEqual(viewport.computeZoom(2), [1250, 1750]);
  viewport.pointer = { x: GUTTER + 100, y: 0 };
  assert.deepEqual(viewport.computeZoom(2), [1100, 1600]);
  assert.deepEqual(viewport.computeZoomAt(GUTTER - 50, 2), [1000, 1500]);
});

test("a window of the least length does not get shorter", () => {
  const viewport = makeViewport();
  viewport.window = [0, 200];
  assert.equal(viewport.computeZoomAt(300, 2), null);
  assert.notEqual(viewport.computeZoomAt(300, 0.5), null);
});

test("moves during a glide start from its end", () => {
  const viewport = makeViewport();
  assert.deepEqual(viewport.computePan(0.2), [1200, 2200]);
  viewport.target = [5000, 6000];
  assert.deepEqual(viewport.computePan(0.2), [5200, 6200]);
  assert.deepEqual(viewport.computeZoom(2), [5250, 5750]);
  assert.equal(viewport.computeReveal({ begin: 5500, dur: 100 }), null);
});

test("a span is shown with a margin, however short it is", () => {
  const viewport = makeViewport();
  assert.deepEqual(viewport.addMargin([1000, 2000]), [-200, 3200]);
  assert.deepEqual(viewport.addMargin([1000, 1010]), [700, 1310]);
});

test("the window stays near the runs", () => {
  const viewport = makeViewport();
  viewport.setWindow([90_000, 91_000], [0, 10_000]);
  assert.deepEqual(viewport.window, [14_000, 15_000]);
});

test("lanes scroll within their height", () => {
  const viewport = makeViewport();
  viewport.scrollBy(150, 400);
  assert.equal(viewport.scroll, 100);
  viewport.scrollBy(-30, 400);
  assert.equal(viewport.scroll, 70);
  viewport.scrollBy(0, 350);
  assert.equal(viewport.scroll, 50);
  viewport.scrollBy(10, 200);
  assert.equal(viewport.scroll, 0);
});
