// Difference lanes: where the first run loses time against another one.

import { clamp, formatTime, formatTimeChange } from "../../../../ui/components/common/numbers.js";
import {
  fitText,
  measureText,
  mixColours,
  setAlpha,
} from "../../../../ui/components/common/theme.js";
import { GUTTER } from "./layout.js";

/** @import { DifferenceRow } from "./layout.js" */
/** @import { DecodedDifference } from "./model.js" */
/** @import { Look, Scene } from "./draw.js" */

/** Meaning of the colours of a difference lane, in the order of `lossColours`. */
export const LOSSES = [
  "slower: GPU idle",
  "slower: GPU work",
  "faster",
  "slower: waiting for ranks",
];

/** Share of the lane's height above its zero line. */
const SHARE_ABOVE_ZERO = 0.72;

/**
 * Get the colours of loss while idle, loss at work, gain, and loss by waiting for other ranks.
 * @param {Look} look
 */
export function getLossColours({ theme }) {
  return [
    theme.idle,
    mixColours(theme.background, theme.text, 0.86),
    theme.saved,
    mixColours(theme.background, theme.text, 0.42),
  ];
}

/**
 * Find which of `count` equal bins of the loaded window are visible, and how many to draw as one.
 * Bins narrower than a pixel are drawn together, two pixels wide: browsers without a GPU are slow at
 * paths with many corners.
 * @param {Scene} scene
 * @param {number} count
 */
export function getBinRange({ state, viewport }, count) {
  const [begin, end] = state.view ? state.view.loaded : viewport.window;
  const perBin = (end - begin) / count;
  const pixels = perBin / viewport.perPixel;
  const together = pixels < 0.9 ? Math.round(2 / pixels) : 1;
  let first = Math.max(0, Math.floor((viewport.window[0] - begin) / perBin));
  first -= first % together;
  const last = Math.min(count, Math.ceil((viewport.window[1] - begin) / perBin));
  /** @type {(bin: number) => number} */
  const toX = (bin) => viewport.toX(begin + bin * perBin);
  return { first, last, together, perBin, toX };
}

/**
 * Draw a difference lane: bars for the loss in each bin, and a line for the accumulated loss.
 * @param {Scene} scene
 * @param {DifferenceRow} row
 */
export function drawDifference(scene, row) {
  const { ctx, theme, viewport } = scene;
  const { difference, y, h } = row;
  ctx.fillStyle = theme.lane;
  ctx.fillRect(GUTTER, y, viewport.plot, h);
  if (difference.problem) {
    ctx.font = `12px ${theme.font}`;
    ctx.fillStyle = theme.muted;
    ctx.textAlign = "left";
    const text = formatNotCompared(difference);
    ctx.fillText(fitText(ctx, text, viewport.plot - 12), GUTTER + 6, y + h / 2);
    return;
  }
  const zero = y + Math.round(h * SHARE_ABOVE_ZERO);
  const scale = { zero, up: zero - y - 2, down: y + h - zero - 2 };
  drawBars(scene, difference, scale);
  ctx.fillStyle = theme.rule;
  ctx.fillRect(GUTTER, zero, viewport.plot, 1);
  drawTotal(scene, difference, scale);
}

/** @param {DecodedDifference} difference */
export function formatNotCompared({ run, problem }) {
  return problem.startsWith(`${run}: `)
    ? `Not compared with ${problem}`
    : `Not compared with ${run}: ${problem}`;
}

/** @typedef {{zero: number, up: number, down: number}} Scale */

/**
 * @param {Scene} scene
 * @param {DecodedDifference} difference
 * @param {Scale} scale
 */
function drawBars(scene, difference, { zero, up, down }) {
  const { ctx } = scene;
  const { first, last, together, perBin, toX } = getBinRange(scene, difference.bins);
  const [idleColour, busyColour, gainColour, waitColour] = getLossColours(scene);
  ctx.globalAlpha = 0.6;
  for (let bin = first; bin < last; bin += together) {
    const next = Math.min(last, bin + together);
    const left = toX(bin);
    const width = Math.max(0.75, toX(next) - left);
    /** @type {(sums: Float64Array) => number} */
    const lossShare = (sums) => clamp((sums[next] - sums[bin]) / (perBin * (next - bin)), -1, 1);
    /** @type {(from: number, share: number, fill: string) => void} */
    const bar = (from, share, fill) => {
      ctx.fillStyle = share > 0 ? fill : gainColour;
      if (share > 0) ctx.fillRect(left, zero - (from + share) * up, width, share * up);
      else ctx.fillRect(left, zero - from * down, width, -share * down);
    };
    const idle = lossShare(difference.idleAt);
    const busy = lossShare(difference.busyAt);
    if (idle) bar(0, idle, idleColour);
    if (busy) bar(busy > 0 === idle > 0 ? idle : 0, busy, busyColour);
    const waiting = difference.waitingAt ? lossShare(difference.waitingAt) : 0;
    if (waiting) {
      const below = [idle, busy].filter((part) => part > 0 === waiting > 0);
      bar(below.reduce((sum, part) => sum + part, 0), waiting, waitColour);
    }
  }
  ctx.globalAlpha = 1;
}

