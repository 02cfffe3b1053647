// Drawing of the timeline. Names come from traces and are only drawn as text.

import { measureText, setAlpha } from "../../../../ui/components/common/theme.js";
import { GUTTER } from "./layout.js";
import { drawMarks } from "./marks.js";
import { drawRun } from "./runs.js";
import { chooseAxisUnit, computeTicks } from "./span.js";

/** @import { Palette, Theme } from "../../../../ui/components/common/theme.js" */
/** @import { Layout } from "./layout.js" */
/** @import { TimelineState } from "./state.js" */
/** @import { TimeViewport } from "./viewport.js" */

/** The colours of a drawing. @typedef {{palette: Palette, theme: Theme}} Look */

/**
 * The input of one drawing.
 * @typedef {object} Scene
 * @property {CanvasRenderingContext2D} ctx
 * @property {Palette} palette
 * @property {Theme} theme
 * @property {CanvasPattern | null} hatch
 * @property {TimelineState} state
 * @property {TimeViewport} viewport
 */

const TICK_PX = 92;

/**
 * Draw a frame.
 * @param {Scene} scene
 * @param {Layout} layout
 */
export function drawTimeline(scene, layout) {
  const { ctx, viewport } = scene;
  const { width, height, dpr } = viewport;
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.textBaseline = "middle";
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, layout.axis, width, height - layout.axis);
  ctx.clip();
  ctx.translate(0, -viewport.scroll);
  drawGrid(scene, layout);
  for (const block of layout.blocks) drawRun(scene, block);
  drawMarks(scene, layout);
  ctx.restore();
  drawAxis(scene, layout);
  drawScroll(scene, layout);
}

/**
 * Draw the scroll bar if the lanes do not fit.
 * @param {Scene} scene
 * @param {Layout} layout
 */
function drawScroll(scene, layout) {
  const { ctx, theme, viewport } = scene;
  const room = viewport.height - layout.axis;
  const total = layout.total - layout.axis;
  if (total <= room) return;
  ctx.fillStyle = setAlpha(theme.text, 0.35);
  ctx.fillRect(
    viewport.width - 5,
    layout.axis + (viewport.scroll / total) * room,
    4,
    (room / total) * room,
  );
}

/** @param {Scene} scene */
function getTicks({ viewport }) {
  return computeTicks(viewport.window, TICK_PX * viewport.perPixel);
}

/**
 * @param {Scene} scene
 * @param {Layout} layout
 */
function drawGrid(scene, layout) {
  const { ctx, theme, viewport } = scene;
  ctx.fillStyle = theme.rule;
  const bottom = Math.max(layout.total, viewport.height + viewport.scroll);
  for (const at of getTicks(scene).ticks) {
    ctx.globalAlpha = at === 0 ? 1 : 0.55;
    ctx.fillRect(Math.round(viewport.toX(at)), layout.axis, 1, bottom - layout.axis);
  }
  ctx.globalAlpha = 1;
}

/**
 * @param {Scene} scene
 * @param {Layout} layout
 */
function drawAxis(scene, layout) {
  const { ctx, theme, viewport } = scene;
  const { step, ticks: instants } = getTicks(scene);
  const { name, ns: scale } = chooseAxisUnit(viewport.window);
  const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  ctx.font = `11px ${theme.mono}`;
  ctx.textAlign = "left";
  const middle = layout.axis / 2;
  const cursor = viewport.cursor === null ? null : viewport.toX(viewport.cursor);
  for (const at of instants) {
    const x = viewport.toX(at);
    ctx.globalAlpha = cursor !== null && Math.abs(cursor - x - 20) < 62 ? 0.15 : 1;
    ctx.fillStyle = theme.muted;
    ctx.fillText(formatDigits(at / scale, digits), x + 4, middle);
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
  ctx.fillRect(0, layout.axis - 1, viewport.width, 1);
  if (viewport.cursor !== null) {
    drawCursor(scene, layout, formatDigits(viewport.cursor / scale, Math.min(3, digits + 1)));
  }
}

/**
 * @param {Scene} scene
 * @param {Layout} layout
 * @param {string} text
 */
function drawCursor(scene, layout, text) {
  const { ctx, theme, viewport } = scene;
  const x = viewport.toX(viewport.cursor ?? 0);
  ctx.fillStyle = setAlpha(theme.text, 0.28);
  ctx.fillRect(Math.round(x), layout.axis, 1, viewport.height);
  ctx.font = `600 11px ${theme.mono}`;
  const width = measureText(ctx, text);
  const left = Math.min(Math.max(GUTTER, x - width / 2), viewport.width - width - 6);
  ctx.fillStyle = theme.text;
  ctx.fillText(text, left, layout.axis / 2);
}

/**
 * @param {number} value
 * @param {number} digits after the point
 */
function formatDigits(value, digits) {
  return value.toLocaleString("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}
