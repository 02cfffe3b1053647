// The text in boxes and in the heads of unfolded groups.

import { formatCount } from "../../../../ui/components/common/numbers.js";
import {
  fitText,
  measureText,
  mixColours,
  setAlpha,
} from "../../../../ui/components/common/theme.js";
import { HEAD_HEIGHT } from "./geometry.js";

/** @import { Theme } from "../../../../ui/components/common/theme.js" */
/** @import { Scene } from "./draw.js" */
/** @import { Box } from "./wire.js" */

/** Zoom at which a box has room for two lines. */
export const NOTE_ZOOM = 0.68;

/** Text sizes at full zoom, in pixels. */
export const SIZES = { name: 11.5, time: 11, note: 10.5, head: 12, block: 11, link: 10 };

/** Smallest text on the screen, in pixels, if its box has room for it. */
const MIN_PX = 11;
const MAX_GROWTH = 2.5;

/**
 * Compute the size of a text in the graph from its size at full zoom.
 * @param {number} zoom
 * @param {number} size
 */
export function computeTextSize(zoom, size) {
  const readable = Math.max(size, Math.ceil((2 * MIN_PX) / zoom) / 2);
  return Math.min(MAX_GROWTH * size, readable);
}

/**
 * Share of the text colour in the background of unfolded groups.
 * @param {Theme} theme
 */
function getGroundShare(theme) {
  return theme.dark ? 0.035 : 0.026;
}

/**
 * Translucent background of unfolded groups.
 * @param {Theme} theme
 */
export function getGroundColour(theme) {
  return setAlpha(theme.text, getGroundShare(theme));
}

/**
 * Draw the head of an unfolded group: its name, and as many facts as fit.
 * @param {Scene} scene
 * @param {Box} box
 */
export function drawHead(scene, box) {
  const { ctx, theme, zoom } = scene;
  ctx.textBaseline = "middle";
  const y = box.y + 13;
  drawChevron(ctx, box.x + 13, y, true, theme.muted);
  let room = box.width - 36;
  if (box.repeats) room -= drawBlockSwitch(scene, box, y, room);
  ctx.font = `600 ${computeTextSize(zoom, SIZES.head)}px ${theme.font}`;
  const name = fitText(ctx, box.label, room);
  const left = room - measureText(ctx, name) - 14;
  ctx.textAlign = "left";
  clearGround(ctx, theme, box.x + 22, y, measureText(ctx, name));
  ctx.fillStyle = theme.text;
  ctx.fillText(name, box.x + 22, y);
  ctx.font = `${computeTextSize(zoom, SIZES.time)}px ${theme.mono}`;
  ctx.textAlign = "right";
  const count = box.note.split(" · ")[0];
  const facts = [box.note, count, ""].map((text) => [text, box.time].filter(Boolean).join(" · "));
  const shown = facts.find((text) => text && measureText(ctx, text) <= left);
  if (!shown) return;
  const right = box.x + 25 + room;
  clearGround(ctx, theme, right - measureText(ctx, shown), y, measureText(ctx, shown));
  ctx.fillStyle = theme.muted;
  ctx.fillText(shown, right, y);
}

/**
 * Erase a link under a text down to the background of the group.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Theme} theme
 * @param {number} x
 * @param {number} y
 * @param {number} width
 */
function clearGround(ctx, theme, x, y, width) {
  ctx.fillStyle = mixColours(theme.background, theme.text, getGroundShare(theme));
  ctx.fillRect(x - 2, y - 8, width + 4, 16);
}

/**
 * Draw the number of the shown block with arrows to its neighbours.
 * @param {Scene} scene
 * @param {Box} box
 * @param {number} y
 * @param {number} maxWidth
 * @returns {number} width used
 */