/**
 * @param {Scene} scene
 * @param {DecodedDifference} difference
 * @param {Scale} scale
 */
function drawTotal(scene, difference, { zero, up, down }) {
  const { ctx, theme } = scene;
  const { first, last, together, toX } = getBinRange(scene, difference.bins);
  /** @type {(loss: number) => number} */
  const toY = (loss) => zero - clamp((loss / (difference.most || 1)) * up, -down, up);
  ctx.beginPath();
  for (let bin = first; bin < last + together; bin += together) {
    const edge = Math.min(bin, last);
    const waited = difference.waitingAt?.[edge] ?? 0;
    const y = toY(difference.idleAt[edge] + difference.busyAt[edge] + waited);
    if (edge === first) ctx.moveTo(toX(edge), y);
    else ctx.lineTo(toX(edge), y);
  }
  ctx.lineWidth = 3.5;
  ctx.strokeStyle = setAlpha(theme.lane, 0.85);
  ctx.stroke();
  ctx.lineWidth = 1.5;
  ctx.strokeStyle = theme.text;
  ctx.stroke();
}

/**
 * @param {Scene} scene
 * @param {DifferenceRow} row
 */
export function drawDifferenceTitle(scene, row) {
  const { ctx, theme } = scene;
  const { difference, y, h } = row;
  const [idle, busy] = difference.total;
  const waited = difference.waitingTotal ?? 0;
  const lost = idle + busy + waited;
  const middle = y + Math.min(h / 2, 10);
  ctx.textAlign = "left";
  ctx.fillStyle = theme.muted;
  ctx.fillRect(10, middle - 4, 8, 8);
  ctx.font = `11px ${theme.font}`;
  ctx.fillStyle = theme.text;
  ctx.fillText(fitText(ctx, `vs ${difference.run}`, GUTTER - 30), 23, middle);
  if (difference.problem) return;
  ctx.font = `600 12px ${theme.mono}`;
  const time = formatTime(Math.abs(lost));
  ctx.fillText(time, 23, y + 25);
  const room = measureText(ctx, time) + 5;
  ctx.font = `11px ${theme.font}`;
  if (room < GUTTER - 58) ctx.fillText(lost < 0 ? "faster" : "slower", 23 + room, y + 25);
  ctx.fillStyle = theme.muted;
  ctx.fillText(fitText(ctx, formatCause(difference), GUTTER - 30), 23, y + 40);
}

/**
 * Name the cause as Compare does, or else the largest part under the profiler: there is room for one.
 * @param {DecodedDifference} difference
 */
export function formatCause({ cause, total: [idle, busy], work, waitingTotal = 0 }) {
  if (cause) return cause;
  /** @type {[string, number][]} */
  const parts = [
    ["idle", idle],
    ["kernels", work],
    ["overlap", busy - work],
    ["ranks", waitingTotal],
  ];
  const [name, time] = parts.reduce((a, b) => (Math.abs(b[1]) > Math.abs(a[1]) ? b : a));
  return `${name}: ${formatTimeChange(time)}`;
}

/**
 * Describe the accumulated loss at a time, and the loss in its bin. Null if the lane is not loaded
 * there.
 * @param {DecodedDifference} difference
 * @param {number} at
 * @param {[begin: number, end: number]} loaded
 * @param {string} first name of the first run
 */
export function describeDifference(difference, at, loaded, first) {
  if (difference.problem) return ["Not compared", difference.problem];
  const perBin = (loaded[1] - loaded[0]) / difference.bins;
  const bin = Math.floor((at - loaded[0]) / perBin);
  if (bin < 0 || bin >= difference.bins) return null;
  const share = (at - loaded[0]) / perBin - bin;
  const { idleAt, busyAt, waitingAt } = difference;
  /** @type {(sums: Float64Array) => number} */
  const here = (sums) => sums[bin + 1] - sums[bin];
  const idle = idleAt[bin] + here(idleAt) * share;
  const busy = busyAt[bin] + here(busyAt) * share;
  const waiting = waitingAt ? waitingAt[bin] + here(waitingAt) * share : 0;
  const lostHere = here(idleAt) + here(busyAt) + (waitingAt ? here(waitingAt) : 0);
  const percent = (100 * lostHere) / perBin;
  const lost = idle + busy + waiting;
  return [
    `${first} is ${formatTime(Math.abs(lost))} ${
      lost < 0 ? "ahead of" : "behind"
    } ${difference.run}`,
    `${formatTimeChange(idle)} from GPU idle time, ${formatTimeChange(busy)} from GPU work`,
    ...(waitingAt ? [`${formatTimeChange(waiting)} from waiting for other ranks`] : []),
    `here it ${percent < 0 ? "catches up" : "loses"} ${Math.abs(percent).toFixed(0)}% of the time`,
    difference.text,
    "both steps measured under the profiler",
  ];
}
