// The text in boxes and in the heads of unfolded groups.

import { formatCount } from "../common/numbers.js";
import { fitText, measureText, mixColours, setAlpha } from "../common/theme.js";
import { HEAD_HEIGHT } from "./geometry.js";

/** @import { Theme } from "../common/theme.js" */
/** @import { Scene } from "./draw.js" */
/** @import { Box } from "./wire.js" */

/** Zoom from which on a box has room for two lines. */
export const NOTE_ZOOM = 0.6;

/** Sizes of the texts at full zoom, in pixels. */
export const SIZES = { name: 11.5, time: 11, note: 10.5, head: 12, block: 11, link: 10 };

/** What no text falls below, in pixels of the screen, as long as its box has room for that. */
const MIN_PX = 9;
const MAX_GROWTH = 2.4;

/**
 * The size in the graph of a text that has `size` at full zoom.
 * @param {number} zoom
 * @param {number} size
 */
export function computeTextSize(zoom, size) {
  const wanted = Math.max(size, Math.ceil((2 * MIN_PX) / zoom) / 2);
  return Math.min(MAX_GROWTH * size, wanted);
}

/**
 * How much of the text's colour is in the ground of unfolded groups.
 * @param {Theme} theme
 */
function getGroundShare(theme) {
  return theme.dark ? 0.035 : 0.026;
}

/**
 * The ground of unfolded groups, to lay over what is there.
 * @param {Theme} theme
 */
export function getGroundColour(theme) {
  return setAlpha(theme.text, getGroundShare(theme));
}

/**
 * The head of an unfolded group: its name, and of the facts as much as there is room for.
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
 * Takes away the link that may run where text will stand, down to the ground of the group.
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
 * Which block of a repeat is shown, with arrows to the ones beside it; returns the width used.
 * @param {Scene} scene
 * @param {Box} box
 * @param {number} y
 * @param {number} most
 */
function drawBlockSwitch(scene, box, y, most) {
  const { ctx, theme, zoom } = scene;
  const count = formatCount(box.repeats);
  const text = box.block < 0 ? `× ${count}` : `${formatCount(box.block + 1)} of ${count}`;
  ctx.font = `600 ${computeTextSize(zoom, SIZES.block)}px ${theme.font}`;
  const arrows = box.block < 0 ? 0 : 18;
  const room = measureText(ctx, text) + 2 * arrows + 8;
  if (room > most * 0.6) return 0;
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
 * The text of a folded box: its name, and below it, where there is room, what it is and its time.
 * @param {Scene} scene
 * @param {Box} box
 */
export function drawText(scene, box) {
  const { ctx, theme, zoom } = scene;
  const group = box.node < 0;
  const x = box.x + (group ? 24 : 11);
  const edge = box.x + box.width - 9;
  const alone = zoom < NOTE_ZOOM;
  // The only line of a box is in its middle: in a group's, above the strip.
  const first = box.y + (alone ? (group ? 19 : box.height / 2) : group ? 15 : 13);
  ctx.textBaseline = "middle";
  if (group) drawChevron(ctx, box.x + 14, first, false, theme.muted);
  ctx.textAlign = "left";
  ctx.font = `${group ? 600 : 500} ${computeTextSize(zoom, SIZES.name)}px ${theme.font}`;
  ctx.fillStyle = theme.text;
  const badge = box.repeats ? ` × ${formatCount(box.repeats)}` : "";
  const room = edge - x - (badge ? measureText(ctx, badge) : 0);
  ctx.fillText(fitText(ctx, box.label, room) + badge, x, first);
  if (!alone) drawNote(scene, box, x, edge);
}

/**
 * A box's time, up to `edge`; returns the width used.
 * @param {Scene} scene
 * @param {Box} box
 * @param {number} edge
 * @param {number} y
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
 * The second line of a box.
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
