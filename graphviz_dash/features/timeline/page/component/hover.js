// Hit testing on the canvas.

import { countUpTo } from "../../../../ui/components/common/numbers.js";
import { GUTTER } from "./layout.js";

/** @import { Span } from "./span.js" */
/** @import { Layout } from "./layout.js" */
/** @import { DecodedDifference, Lane, Run } from "./model.js" */

/**
 * A slice, a bin of a busy lane, a gap between slices (open: it extends beyond the loaded window), or
 * a time on a difference lane.
 * @typedef {{kind: "slice", run: Run, lane: Lane, i: number, at: number}
 *   | {kind: "busy", run: Run, lane: Lane, at: number, busy: number, span: number}
 *   | {kind: "gap", run: Run, lane: Lane, at: number, open: boolean, length: number}
 *   | {kind: "difference", run: Run, difference: DecodedDifference, at: number}} Hover
 */

const REACH_PX = 2;

/**
 * Find the slice, gap, bin or difference under a point.
 * @param {Layout} layout
 * @param {Span} loaded
 * @param {{x: number, y: number}} point y from the top of the lanes, scrolling included
 * @param {number} at time at x
 * @param {number} perPixel ns
 * @returns {Hover | null}
 */
export function findHover(layout, loaded, point, at, perPixel) {
  if (point.x < GUTTER) return null;
  /** @type {(row: {y: number, h: number}) => boolean} */
  const isUnder = (row) => point.y >= row.y && point.y < row.y + row.h + 3;
  for (const { run, lanes, differences } of layout.blocks) {
    const row = lanes.find(isUnder);
    if (row) return findLaneHover(run, row.lane, loaded, at, perPixel);
    const compared = differences.find(isUnder);
    if (compared) return { kind: "difference", run, difference: compared.difference, at };
  }
  return null;
}

/**
 * @param {Run} run
 * @param {Lane} lane
 * @param {Span} loaded
 * @param {number} at
 * @param {number} perPixel
 * @returns {Hover | null}
 */
function findLaneHover(run, lane, loaded, at, perPixel) {
  if (lane.busy) {
    const span = (loaded[1] - loaded[0]) / lane.busy.length;
    const bin = Math.floor((at - loaded[0]) / span);
    if (bin < 0 || bin >= lane.busy.length) return null;
    return { kind: "busy", run, lane, at, busy: lane.busy[bin], span };
  }
  const i = findNearestSlice(lane, at, REACH_PX * perPixel);
  if (i >= 0) return { kind: "slice", run, lane, i, at };
  const next = countUpTo(lane.start, at);
  const open = next === 0 || next === lane.count;
  const length = open ? 0 : lane.start[next] - lane.end[next - 1];
  return { kind: "gap", run, lane, at, open, length };
}

/**
 * Find the slice at a time, or the nearest one less than `reach` away; -1 if there is none.
 * @param {Lane} lane
 * @param {number} at
 * @param {number} reach in ns
 */
export function findNearestSlice(lane, at, reach) {
  const next = countUpTo(lane.start, at);
  let nearest = -1;
  for (const i of [next - 1, next]) {
    if (i < 0 || i >= lane.count) continue;
    const distance = at < lane.start[i] ? lane.start[i] - at : Math.max(0, at - lane.end[i]);
    if (distance < reach) [nearest, reach] = [i, distance];
  }
  return nearest;
}

/**
 * Find the edge of a slice nearest to a time and less than `reach` away; else the time itself.
 * @param {Lane} lane
 * @param {number} at
 * @param {number} reach in ns
 */
export function findNearestEdge(lane, at, reach) {
  const next = countUpTo(lane.start, at);
  let nearest = at;
  for (const i of [next - 1, next]) {
    if (i < 0 || i >= lane.count) continue;
    for (const edge of [lane.start[i], lane.end[i]]) {
      const distance = Math.abs(edge - at);
      if (distance < reach) [nearest, reach] = [edge, distance];
    }
  }
  return nearest;
}
