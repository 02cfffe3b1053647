// The text in boxes and in the heads of unfolded groups.

import { formatCount } from "../shared/numbers.js";
import { alpha, fitText, mix, textWidth } from "../shared/theme.js";
import { HEAD } from "./geometry.js";

/** @import { Theme } from "../shared/theme.js" */
/** @import { Dag } from "./dag.js" */
/** @import { Box } from "./wire.js" */

// Below this a box has room for its name or its time: the name.
const TIMES_FROM = 0.44;
export const NOTES_FROM = 0.6;

/**
 * The size of a text that has `size` at full zoom and is not to fall below `least` pixels of the
 * screen, where a box of this zoom has room for it.
 * @param {number} zoom
 * @param {number} size
 * @param {number} least
 * @param {number} [most] times `size`
 */
export function legible(zoom, size, least, most = 1.8) {
  return Math.round(Math.min(most * size, Math.max(size, least / zoom)) * 2) / 2;
}

/**
 * How much of the text's colour is in the ground of unfolded groups.
 * @param {Theme} theme
 */
function groundShare(theme) {
  return theme.dark ? 0.035 : 0.026;
}

/**
 * The ground of unfolded groups, to lay over what is there.
 * @param {Theme} theme
 */
export function ground(theme) {
  return alpha(theme.text, groundShare(theme));
}

/**
 * The head of an unfolded group: its name, and of the facts as much as there is room for.
 * @param {Dag} dag
 * @param {CanvasRenderingContext2D} ctx
 * @param {Box} box
 */
export function drawHead(dag, ctx, box) {
  const { theme, zoom } = dag;
  ctx.textBaseline = "middle";
  const y = box.y + 13;
  drawChevron(ctx, box.x + 13, y, true, theme.muted);
  let room = box.width - 36;
  if (box.repeats) room -= drawBlock(dag, ctx, box, y, room);
  ctx.font = `600 ${legible(zoom, 12, 8.5)}px ${theme.font}`;
  const name = fitText(ctx, box.label, room);
  const left = room - textWidth(ctx, name) - 14;
  ctx.textAlign = "left";
  clearUnder(ctx, theme, box.x + 22, y, textWidth(ctx, name));
  ctx.fillStyle = theme.text;
  ctx.fillText(name, box.x + 22, y);
  ctx.font = `${legible(zoom, 11, 7.5)}px ${theme.mono}`;
  ctx.textAlign = "right";
  const count = box.note.split(" · ")[0];
  const facts = [box.note, count, ""].map((text) => [text, box.time].filter(Boolean).join(" · "));
  const shown = facts.find((text) => text && textWidth(ctx, text) <= left);
  if (!shown) return;
  const right = box.x + 25 + room;
  clearUnder(ctx, theme, right - textWidth(ctx, shown), y, textWidth(ctx, shown));
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
function clearUnder(ctx, theme, x, y, width) {
  ctx.fillStyle = mix(theme.background, theme.text, groundShare(theme));
  ctx.fillRect(x - 2, y - 8, width + 4, 16);
}

/**
 * Which block of a repeat is shown, with arrows to the ones beside it; returns the width used.
 * @param {Dag} dag
 * @param {CanvasRenderingContext2D} ctx
 * @param {Box} box
 * @param {number} y
 * @param {number} most
 */
function drawBlock(dag, ctx, box, y, most) {
  const { theme } = dag;
  const count = formatCount(box.repeats);
  const text = box.block < 0 ? `× ${count}` : `${formatCount(box.block + 1)} of ${count}`;
  ctx.font = `600 ${legible(dag.zoom, 11, 8)}px ${theme.font}`;
  const arrows = box.block < 0 ? 0 : 18;
  const room = textWidth(ctx, text) + 2 * arrows + 8;
  if (room > most * 0.6) return 0;
  const right = box.x + box.width - 9;
  const left = right - room + 8;
  ctx.textAlign = "left";
  clearUnder(ctx, theme, left, y, room - 10);
  ctx.fillStyle = box.differ ? theme.critical : theme.primary;
  ctx.fillText(text, left + arrows, y);
  if (arrows) {
    for (const [by, x] of [[-1, left + 6], [1, right - 7]]) {
      drawArrow(ctx, x, y, by, theme.primary);
      dag.arrows.push({ x: x - 10, y: box.y, width: 20, height: HEAD, box, by });
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
 * The text of a folded box: its name and time, and below them what it is.
 * @param {Dag} dag
 * @param {CanvasRenderingContext2D} ctx
 * @param {Box} box
 */
export function drawText(dag, ctx, box) {
  const { theme, zoom } = dag;
  const group = box.node < 0;
  const x = box.x + (group ? 24 : 11);
  const alone = zoom < NOTES_FROM;
  // The only line of a box is in its middle: in a group's, above the strip.
  const first = box.y + (alone ? (group ? 17 : box.height / 2) : group ? 14 : 12);
  ctx.textBaseline = "middle";
  if (group) drawChevron(ctx, box.x + 14, first, false, theme.muted);
  ctx.textAlign = "right";
  ctx.font = `${legible(zoom, 11, 7.5)}px ${theme.mono}`;
  ctx.fillStyle = theme.muted;
  const edge = box.x + box.width - 9;
  const time = zoom < TIMES_FROM ? "" : box.time;
  ctx.fillText(time, edge, first);
  const used = time ? textWidth(ctx, time) + 8 : 0;
  ctx.textAlign = "left";
  ctx.font = `${group ? 600 : 500} ${legible(zoom, 11.5, 8, 2.4)}px ${theme.font}`;
  ctx.fillStyle = theme.text;
  const badge = box.repeats ? ` × ${formatCount(box.repeats)}` : "";
  const room = edge - x - used - (badge ? textWidth(ctx, badge) : 0);
  ctx.fillText(fitText(ctx, box.label, room) + badge, x, first);
  if (!alone) drawNote(dag, ctx, box, x, edge);
}

/**
 * @param {Dag} dag
 * @param {CanvasRenderingContext2D} ctx
 * @param {Box} box
 * @param {number} x
 * @param {number} edge
 */
function drawNote(dag, ctx, box, x, edge) {
  const { theme } = dag;
  ctx.font = `${legible(dag.zoom, 10.5, 7)}px ${theme.font}`;
  ctx.fillStyle = theme.muted;
  if (box.node >= 0) return ctx.fillText(fitText(ctx, box.note, box.width - 22), x, box.y + 26);
  const hits = dag.finder.hitsIn(box);
  const count = hits ? `${hits} found` : "";
  const used = count ? textWidth(ctx, count) + 8 : 0;
  const note = box.differ ? `${box.note}, ${box.differ} differ` : box.note;
  ctx.fillText(fitText(ctx, note, edge - x - used), x, box.y + 27);
  ctx.textAlign = "right";
  ctx.fillStyle = theme.primary;
  ctx.fillText(count, edge, box.y + 27);
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