function drawBlockSwitch(scene, box, y, maxWidth) {
  const { ctx, theme, zoom } = scene;
  const count = formatCount(box.repeats);
  const text = box.block < 0 ? `× ${count}` : `${formatCount(box.block + 1)} of ${count}`;
  ctx.font = `600 ${computeTextSize(zoom, SIZES.block)}px ${theme.font}`;
  const arrows = box.block < 0 ? 0 : 18;
  const room = measureText(ctx, text) + 2 * arrows + 8;
  if (room > maxWidth * 0.6) return 0;
  const right = box.x + box.width - 9;
  const left = right - room + 8;
  ctx.textAlign = "left";
  clearGround(ctx, theme, left, y, room - 10);
  ctx.fillStyle = box.differ ? theme.critical : theme.primary;
  ctx.fillText(text, left + arrows, y);
  if (arrows) {
    for (const [by, x] of [[-1, left + 6], [1, right - 7]]) {
      drawArrow(ctx, x, y, by, theme.primary);
      scene.arrows.push({ x: x - 10, y: box.y, width: 20, height: HEAD_HEIGHT, box, by });
    }
  }
  return room + 6;
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x
 * @param {number} y
 * @param {number} by
 * @param {string} stroke
 */
function drawArrow(ctx, x, y, by, stroke) {
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1.8;
  ctx.beginPath();
  ctx.moveTo(x - 2 * by, y - 4.5);
  ctx.lineTo(x + 2.5 * by, y);
  ctx.lineTo(x - 2 * by, y + 4.5);
  ctx.stroke();
}

/**
 * Draw the text of a folded box: its name, and a second line with note and time if it fits.
 * @param {Scene} scene
 * @param {Box} box
 */
export function drawText(scene, box) {
  const { ctx, theme, zoom } = scene;
  const group = box.node < 0;
  const x = box.x + (group ? 24 : 11);
  const edge = box.x + box.width - 9;
  const singleLine = zoom < NOTE_ZOOM;
  // A single line is centred; in a group, above the strip.
  const first = box.y + (singleLine ? (group ? 19 : box.height / 2) : group ? 15 : 13);
  ctx.textBaseline = "middle";
  if (group) drawChevron(ctx, box.x + 14, first, false, theme.muted);
  ctx.textAlign = "left";
  ctx.font = `${group ? 600 : 500} ${computeTextSize(zoom, SIZES.name)}px ${theme.font}`;
  ctx.fillStyle = theme.text;
  const badge = box.repeats ? ` × ${formatCount(box.repeats)}` : "";
  const room = edge - x - (badge ? measureText(ctx, badge) : 0);
  ctx.fillText(fitText(ctx, box.label, room) + badge, x, first);
  if (!singleLine) drawNote(scene, box, x, edge);
  else if (!group) drawShortTime(scene, box, x + measureText(ctx, box.label) + 8, edge, first);
}

/**
 * Draw the time of a box behind its name, if both fit.
 * @param {Scene} scene
 * @param {Box} box
 * @param {number} x
 * @param {number} edge
 * @param {number} y
 */
function drawShortTime({ ctx, theme, zoom }, box, x, edge, y) {
  const text = shortenTime(box.time);
  ctx.font = `${computeTextSize(zoom, SIZES.note)}px ${theme.font}`;
  if (!text || x + measureText(ctx, text) > edge) return;
  ctx.textAlign = "right";
  ctx.fillStyle = theme.muted;
  ctx.fillText(text, edge, y);
}

/**
 * Shorten a time to two digits: "49.3 µs" becomes "49 µs". Empty if it is unknown.
 * @param {string} time
 */
export function shortenTime(time) {
  const [number, unit] = time.split(" ");
  const value = Number(number?.replaceAll(",", ""));
  if (!unit || !Number.isFinite(value)) return "";
  return `${value < 10 ? Number(value.toPrecision(2)) : Math.round(value)} ${unit}`;
}

/**
 * Draw the time of a box, right-aligned at `edge`.
 * @param {Scene} scene
 * @param {Box} box
 * @param {number} edge
 * @param {number} y
 * @returns {number} width used
 */
function drawTime({ ctx, theme, zoom }, box, edge, y) {
  if (!box.time) return 0;
  ctx.textAlign = "right";
  ctx.font = `${computeTextSize(zoom, SIZES.time)}px ${theme.mono}`;
  ctx.fillStyle = theme.muted;
  ctx.fillText(box.time, edge, y);
  return measureText(ctx, box.time) + 8;
}

/**
 * Draw the second line of a box.
 * @param {Scene} scene
 * @param {Box} box
 * @param {number} x
 * @param {number} edge
 */
function drawNote(scene, box, x, edge) {
  const { ctx, theme, zoom } = scene;
  const group = box.node < 0;
  const y = box.y + (group ? 32 : 29);
  const right = edge - drawTime(scene, box, edge, y);
  ctx.font = `${computeTextSize(zoom, SIZES.note)}px ${theme.font}`;
  const hits = group ? scene.state.hits.countIn(box) : 0;
  const count = hits ? `${hits} found` : "";
  ctx.textAlign = "right";
  ctx.fillStyle = theme.primary;
  ctx.fillText(count, right, y);
  const note = box.differ ? `${box.note}, ${box.differ} differ` : box.note;
  ctx.textAlign = "left";
  ctx.fillStyle = theme.muted;
  ctx.fillText(fitText(ctx, note, right - (count ? measureText(ctx, count) + 8 : 0) - x), x, y);
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x
 * @param {number} y
 * @param {boolean} open
 * @param {string} stroke
 */
function drawChevron(ctx, x, y, open, stroke) {
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1.6;
  ctx.beginPath();
  if (open) {
    ctx.moveTo(x - 4, y - 2);
    ctx.lineTo(x, y + 2.5);
    ctx.lineTo(x + 4, y - 2);
  } else {
    ctx.moveTo(x - 2, y - 4);
    ctx.lineTo(x + 2.5, y);
    ctx.lineTo(x - 2, y + 4);
  }
  ctx.stroke();
}
