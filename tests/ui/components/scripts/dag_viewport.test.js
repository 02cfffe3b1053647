// The visible part of the graph.

import assert from "node:assert/strict";
import { test } from "node:test";

import { READABLE_ZOOM } from "../../../../graphviz_dash/features/graph/page/component/geometry.js";
import { Viewport } from "../../../../graphviz_dash/features/graph/page/component/viewport.js";
import { box } from "./builders.js";

const GRAPH = { width: 400, height: 300 };
const LARGE = { width: 20_000, height: 9_000 };

/**
 * A viewport of 800 by 600 pixels that shows a graph.
 * @param {{width: number, height: number}} graph
 */
function makeViewport(graph) {
  const viewport = new Viewport();
  viewport.resize({ width: 800, height: 600, dpr: 2 }, graph);
  return viewport;
}

/** @param {Viewport} viewport */
function camera({ zoom, x, y }) {
  return { zoom, x, y };
}

test("the first size shows the entire graph", () => {
  const viewport = makeViewport(GRAPH);
  assert.ok(viewport.isHome);
  assert.equal(viewport.zoom, 1.15);
  assert.deepEqual(viewport.toGraphPoint(400, 300).map(Math.round), [200, 150]);
  assert.ok(viewport.hasSize(800, 600, 2));
  assert.ok(!viewport.hasSize(800, 600, 1));
});

test("without a graph or a size there is no home", () => {
  const viewport = new Viewport();
  viewport.fit(GRAPH);
  viewport.showReadable(null);
  assert.ok(!viewport.isHome);
  assert.deepEqual(camera(viewport), { zoom: 1, x: 0, y: 0 });
});

test("another size shows the entire graph again unless the camera has moved", () => {
  const viewport = makeViewport(GRAPH);
  assert.ok(viewport.resize({ width: 400, height: 300, dpr: 1 }, GRAPH));
  assert.ok(viewport.isHome);
  viewport.panBy(10, -5);
  assert.ok(!viewport.isHome);
  const middle = viewport.toGraphPoint(200, 150);
  assert.ok(!viewport.resize({ width: 1000, height: 700, dpr: 1 }, GRAPH));
  assert.deepEqual(viewport.toGraphPoint(500, 350), middle);
});

test("a large graph opens at its beginning, and fits completely on request", () => {
  const viewport = makeViewport(LARGE);
  assert.equal(viewport.zoom, READABLE_ZOOM);
  assert.ok(viewport.placeMap(LARGE));
  viewport.fit(LARGE);
  assert.ok(viewport.isHome);
  assert.ok(viewport.zoom < READABLE_ZOOM);
  assert.equal(viewport.placeMap(LARGE), null);
});

test("zooming keeps the given point, by default the middle", () => {
  const viewport = makeViewport(GRAPH);
  const corner = viewport.toGraphPoint(100, 50);
  viewport.zoomBy(GRAPH, 1.3, 100, 50);
  assert.deepEqual(viewport.toGraphPoint(100, 50).map(Math.round), corner.map(Math.round));
  const middle = viewport.toGraphPoint(400, 300);
  viewport.zoomBy(GRAPH, 1.3);
  assert.deepEqual(viewport.toGraphPoint(400, 300).map(Math.round), middle.map(Math.round));
});

test("a visible box stays in place; a hidden one moves to the middle and becomes readable", () => {
  const viewport = makeViewport(LARGE);
  const before = camera(viewport);
  viewport.reveal(box({ x: 100, y: 100 }));
  assert.deepEqual(camera(viewport), before);
  viewport.reveal(box({ x: 9000, y: 4000, width: 100, height: 40 }));
  assert.deepEqual(viewport.toGraphPoint(400, 300).map(Math.round), [9050, 4020]);
  viewport.fit(LARGE);
  viewport.reveal(box({ x: 9000, y: 4000 }));
  assert.equal(viewport.zoom, 0.8);
});

test("a box keeps its place on the screen in another layout", () => {
  const viewport = makeViewport(LARGE);
  const [before, after] = [box({ x: 100, y: 50 }), box({ x: 700, y: 90 })];
  const place = viewport.getHandle(before);
  viewport.holdBox(before, after);
  assert.deepEqual(viewport.getHandle(after), place);
});

test("an unfolded group is clicked at its head", () => {
  const viewport = new Viewport();
  const group = { x: 10, y: 20, width: 300, height: 200 };
  assert.deepEqual(viewport.getHandle(box(group)), { x: 160, y: 120 });
  assert.deepEqual(viewport.getHandle(box({ ...group, open: true })), { x: 50, y: 33 });
});

test("a point of the overview map moves to the middle", () => {
  const viewport = makeViewport(LARGE);
  const map = viewport.placeMap(LARGE);
  assert.ok(map);
  assert.ok(viewport.centerMapPoint(LARGE, map.x + map.width / 2, map.y + map.height / 2));
  assert.deepEqual(viewport.toGraphPoint(400, 300).map(Math.round), [10_000, 4500]);
  assert.ok(!makeViewport(GRAPH).centerMapPoint(GRAPH, 790, 590));
});

test("the shape stays within the range that the server accepts", () => {
  const viewport = new Viewport();
  assert.equal(viewport.aspectRatio, 1.6);
  viewport.resize({ width: 5000, height: 10, dpr: 1 }, null);
  assert.equal(viewport.aspectRatio, 20);
});
