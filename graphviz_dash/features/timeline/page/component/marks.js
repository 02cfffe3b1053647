// What is drawn over the lanes: launches with what they launched, rings around slices, the ruler.

import { formatTime } from "../../../../ui/components/common/numbers.js";
import { alpha, ink, textWidth } from "../../../../ui/components/common/theme.js";
import { GUTTER } from "./layout.js";
import { findLane, launchOf } from "./model.js";

/** @import { Block, LaneRow, Layout } from "./layout.js" */
/** @import { Slice } from "./model.js" */
/** @import { Timeline } from "./timeline.js" */

const MOST_LINES = 12;

/**
 * @param {Timeline} t
 * @param {Layout} layout
 */
export function drawMarks(t, layout) {
  const hovered = t.hover?.kind === "slice" ? t.hover : null;
  const selected = t.selectedSlice();
  if (selected) drawLinks(t, layout, selected, 0.85);
  if (hovered) drawLinks(t, layout, hovered, 0.55);
  if (hovered) ring(t, layout, hovered, 1);
  if (selected) ring(t, layout, selected, 2);
  else ringCard(t, layout);
  drawRuler(t, layout);
}

/**
 * The row of a lane.
 * @param {Block} block
 * @param {Slice["lane"] | undefined} lane
 */
function rowOf(block, lane) {
  return block.lanes.find((row) => row.lane === lane);
}

/**
 * A launch and its kernels: a line for one kernel, a fan for all that a call launched.
 * @param {Timeline} t
 * @param {Layout} layout
 * @param {Slice} slice
 * @param {number} opacity
 */
function drawLinks(t, layout, slice, opacity) {
  const block = layout.blocks.find(({ run }) => run === slice.run);
  if (slice.lane.kind === "range") return;
  const isCall = slice.lane.kind === "cpu";
  const call = isCall ? slice : launchOf(slice);
  const row = block && call && rowOf(block, call.lane);
  if (!block || !call || !row) return;
  const { ctx } = t;
  ctx.save();
  ctx.beginPath();
  ctx.rect(GUTTER, block.top, t.plot, block.bottom - block.top);
  ctx.clip();
  ctx.strokeStyle = alpha(t.theme.text, opacity);
  ctx.fillStyle = alpha(t.theme.text, 0.13);
  ctx.lineWidth = 1.2;
  const foot = { x: t.x(call.lane.start[call.i]), y: row.y + row.h };
  const target = rowOf(block, slice.lane);
  if (isCall) drawFan(t, block, call.lane.row[call.i], foot);
  else if (target) drawCurve(ctx, foot, t.x(slice.lane.start[slice.i]), target.y);
  ctx.restore();
}

/**
 * Lines from a call to what it launched, and a shade over all of it.
 * @param {Timeline} t
 * @param {Block} block
 * @param {number} call row of the call
 * @param {{x: number, y: number}} foot
 */
function drawFan(t, block, call, foot) {
  const { ctx } = t;
  let [begin, end, count] = [Infinity, -Infinity, 0];
  for (const { lane, y } of block.lanes) {
    for (let i = 0; lane.launch && i < lane.count; i++) {
      if (lane.launch[i] !== call) continue;
      begin = Math.min(begin, lane.start[i]);
      end = Math.max(end, lane.end[i]);
      if (++count <= MOST_LINES) drawCurve(ctx, foot, t.x(lane.start[i]), y);
    }
  }
  if (count < 2) return;
  const top = block.gpuTop;
  ctx.beginPath();
  ctx.moveTo(foot.x, foot.y);
  ctx.lineTo(t.x(begin), top);
  ctx.lineTo(t.x(end), top);
  ctx.closePath();
  ctx.fill();
  ctx.fillStyle = ctx.strokeStyle;
  ctx.fillRect(t.x(begin), top - 2, t.x(end) - t.x(begin), 2);
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
 * @param {Timeline} t
 * @param {Layout} layout
 * @param {Slice} slice
 * @param {number} thick
 */
function ring(t, layout, { run, lane, i }, thick) {
  const block = layout.blocks.find((each) => each.run === run);
  const row = block && rowOf(block, lane);
  if (row) ringAround(t, row, lane.start[i], lane.end[i], thick);
}

/**
 * A ring where the slice of the card is, though it is not loaded one by one.
 * @param {Timeline} t
 * @param {Layout} layout
 */
function ringCard(t, layout) {
  const { card } = t;
  const block = card && layout.blocks.find(({ run }) => run.run === card.run);
  const row = block && rowOf(block, findLane(block.run, card));
  if (row) ringAround(t, row, card.begin, card.begin + card.dur, 2);
}

/**
 * @param {Timeline} t
 * @param {LaneRow} row
 * @param {number} begin
 * @param {number} end
 * @param {number} thick
 */
function ringAround(t, row, begin, end, thick) {
  const { ctx, theme } = t;
  const left = Math.max(GUTTER - 4, t.x(begin));
  const right = Math.min(t.width + 4, Math.max(t.x(end), left + 3));
  if (right < GUTTER || left > t.width) return;
  ctx.lineWidth = thick + 1.5;
  ctx.strokeStyle = theme.background;
  ctx.strokeRect(left - 0.5, row.y - 0.5, right - left, row.h + 1);
  ctx.lineWidth = thick;
  ctx.strokeStyle = theme.text;
  ctx.strokeRect(left - 0.5, row.y - 0.5, right - left, row.h + 1);
}

/**
 * The ruler: its two instants, and its length between them.
 * @param {Timeline} t
 * @param {Layout} layout
 */
function drawRuler(t, layout) {
  const { ctx, theme } = t;
  const ruler = t.ruler.span;
  if (!ruler) return;
  const top = t.scroll + layout.axis;
  const [from, to] = [t.x(ruler[0]), t.x(ruler[1])];
  const left = Math.min(Math.max(GUTTER, from), t.width);
  const right = Math.min(Math.max(GUTTER, to), t.width);
  ctx.fillStyle = alpha(theme.primary, 0.13);
  ctx.fillRect(left, top, right - left, t.height);
  ctx.fillStyle = theme.primary;
  for (const x of [from, to]) {
    if (x >= GUTTER && x <= t.width) ctx.fillRect(x - 0.75, top, 1.5, t.height);
  }
  if (right < left || (left === right && (from > t.width || to < GUTTER))) return;
  ctx.fillRect(left, top + 13, right - left, 1.5);
  ctx.font = `600 12px ${theme.mono}`;
  ctx.textAlign = "left";
  const text = formatTime(ruler[1] - ruler[0]);
  const room = textWidth(ctx, text) + 12;
  const x = Math.min(Math.max(GUTTER, (left + right - room) / 2), t.width - room);
  ctx.fillRect(x, top + 4, room, 20);
  ctx.fillStyle = ink(theme.primary);
  ctx.fillText(text, x + 6, top + 14.5);
}
