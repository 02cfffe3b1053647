// Layout of runs and lanes on the canvas, top to bottom, in CSS pixels.

/** @import { DecodedDifference, Lane, Run, View } from "./model.js" */

/** @typedef {{lane: Lane, y: number, h: number}} LaneRow */
/** @typedef {{difference: DecodedDifference, y: number, h: number}} DifferenceRow */

/**
 * Layout of a run. The lanes that compare the first run with the others are below it, on its time
 * axis.
 * @typedef {object} Block
 * @property {Run} run
 * @property {number} top
 * @property {number} lanesTop
 * @property {number} gpuTop top of the first GPU lane, or lanesBottom if there is none
 * @property {number} lanesBottom
 * @property {number} bottom
 * @property {LaneRow[]} lanes
 * @property {DifferenceRow[]} differences
 */

/** @typedef {{blocks: Block[], axis: number, total: number}} Layout */

/** Width of the lane names at the left. */
export const GUTTER = 124;

const AXIS = 26;
const HEADER = 24;
const FOOTER = 20;
const RUN_GAP = 10;
const GPU_GAP = 4;
const CPU_GAP = 3;
const EMPTY_RUN = 40;
const MIN_LANE = 22;
const TALL_LANE = 92;
const MAX_LANE = 320;
const MAX_STRETCH = 3;
const RANGE_LANE = 14;
const CPU_LANE = 14;
const CPU_SUB_LANE = 8;
const GPU_SUB_LANE = 14;
const DIFFERENCE = 52;
const NO_DIFFERENCE = 20;

/**
 * Lay out runs and lanes. GPU lanes grow to fill `height`, within limits.
 * @param {View} view
 * @param {number} height
 * @returns {Layout}
 */
export function layOut(view, height) {
  const heightOf = computeLaneHeights(view, height);
  const blocks = [];
  let y = AXIS;
  for (const run of view.runs) {
    const differences = run === view.runs[0] ? view.differences : [];
    const block = layOutRun(run, differences, y, heightOf);
    blocks.push(block);
    y = block.bottom + RUN_GAP;
  }
  return { blocks, axis: AXIS, total: y };
}

/**
 * @param {Run} run
 * @param {DecodedDifference[]} differences
 * @param {number} top
 * @param {(lane: Lane) => number} heightOf
 * @returns {Block}
 */
function layOutRun(run, differences, top, heightOf) {
  const lanesTop = top + HEADER;
  let y = lanesTop;
  /** @type {LaneRow[]} */
  const lanes = [];
  for (const lane of run.lanes) {
    const h = heightOf(lane);
    lanes.push({ lane, y, h });
    y += h + getGapBelow(lane);
  }
  if (!lanes.length) y += EMPTY_RUN;
  const lanesBottom = y;
  y += FOOTER;
  const rows = [];
  for (const difference of differences) {
    const h = getDifferenceHeight(difference);
    rows.push({ difference, y, h });
    y += h + GPU_GAP;
  }
  const gpuTop = lanes.find(({ lane }) => lane.kind === "gpu")?.y ?? lanesBottom;
  return { run, top, lanesTop, gpuTop, lanesBottom, bottom: y, lanes, differences: rows };
}

/**
 * Compute the heights of lanes. Main GPU lanes grow first, then the other lanes, then main GPU lanes
 * again.
 * @param {View} view
 * @param {number} height
 * @returns {(lane: Lane) => number}
 */
function computeLaneHeights(view, height) {
  let free = height - AXIS;
  let flexible = 0;
  let fixed = 0;
  for (const difference of view.differences) free -= getDifferenceHeight(difference) + GPU_GAP;
  for (const run of view.runs) {
    free -= HEADER + FOOTER + RUN_GAP + (run.lanes.length ? 0 : EMPTY_RUN);
    for (const lane of run.lanes) {
      const base = getFixedHeight(lane);
      free -= (base ?? 0) + getGapBelow(lane);
      fixed += base ?? 0;
      if (base === null) flexible++;
    }
  }
  const share = free / Math.max(1, flexible);
  let grown = Math.max(MIN_LANE, Math.min(TALL_LANE, share));
  const left = Math.max(0, free - grown * flexible);
  const stretch = fixed ? Math.min(MAX_STRETCH, 1 + left / fixed) : 1;
  const more = (left - fixed * (stretch - 1)) / Math.max(1, flexible);
  grown = Math.min(MAX_LANE, grown + more);
  return (lane) => {
    const base = getFixedHeight(lane);
    return base === null ? grown : base * stretch;
  };
}

/**
 * Minimum height of a lane; null for main GPU lanes, which grow first.
 * @param {Lane} lane
 */
function getFixedHeight(lane) {
  if (lane.kind === "range") return RANGE_LANE;
  if (lane.kind === "cpu") return lane.sub ? CPU_SUB_LANE : CPU_LANE;
  return lane.sub ? GPU_SUB_LANE : null;
}

/** @param {Lane} lane */
function getGapBelow(lane) {
  if (lane.kind === "range") return 1;
  return lane.kind === "cpu" ? CPU_GAP : GPU_GAP;
}

/** @param {DecodedDifference} difference */
function getDifferenceHeight(difference) {
  return difference.problem ? NO_DIFFERENCE : DIFFERENCE;
}
