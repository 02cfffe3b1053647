// Geometry of the drawing, in graph coordinates (pixels at full zoom) unless the screen is named.

import { clamp } from "../../../../ui/components/common/numbers.js";

/** @import { Box, Link } from "./wire.js" */

/**
 * Position of the graph on the screen: its point (x, y) is drawn at (x * zoom + camera.x, ...).
 * @typedef {{zoom: number, x: number, y: number}} Camera
 */

/** @typedef {{width: number, height: number}} Size */
/** @typedef {{x: number, y: number, width: number, height: number}} Rect */

/** Height of the head of an unfolded group, the part that reacts to clicks. */
export const HEAD_HEIGHT = 26;

/** Zoom at which a box has room for one line of the smallest text. */
export const READABLE_ZOOM = 0.5;

const FIT_MARGIN = 14;
const MAX_FIT_ZOOM = 1.15;
const MIN_ZOOM = 0.05;
const MAX_ZOOM = 3;
const MAP_WIDTH = 168;
const MAP_SHARE = 0.32;
const MAP_MARGIN = 12;
const LINK_REACH_PX = 6;

/**
 * Fit the entire graph into the middle of the screen.
 * @param {Size} graph
 * @param {Size} screen
 * @returns {Camera}
 */
export function fitCamera(graph, screen) {
  const across = (screen.width - 2 * FIT_MARGIN) / graph.width;
  const down = (screen.height - 2 * FIT_MARGIN) / graph.height;
  const zoom = Math.min(MAX_FIT_ZOOM, across, down);
  return {
    zoom,
    x: (screen.width - graph.width * zoom) / 2,
    y: Math.max(FIT_MARGIN, (screen.height - graph.height * zoom) / 2),
  };
}

/**
 * Choose the first camera: the entire graph if it is readable, else its beginning.
 * @param {Size} graph
 * @param {Size} screen
 * @returns {Camera}
 */
export function openCamera(graph, screen) {
  const entire = fitCamera(graph, screen);
  if (entire.zoom >= READABLE_ZOOM) return entire;
  const spare = screen.width - graph.width * READABLE_ZOOM;
  return { zoom: READABLE_ZOOM, x: Math.max(FIT_MARGIN, spare / 2), y: FIT_MARGIN };
}

/**
 * Keep the middle of the screen in the middle when the size of the screen changes.
 * @param {Camera} camera
 * @param {Size} before
 * @param {Size} after
 * @returns {Camera}
 */
export function recentreCamera(camera, before, after) {
  return {
    zoom: camera.zoom,
    x: camera.x + (after.width - before.width) / 2,
    y: camera.y + (after.height - before.height) / 2,
  };
}

/**
 * Zoom by `factor` around the point (x, y) of the screen.
 * @param {Camera} camera
 * @param {number} factor
 * @param {number} x
 * @param {number} y
 * @param {Size} graph
 * @param {Size} screen
 * @returns {Camera}
 */
export function zoomCamera(camera, factor, x, y, graph, screen) {
  const minZoom = Math.min(MIN_ZOOM, screen.width / graph.width / 2);
  const zoom = clamp(camera.zoom * factor, minZoom, MAX_ZOOM);
  return {
    zoom,
    x: x - ((x - camera.x) * zoom) / camera.zoom,
    y: y - ((y - camera.y) * zoom) / camera.zoom,
  };
}

/**
 * Whether a box is on the screen with a margin around it.
 * @param {Rect} box
 * @param {Camera} camera
 * @param {Size} screen
 */
export function isInView(box, camera, screen) {
  const left = box.x * camera.zoom + camera.x;
  const top = box.y * camera.zoom + camera.y;
  return left > 20 && top > 20 && left + box.width * camera.zoom < screen.width - 20 &&
    top + box.height * camera.zoom < screen.height - 20;
}

/**
 * Find the innermost box at a point. Of an unfolded group only the head counts.
 * @param {readonly Box[]} boxes outer ones first
 * @param {number} x
 * @param {number} y
 * @returns {Box | null}
 */
export function findBox(boxes, x, y) {
  let innermost = null;
  for (const box of boxes) {
    const inside = x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height;
    if (inside && (!box.open || y <= box.y + HEAD_HEIGHT)) innermost = box;
  }
  return innermost;
}

/**
 * Find the link nearest to a point, within a few pixels of the screen.
 * @param {readonly Link[]} links
 * @param {number} x
 * @param {number} y
 * @param {number} zoom
 * @returns {Link | null}
 */
export function findLink(links, x, y, zoom) {
  let reach = LINK_REACH_PX / zoom;
  let nearest = null;
  for (const link of links) {
    const distance = measureDistance(link.points, x, y);
    if (distance < reach) [reach, nearest] = [distance, link];
  }
  return nearest;
}

/**
 * Measure the distance from a point to a polyline.
 * @param {readonly number[]} points as x, y, x, y, ...
 * @param {number} x
 * @param {number} y
 */
export function measureDistance(points, x, y) {
  let distance = Infinity;
  for (let i = 0; i + 3 < points.length; i += 2) {
    const [ax, ay, bx, by] = points.slice(i, i + 4);
    const square = (bx - ax) ** 2 + (by - ay) ** 2;
    const along = square ? clamp(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / square, 0, 1) : 0;
    distance = Math.min(
      distance,
      Math.hypot(x - ax - along * (bx - ax), y - ay - along * (by - ay)),
    );
  }
  return distance;
}

/**
 * Place the overview map on the screen; null if the entire graph is visible.
 * @param {Size} graph
 * @param {Camera} camera
 * @param {Size} screen
 * @returns {(Rect & {scale: number}) | null}
 */
export function placeMap(graph, camera, screen) {
  const { zoom } = camera;
  if (graph.width * zoom <= screen.width + 1 && graph.height * zoom <= screen.height + 1) {
    return null;
  }
  const scale = Math.min(MAP_WIDTH / graph.width, (screen.height * MAP_SHARE) / graph.height);
  const width = graph.width * scale;
  const height = graph.height * scale;
  return {
    x: screen.width - width - MAP_MARGIN,
    y: screen.height - height - MAP_MARGIN,
    width,
    height,
    scale,
  };
}

/**
 * Whether a point is inside a rectangle.
 * @param {Rect} rect
 * @param {number} x
 * @param {number} y
 */
export function contains(rect, x, y) {
  return x >= rect.x && x <= rect.x + rect.width && y >= rect.y && y <= rect.y + rect.height;
}

/**
 * Find the box to the left or right of another one in the same row.
 * @param {readonly Box[]} boxes
 * @param {Box} box
 * @param {number} by 1: to the right, -1: to the left
 * @returns {Box | undefined}
 */
export function findBoxToSide(boxes, box, by) {
  const row = boxes.filter((other) => !other.open && Math.abs(other.y - box.y) < box.height);
  row.sort((a, b) => a.x - b.x);
  return row[row.indexOf(box) + by];
}

/**
 * Group the strip of a group's colours into rectangles. Neighbours of the same colour share one if a
 * node is too narrow for its own.
 * @param {readonly number[]} strip
 * @param {number} step width of a node
 * @returns {{colour: number, from: number, to: number}[]}
 */
export function groupStrip(strip, step) {
  const groups = [];
  let from = 0;
  for (let to = 1; to <= strip.length; to++) {
    if (step <= 4 && to < strip.length && strip[to] === strip[from]) continue;
    groups.push({ colour: strip[from], from, to });
    from = to;
  }
  return groups;
}
