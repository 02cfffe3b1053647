// Where things of the DAG lie.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  findBox,
  findBoxToSide,
  findLink,
  fitCamera,
  groupStrip,
  isInView,
  measureDistance,
  placeMap,
  recentreCamera,
  zoomCamera,
} from "../../../../graphviz_dash/features/graph/page/component/geometry.js";
import { box, link } from "./builders.js";

const SCREEN = { width: 800, height: 600 };
const CAMERA = { zoom: 1, x: 0, y: 0 };

test("a graph is fitted whole and in the middle, and never enlarged much", () => {
  assert.deepEqual(fitCamera({ width: 1544, height: 100 }, SCREEN), { zoom: 0.5, x: 14, y: 275 });
  const small = fitCamera({ width: 100, height: 100 }, SCREEN);
  assert.equal(small.zoom, 1.15);
  assert.equal(small.x, 342.5);
});

test("a tall graph begins at the top", () => {
  const { zoom, y } = fitCamera({ width: 100, height: 5720 }, SCREEN);
  assert.equal(zoom, 0.1);
  assert.equal(y, 14);
});

test("the point under the pointer stays there while zooming", () => {
  const graph = { width: 4000, height: 4000 };
  const camera = zoomCamera({ zoom: 0.5, x: 20, y: 30 }, 1.3, 300, 200, graph, SCREEN);
  assert.equal(camera.zoom, 0.65);
  assert.ok(Math.abs((300 - camera.x) / camera.zoom - (300 - 20) / 0.5) < 1e-9);
  assert.ok(Math.abs((200 - camera.y) / camera.zoom - (200 - 30) / 0.5) < 1e-9);
});

test("the middle stays in the middle of a resized window", () => {
  const camera = recentreCamera({ zoom: 0.5, x: 20, y: 30 }, SCREEN, { width: 1000, height: 500 });
  assert.deepEqual(camera, { zoom: 0.5, x: 120, y: -20 });
});

test("zoom stays between three times the size and half the screen", () => {
  const graph = { width: 80_000, height: 100 };
  assert.equal(zoomCamera(CAMERA, 100, 0, 0, graph, SCREEN).zoom, 3);
  assert.equal(zoomCamera(CAMERA, 1e-6, 0, 0, graph, SCREEN).zoom, 0.005);
  assert.equal(zoomCamera(CAMERA, 1e-6, 0, 0, { width: 900, height: 100 }, SCREEN).zoom, 0.05);
});

test("of an unfolded group only its head is hit, inside it the boxes there", () => {
  const group = box({ id: "g.0", x: 0, y: 0, width: 300, height: 200, open: true });
  const inner = box({ id: "n1", x: 20, y: 40, width: 100, height: 36, node: 1 });
  const boxes = [group, inner];
  assert.equal(findBox(boxes, 50, 10), group);
  assert.equal(findBox(boxes, 50, 50), inner);
  assert.equal(findBox(boxes, 250, 150), null);
});

test("the nearest link within six pixels of the screen is hit, however small the graph is", () => {
  const near = link({ points: [0, 0, 0, 100] });
  const far = link({ points: [50, 0, 50, 100] });
  assert.equal(findLink([far, near], 5, 50, 1), near);
  assert.equal(findLink([far, near], 20, 50, 1), null);
  assert.equal(findLink([far, near], 20, 50, 0.25), near);
});

test("the distance to a line is that to its nearest point, ends included", () => {
  assert.equal(measureDistance([0, 0, 10, 0], 5, 3), 3);
  assert.equal(measureDistance([0, 0, 10, 0], 13, 4), 5);
  assert.equal(measureDistance([0, 0, 10, 0, 10, 10], 12, 5), 2);
  assert.equal(measureDistance([4, 4, 4, 4], 4, 6), 2);
});

test("a box is in view only with some air around it", () => {
  const rect = { x: 30, y: 30, width: 100, height: 36 };
  assert.ok(isInView(rect, CAMERA, SCREEN));
  assert.ok(!isInView({ ...rect, x: 10 }, CAMERA, SCREEN));
  assert.ok(!isInView(rect, { zoom: 1, x: 680, y: 0 }, SCREEN));
});

test("the map is there only where something is out of view, and keeps to a corner", () => {
  assert.equal(placeMap({ width: 800, height: 600 }, CAMERA, SCREEN), null);
  const map = placeMap({ width: 1600, height: 400 }, CAMERA, SCREEN);
  assert.deepEqual(map, { x: 620, y: 546, width: 168, height: 42, scale: 0.105 });
});

test("keys go to the side among boxes that lie as high", () => {
  const row = [300, 100, 200].map((x, node) => box({ id: `n${node}`, x, y: 10, node }));
  const below = box({ id: "n9", x: 150, y: 80, node: 9 });
  const boxes = [...row, below];
  assert.equal(findBoxToSide(boxes, row[1], 1), row[2]);
  assert.equal(findBoxToSide(boxes, row[2], 1), row[0]);
  assert.equal(findBoxToSide(boxes, row[0], 1), undefined);
});

test("nodes of one colour share a rectangle where they have no pixels of their own", () => {
  assert.deepEqual(groupStrip([1, 1, 2, 1], 2), [
    { colour: 1, from: 0, to: 2 },
    { colour: 2, from: 2, to: 3 },
    { colour: 1, from: 3, to: 4 },
  ]);
  assert.equal(groupStrip([1, 1, 2, 1], 8).length, 4);
});
