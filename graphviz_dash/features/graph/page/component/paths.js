// Paths of a view, made once. Shapes with the same fill and outline share a path.

import { groupStrip } from "./geometry.js";

/** @import { Box, Link } from "./wire.js" */
/** @import { View } from "./view.js" */

/**
 * Folded boxes with the same look.
 * @typedef {object} BoxPaths
 * @property {number} colour index into the legend
 * @property {boolean} disabled
 * @property {boolean} dim
 * @property {Path2D} stack edges of the other blocks of a repeat, behind the box
 * @property {Path2D} box
 * @property {Path2D} bar of full colour at the left
 */

/**
 * Links with the same look.
 * @typedef {object} LinkPaths
 * @property {number} width
 * @property {number[]} dash
 * @property {boolean} critical
 * @property {Path2D} line
 * @property {Path2D} heads
 */

/**
 * @typedef {object} Paths
 * @property {Path2D} containers
 * @property {Path2D} bodies
 * @property {Path2D} critical
 * @property {Map<string, BoxPaths>} boxes
 * @property {Map<string, LinkPaths>} links
 * @property {Map<string, {colour: number, dim: boolean, path: Path2D}>} strips
 */

/**
 * @param {View} view
 * @param {(box: Box) => boolean} isDim
 * @returns {Paths}
 */
export function makePaths(view, isDim) {
  /** @type {Paths} */
  const paths = {
    containers: new Path2D(),
    bodies: new Path2D(),
    critical: new Path2D(),
    boxes: new Map(),
    links: new Map(),
    strips: new Map(),
  };
  for (const box of view.boxes) {
    if (box.open) {
      const path = box.body ? paths.bodies : paths.containers;
      path.roundRect(box.x, box.y, box.width, box.height, 9);
    } else addBox(paths, box, isDim(box));
  }
  for (const link of view.links) addLink(paths, link);
  return paths;
}

/**
 * @param {Paths} paths
 * @param {Box} box
 * @param {boolean} dim
 */
function addBox(paths, box, dim) {
  const { x, y, width, height, colour, disabled } = box;
  const key = `${colour}/${disabled}/${dim}`;
  let group = paths.boxes.get(key);
  if (!group) {
    group = { colour, disabled, dim, stack: new Path2D(), box: new Path2D(), bar: new Path2D() };
    paths.boxes.set(key, group);
  }
  if (box.repeats) {
    for (const by of [7, 3.5]) group.stack.roundRect(x + by, y + by, width, height, 7);
  }
  group.box.roundRect(x, y, width, height, 7);
  group.bar.roundRect(x, y, 4.5, height, [7, 0, 0, 7]);
  if (box.critical) paths.critical.roundRect(x + width - 4.5, y, 4.5, height, [0, 7, 7, 0]);
  if (box.strip.length) addStrip(paths, box, dim);
}

/**
 * @param {Paths} paths
 * @param {Box} box
 * @param {boolean} dim
 */
function addStrip(paths, box, dim) {
  const step = (box.width - 24) / box.strip.length;
  const y = box.y + box.height - 13;
  for (const { colour, from, to } of groupStrip(box.strip, step)) {
    const key = `${colour}/${dim}`;
    let strip = paths.strips.get(key);
    if (!strip) paths.strips.set(key, strip = { colour, dim, path: new Path2D() });
    const width = (to - from) * step - (step > 4 ? 1 : 0);
    strip.path.rect(box.x + 12 + from * step, y, Math.max(width, 0.5), 7);
  }
}

/**
 * @param {Paths} paths
 * @param {Link} link
 */
function addLink(paths, link) {
  const width = link.critical ? 2.6 : link.count > 1 ? 1.6 : 1.1;
  const dash = link.dashed ? [5, 4] : link.count ? [] : [1.5, 3.5];
  const key = `${width}/${dash}/${link.critical}`;
  let group = paths.links.get(key);
  if (!group) {
    const { critical } = link;
    group = { width, dash, critical, line: new Path2D(), heads: new Path2D() };
    paths.links.set(key, group);
  }
  traceLink(group.line, group.heads, link.points);
}

/**
 * Add the rounded polyline of a link to `line`, and its arrowhead to `heads`.
 * @param {Path2D} line
 * @param {Path2D} heads
 * @param {readonly number[]} points as x, y, x, y, ...
 */
export function traceLink(line, heads, points) {
  line.moveTo(points[0], points[1]);
  for (let i = 2; i < points.length - 2; i += 2) {
    line.arcTo(points[i], points[i + 1], points[i + 2], points[i + 3], 7);
  }
  const [x, y] = points.slice(-2);
  line.lineTo(x, y);
  heads.moveTo(x, y);
  heads.lineTo(x - 3.6, y - 6);
  heads.lineTo(x + 3.6, y - 6);
  heads.closePath();
}
