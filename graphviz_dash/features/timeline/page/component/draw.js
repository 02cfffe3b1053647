// Drawing of the timeline on a 2D canvas. Names come from traces: they are only ever drawn as text.

import { alpha, textWidth } from "../../../../ui/components/common/theme.js";
import { GUTTER } from "./layout.js";
import { drawMarks } from "./marks.js";
import { drawRun } from "./runs.js";
import { axisUnit, ticksOf } from "./span.js";

/** @import { Layout } from "./layout.js" */
/** @import { Timeline } from "./timeline.js" */

const TICK_PX = 92;

/**
 * Draws one frame: everything is a function of the timeline's view, window and marks.
 * @param {Timeline} t
 * @param {Layout} layout
 */
export function drawTimeline(t, layout) {
  const { ctx, width, height } = t;
  ctx.setTransform(t.dpr, 0, 0, t.dpr, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.textBaseline = "middle";
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, layout.axis, width, height - layout.axis);
  ctx.clip();
  ctx.translate(0, -t.scroll);
  drawGrid(t, layout);
  for (const block of layout.blocks) drawRun(t, block);
  drawMarks(t, layout);
  ctx.restore();
  drawAxis(t, layout);
  drawScroll(t, layout);
}

/**
 * How far the lanes are scrolled, where they do not all fit.
 * @param {Timeline} t
 * @param {Layout} layout
 */
function drawScroll(t, layout) {
  const { ctx, theme } = t;
  const room = t.height - layout.axis;
  const all = layout.total - layout.axis;
  if (all <= room) return;
  ctx.fillStyle = alpha(theme.text, 0.35);
  ctx.fillRect(t.width - 5, layout.axis + (t.scroll / all) * room, 4, (room / all) * room);
}

/** @param {Timeline} t */
function ticks(t) {
  return ticksOf(t.window, TICK_PX * t.perPixel);
}

/**
 * @param {Timeline} t
 * @param {Layout} layout
 */
function drawGrid(t, layout) {
  const { ctx, theme } = t;
  ctx.fillStyle = theme.rule;
  const bottom = Math.max(layout.total, t.height + t.scroll);
  for (const at of ticks(t).ticks) {
    ctx.globalAlpha = at === 0 ? 1 : 0.55;
    ctx.fillRect(Math.round(t.x(at)), layout.axis, 1, bottom - layout.axis);
  }
  ctx.globalAlpha = 1;
}

/**
 * @param {Timeline} t
 * @param {Layout} layout
 */
function drawAxis(t, layout) {
  const { ctx, theme } = t;
  const { step, ticks: instants } = ticks(t);
  const { name, ns: scale } = axisUnit(t.window);
  const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  ctx.font = `11px ${theme.mono}`;
  ctx.textAlign = "left";
  const middle = layout.axis / 2;
  const cursor = t.cursor === null ? null : t.x(t.cursor);
  for (const at of instants) {
    const x = t.x(at);
    ctx.globalAlpha = cursor !== null && Math.abs(cursor - x - 20) < 62 ? 0.15 : 1;
    ctx.fillStyle = theme.muted;
    ctx.fillText(withDigits(at / scale, digits), x + 4, middle);
    ctx.fillStyle = theme.rule;
    ctx.fillRect(Math.round(x), 5, 1, layout.axis - 5);
  }
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, GUTTER, layout.axis);
  ctx.fillStyle = theme.muted;
  ctx.font = `11px ${theme.font}`;
  ctx.fillText(`${name} since step start`, 10, middle);
  ctx.fillStyle = theme.rule;
  ctx.fillRect(0, layout.axis - 1, t.width, 1);
  if (t.cursor !== null) {
    drawCursor(t, layout, withDigits(t.cursor / scale, Math.min(3, digits + 1)));
  }
}

/**
 * @param {Timeline} t
 * @param {Layout} layout
 * @param {string} text
 */
function drawCursor(t, layout, text) {
  const { ctx, theme } = t;
  const x = t.x(t.cursor ?? 0);
  ctx.fillStyle = alpha(theme.text, 0.28);
  ctx.fillRect(Math.round(x), layout.axis, 1, t.height);
  ctx.font = `600 11px ${theme.mono}`;
  const width = textWidth(ctx, text);
  const left = Math.min(Math.max(GUTTER, x - width / 2), t.width - width - 6);
  ctx.fillStyle = theme.text;
  ctx.fillText(text, left, layout.axis / 2);
}

/**
 * @param {number} value
 * @param {number} digits after the point
 */
function withDigits(value, digits) {
  return value.toLocaleString("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}
