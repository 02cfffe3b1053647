// Marks over the lanes: lines from launches to kernels, rings around slices, the ruler.

import { formatTime } from "../../../../ui/components/common/numbers.js";
import { chooseInk, measureText, setAlpha } from "../../../../ui/components/common/theme.js";
import { GUTTER } from "./layout.js";
import { findLane, findLaunch } from "./model.js";

/** @import { Block, LaneRow, Layout } from "./layout.js" */
/** @import { Slice } from "./model.js" */
/** @import { Scene } from "./draw.js" */

const MAX_LINES = 12;

/**
 * @param {Scene} scene
 * @param {Layout} layout
 */
export function drawMarks(scene, layout) {
  const { state } = scene;
  const hovered = state.hover?.kind === "slice" ? state.hover : null;
  const selected = state.selectedSlice;
  if (selected) drawLinks(scene, layout, selected, 0.85);
  if (hovered) drawLinks(scene, layout, hovered, 0.55);
  if (hovered) drawSliceRing(scene, layout, hovered, 1);
  if (selected) drawSliceRing(scene, layout, selected, 2);
  else drawCardRing(scene, layout);
  drawRuler(scene, layout);
}

/**
 * Find the row of a lane.
 * @param {Block} block
 * @param {Slice["lane"] | undefined} lane
 */
function findRow(block, lane) {
  return block.lanes.find((row) => row.lane === lane);
}

/**
 * Draw the line from a launch to its kernel, or the fan to all kernels of a call.
 * @param {Scene} scene
 * @param {Layout} layout
 * @param {Slice} slice
 * @param {number} opacity
 */
function drawLinks(scene, layout, slice, opacity) {
  const block = layout.blocks.find(({ run }) => run === slice.run);
  if (slice.lane.kind === "range") return;
  const isCall = slice.lane.kind === "cpu";
  const call = isCall ? slice : findLaunch(slice);
  const row = block && call && findRow(block, call.lane);
  if (!block || !call || !row) return;
  const { ctx, theme, viewport } = scene;
  ctx.save();
  ctx.beginPath();
  ctx.rect(GUTTER, block.top, viewport.plot, block.bottom - block.top);
  ctx.clip();
  ctx.strokeStyle = setAlpha(theme.text, opacity);
  ctx.fillStyle = setAlpha(theme.text, 0.13);
  ctx.lineWidth = 1.2;
  const foot = { x: viewport.toX(call.lane.start[call.i]), y: row.y + row.h };
  const target = findRow(block, slice.lane);
  if (isCall) drawFan(scene, block, call.lane.row[call.i], foot);
  else if (target) drawCurve(ctx, foot, viewport.toX(slice.lane.start[slice.i]), target.y);
  ctx.restore();
}

/**
 * Draw lines from a call to its kernels over a shaded area.
 * @param {Scene} scene
 * @param {Block} block
 * @param {number} call row of the call
 * @param {{x: number, y: number}} foot
 */
function drawFan(scene, block, call, foot) {
  const { ctx, viewport } = scene;
  let [begin, end, count] = [Infinity, -Infinity, 0];
  for (const { lane, y } of block.lanes) {
    for (let i = 0; lane.launch && i < lane.count; i++) {
      if (lane.launch[i] !== call) continue;
      begin = Math.min(begin, lane.start[i]);
      end = Math.max(end, lane.end[i]);
      if (++count <= MAX_LINES) drawCurve(ctx, foot, viewport.toX(lane.start[i]), y);
    }
  }
  if (count < 2) return;
  const top = block.gpuTop;
  ctx.beginPath();
  ctx.moveTo(foot.x, foot.y);
  ctx.lineTo(viewport.toX(begin), top);
  ctx.lineTo(viewport.toX(end), top);
  ctx.closePath();
  ctx.fill();
  ctx.fillStyle = ctx.strokeStyle;
  ctx.fillRect(viewport.toX(begin), top - 2, viewport.toX(end) - viewport.toX(begin), 2);
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {{x: number, y: number}} from
 * @param {number} x
 * @param {number} y
 */
function drawCurve(ctx, from, x, y) {
  const bend = Math.max(8, (y - from.y) * 0.6);
  ctx.beginPath();
  ctx.moveTo(from.x, from.y);
  ctx.bezierCurveTo(from.x, from.y + bend, x, y - bend, x, y);
  ctx.stroke();
}

/**
 * @param {Scene} scene
 * @param {Layout} layout
 * @param {Slice} slice
 * @param {number} lineWidth
 */
function drawSliceRing(scene, layout, { run, lane, i }, lineWidth) {
  const block = layout.blocks.find((candidate) => candidate.run === run);
  const row = block && findRow(block, lane);
  if (row) drawRing(scene, row, lane.start[i], lane.end[i], lineWidth);
}

/**
 * Draw a ring around the slice of the card even if the slice is not loaded.
 * @param {Scene} scene
 * @param {Layout} layout
 */
function drawCardRing(scene, layout) {
  const { card } = scene.state;
  const block = card && layout.blocks.find(({ run }) => run.run === card.run);
  const row = block && findRow(block, findLane(block.run, card));
  if (row) drawRing(scene, row, card.begin, card.begin + card.dur, 2);
}

/**
 * @param {Scene} scene
 * @param {LaneRow} row
 * @param {number} begin
 * @param {number} end
 * @param {number} lineWidth
 */
function drawRing(scene, row, begin, end, lineWidth) {
  const { ctx, theme, viewport } = scene;
  const left = Math.max(GUTTER - 4, viewport.toX(begin));
  const right = Math.min(viewport.width + 4, Math.max(viewport.toX(end), left + 3));
  if (right < GUTTER || left > viewport.width) return;
  ctx.lineWidth = lineWidth + 1.5;
  ctx.strokeStyle = theme.background;
  ctx.strokeRect(left - 0.5, row.y - 0.5, right - left, row.h + 1);
  ctx.lineWidth = lineWidth;
  ctx.strokeStyle = theme.text;
  ctx.strokeRect(left - 0.5, row.y - 0.5, right - left, row.h + 1);
}

/**
 * Draw the ruler: its two ends, and its length between them.
 * @param {Scene} scene
 * @param {Layout} layout
 */
function drawRuler(scene, layout) {
  const { ctx, state: { ruler }, theme, viewport } = scene;
  if (!ruler) return;
  const top = viewport.scroll + layout.axis;
  const [from, to] = [viewport.toX(ruler[0]), viewport.toX(ruler[1])];
  const left = Math.min(Math.max(GUTTER, from), viewport.width);
  const right = Math.min(Math.max(GUTTER, to), viewport.width);
  ctx.fillStyle = setAlpha(theme.primary, 0.13);
  ctx.fillRect(left, top, right - left, viewport.height);
  ctx.fillStyle = theme.primary;
  for (const x of [from, to]) {
    if (x >= GUTTER && x <= viewport.width) ctx.fillRect(x - 0.75, top, 1.5, viewport.height);
  }
  if (right < left || (left === right && (from > viewport.width || to < GUTTER))) return;
  ctx.fillRect(left, top + 13, right - left, 1.5);
  ctx.font = `600 12px ${theme.mono}`;
  ctx.textAlign = "left";
  const text = formatTime(ruler[1] - ruler[0]);
  const room = measureText(ctx, text) + 12;
  const x = Math.min(Math.max(GUTTER, (left + right - room) / 2), viewport.width - room);
  ctx.fillRect(x, top + 4, room, 20);
  ctx.fillStyle = chooseInk(theme.primary);
  ctx.fillText(text, x + 6, top + 14.5);
}
