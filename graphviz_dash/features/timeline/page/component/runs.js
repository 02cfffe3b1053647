// Drawing of a run: lanes with slices or busy shares, idle times and steps.

import { countUpTo, formatTime } from "../../../../ui/components/common/numbers.js";
import {
  chooseInk,
  fitText,
  measureText,
  mixColours,
  setAlpha,
} from "../../../../ui/components/common/theme.js";
import { drawDifference, drawDifferenceTitle, getBinRange } from "./difference.js";
import { GUTTER } from "./layout.js";

/** @import { StepMark } from "./wire.js" */
/** @import { Block, LaneRow } from "./layout.js" */
/** @import { Lane, Run } from "./model.js" */
/** @import { Look, Scene } from "./draw.js" */

const MIN_LABEL_PX = 26;
const MIN_HATCH_PX = 2.5;
/**
 * Get the colour of a run.
 * @param {Look} look
 * @param {Run} run
 */
export function getRunInk({ theme }, { light }) {
  return light ? theme.light : theme.run;
}

/**
 * Get the colour of a category of slices.
 * @param {Look} look
 * @param {number} category
 */
export function getSliceColour({ palette, theme }, category) {
  const { call } = palette.categories[category];
  if (call === "synchronise") return mixColours(theme.background, theme.text, 0.2);
  if (call === "annotation") return mixColours(theme.background, theme.text, 0.13);
  if (call === "operator") return mixColours(theme.background, theme.text, 0.3);
  if (call === "kernel launch") return mixColours(theme.background, theme.text, 0.5);
  return theme.categories[category];
}

/**
 * @param {Scene} scene
 * @param {Block} block
 */
export function drawRun(scene, block) {
  const { ctx, theme, viewport } = scene;
  const { run } = block;
  const shade = getRunInk(scene, run);
  for (const row of block.lanes) {
    ctx.fillStyle = row.lane.kind === "gpu" ? theme.lane : theme.cpuLane;
    ctx.fillRect(GUTTER, row.y, viewport.plot, row.h);
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(GUTTER, block.top, viewport.plot, block.bottom - block.top);
  ctx.clip();
  drawIdle(scene, block);
  for (const row of block.lanes) {
    if (row.lane.busy) drawBusy(scene, row, row.lane.busy);
    else drawSlices(scene, row);
  }
  drawOutsideStep(scene, block);
  drawSteps(scene, block, shade);
  drawIdleLabels(scene, block);
  for (const row of block.differences) drawDifference(scene, row);
  ctx.restore();
  for (const row of block.differences) drawDifferenceTitle(scene, row);
  drawTitle(scene, block, shade);
  if (block.lanes.length) return;
  ctx.font = `12px ${theme.font}`;
  ctx.fillStyle = theme.muted;
  ctx.textAlign = "left";
  const text = `Nothing to draw: ${run.problem || "no slices"}`;
  ctx.fillText(fitText(ctx, text, viewport.plot - 12), GUTTER + 6, block.lanesTop + 16);
}

/**
 * @param {Scene} scene
 * @param {Block} block
 * @param {string} shade
 */
function drawTitle(scene, block, shade) {
  const { ctx, theme, viewport } = scene;
  const { run } = block;
  const y = block.top + 13;
  ctx.textAlign = "left";
  // Hollow for runs without graphs.
  ctx.fillStyle = ctx.strokeStyle = shade;
  ctx.lineWidth = 2;
  if (run.light) ctx.strokeRect(11, y - 4, 8, 8);
  else ctx.fillRect(10, y - 5, 10, 10);
  ctx.fillStyle = theme.text;
  ctx.font = `600 13px ${theme.font}`;
  ctx.fillText(fitText(ctx, run.run, GUTTER - 32), 26, y);
  const step = formatStep(run);
  ctx.font = `12px ${theme.font}`;
  ctx.fillText(step, GUTTER, y);
  const used = measureText(ctx, step);
  ctx.fillStyle = theme.muted;
  ctx.textAlign = "right";
  ctx.fillText(fitText(ctx, formatSummary(run), viewport.plot - used - 24), viewport.width - 8, y);
  ctx.textAlign = "left";
  ctx.font = `11px ${theme.font}`;
  for (const { lane, y: top, h } of block.lanes) {
    if (lane.label) {
      ctx.fillText(fitText(ctx, lane.label, GUTTER - 20), 10, top + Math.min(h / 2, 12));
    }
  }
}

/**
 * Format the summary of the visible part of a run, and the number of hidden lanes.
 * @param {Run} run
 */
export function formatSummary(run) {
  const hidden = run.hiddenLanes ? ` · ${run.hiddenLanes} lanes hidden (open in Perfetto)` : "";
  return run.summary ? `${run.summary} in view${hidden}` : "";
}

/** @param {Run} run */
function formatStep(run) {
  if (run.step) return `step ${run.step.index} · ${run.length} traced`;
  return run.problem ? "" : "entire trace, no steps marked";
}

/**
 * Find the visible idle periods of the device of a lane.
 * @param {Scene} scene
 * @param {Run} run
 * @param {Lane} lane
 */
function findVisibleIdle({ viewport }, run, lane) {
  const periods = run.idle[lane.owner] ?? [];
  const spans = [];
  for (let i = 0; i < periods.length; i += 2) {
    const [begin, end] = periods.slice(i, i + 2);
    const left = Math.max(GUTTER, viewport.toX(begin));
    const right = Math.min(viewport.width, viewport.toX(end));
    if (right > left) spans.push({ left, right, length: end - begin });
  }
  return spans;
}

/**
 * Hatch idle periods over all lanes of a device. If there are too many slices to draw, hatch the idle
 * share of each bin.
 * @param {Scene} scene
 * @param {Block} block
 */
function drawIdle(scene, block) {
  const { ctx, hatch } = scene;
  ctx.fillStyle = hatch ?? "transparent";
  for (const row of block.lanes) {
    const { lane, y, h } = row;
    if (lane.kind !== "gpu") continue;
    const busy = block.run.deviceBusy[lane.owner];
    if (busy) {
      ctx.beginPath();
      traceShare(scene, row, busy, y);
      ctx.fill();
      continue;
    }
    for (const { left, right } of findVisibleIdle(scene, block.run, lane)) {
      if (right - left >= MIN_HATCH_PX) ctx.fillRect(left + 1, y, right - left - 2, h);
    }
  }
}

/**
 * @param {Scene} scene
 * @param {Block} block
 */
function drawIdleLabels(scene, block) {
  const { ctx, theme, viewport } = scene;
  const row = block.lanes.find(({ lane }) => lane.kind === "gpu");
  if (!row || row.h < 16) return;
  ctx.font = `11px ${theme.mono}`;
  ctx.textAlign = "center";
  for (const span of findVisibleIdle(scene, block.run, row.lane)) {
    const { length } = span;
    const [left, right] = avoidStepEnds(scene, block.run, span);
    const text = `idle ${formatTime(length)}`;
    const width = measureText(ctx, text);
    if (right - left < width + 20) continue;
    const middle = (left + right) / 2;
    ctx.globalAlpha = isFaded(scene, block.run, viewport.toTime(middle)) ? 0.45 : 1;
    ctx.fillStyle = theme.lane;
    ctx.fillRect(middle - width / 2 - 5, row.y + row.h / 2 - 8, width + 10, 16);
    ctx.fillStyle = theme.idle;
    ctx.fillText(text, middle, row.y + row.h / 2 + 0.5);
  }
  ctx.globalAlpha = 1;
  ctx.textAlign = "left";
}

/**
 * Get the widest part of a span that no end of the chosen step divides, so that its label does not
 * cover the line there.
 * @param {Scene} scene
 * @param {Run} run
 * @param {{left: number, right: number}} span
 * @returns {[number, number]}
 */
function avoidStepEnds({ viewport }, { step }, { left, right }) {
  const ends = step ? [viewport.toX(step.begin), viewport.toX(step.end)] : [];
  const edges = [left, ...ends.filter((x) => x > left && x < right), right];
  const parts = edges.slice(1).map((to, i) => /** @type {[number, number]} */ ([edges[i], to]));
  return parts.reduce((best, part) => part[1] - part[0] > best[1] - best[0] ? part : best);
}

/**
 * Draw the busy share of each bin as an area, in the colours of the dominant categories.
 * @param {Scene} scene
 * @param {LaneRow} row
 * @param {Uint8Array} busy
 */
function drawBusy(scene, row, busy) {
  const { ctx, theme } = scene;
  if (row.lane.category) return drawCategories(scene, row, busy, row.lane.category);
  ctx.beginPath();
  traceShare(scene, row, busy, row.y + row.h);
  ctx.fillStyle = setAlpha(theme.text, 0.38);
  ctx.fill();
}

/**
 * Draw the busy share of each bin as a bar in the colour of its dominant category.
 * @param {Scene} scene
 * @param {LaneRow} row
 * @param {Uint8Array} busy
 * @param {Uint8Array} category
 */
function drawCategories(scene, row, busy, category) {
  const { ctx } = scene;
  const { first, last, together, toX } = getBinRange(scene, busy.length);
  for (let bin = first; bin < last; bin += together) {
    const next = Math.min(last, bin + together);
    let sum = 0;
    let most = bin;
    for (let i = bin; i < next; i++) {
      sum += busy[i];
      if (busy[i] > busy[most]) most = i;
    }
    if (!sum) continue;
    const height = (sum / (next - bin) / 255) * row.h;
    ctx.fillStyle = getSliceColour(scene, category[most]);
    ctx.fillRect(toX(bin), row.y + row.h - height, toX(next) - toX(bin) + 0.3, height);
  }
}

/**
 * Trace the area between the busy share of each bin and the upper or lower edge of a lane.
 * @param {Scene} scene
 * @param {LaneRow} row
 * @param {Uint8Array} busy
 * @param {number} edge
 */
function traceShare(scene, row, busy, edge) {
  const { ctx } = scene;
  const { first, last, together, toX } = getBinRange(scene, busy.length);
  const bottom = row.y + row.h;
  ctx.moveTo(toX(first), edge);
  for (let bin = first; bin < last; bin += together) {
    const next = Math.min(last, bin + together);
    let sum = 0;
    for (let i = bin; i < next; i++) sum += busy[i];
    const y = bottom - (sum / (next - bin) / 255) * row.h;
    ctx.lineTo(toX(bin), y);
    ctx.lineTo(toX(next), y);
  }
  ctx.lineTo(toX(last), edge);
  ctx.closePath();
}

/**
 * @param {Scene} scene
 * @param {LaneRow} row
 */
function drawSlices(scene, row) {
  const { ctx, theme, viewport } = scene;
  const { view, hover } = scene.state;
  if (!view) return;
  const { lane, y, h } = row;
  const hovered = hover?.kind === "slice" && hover.lane.kind === lane.kind ? hover : null;
  const hoveredName = hovered ? hovered.lane.name[hovered.i] : -1;
  ctx.font = `11px ${theme.font}`;
  ctx.textAlign = "left";
  let i = Math.max(0, countUpTo(lane.end, viewport.window[0]) - 1);
  for (; i < lane.count && lane.start[i] <= viewport.window[1]; i++) {
    const left = viewport.toX(lane.start[i]);
    const width = viewport.toX(lane.end[i]) - left;
    const [text, category] = view.names[lane.name[i]];
    const fill = getSliceColour(scene, category);
    // A hairline separates neighbours if there is room.
    const drawn = width > 3 ? width - 0.75 : Math.max(width, 0.75);
    ctx.fillStyle = fill;
    ctx.fillRect(left, y, drawn, h);
    if (lane.name[i] === hoveredName) {
      ctx.fillStyle = theme.text;
      ctx.fillRect(left, y + h - 2, drawn, 2);
    }
    if (h < 13 || width < MIN_LABEL_PX) continue;
    const from = Math.max(left, GUTTER);
    ctx.fillStyle = chooseInk(fill);
    ctx.fillText(fitText(ctx, text, left + width - from - 9), from + 5, y + h / 2 + 0.5);
  }
}

/**
 * @param {Scene} scene
 * @param {StepMark | null} step
 * @returns {step is StepMark}
 */
function isInView({ viewport }, step) {
  return step !== null && step.end >= viewport.window[0] && step.begin <= viewport.window[1];
}

/**
 * @param {Scene} scene
 * @param {Run} run
 * @param {number} at
 */
function isFaded(scene, { step }, at) {
  return isInView(scene, step) && (at < step.begin || at > step.end);
}

/**
 * Fade everything outside the chosen step.
 * @param {Scene} scene
 * @param {Block} block
 */
function drawOutsideStep(scene, block) {
  const { step } = block.run;
  if (!isInView(scene, step)) return;
  const { ctx, theme, viewport } = scene;
  ctx.fillStyle = setAlpha(theme.background, 0.62);
  const top = block.lanesTop;
  const height = block.lanesBottom - top;
  const left = viewport.toX(0);
  const right = viewport.toX(step.end);
  if (left > GUTTER) ctx.fillRect(GUTTER, top, left - GUTTER, height);
  if (right < viewport.width) ctx.fillRect(Math.max(GUTTER, right), top, viewport.width, height);
}

/**
 * @param {Scene} scene
 * @param {Block} block
 * @param {string} shade
 */
function drawSteps(scene, block, shade) {
  const { ctx, theme, viewport } = scene;
  const { run, lanesTop, lanesBottom } = block;
  ctx.font = `11px ${theme.font}`;
  for (const mark of run.boundaries) {
    const chosen = run.step !== null && mark.index === run.step.index;
    ctx.fillStyle = chosen ? shade : theme.rule;
    for (const at of [mark.begin, mark.end]) {
      ctx.fillRect(
        Math.round(viewport.toX(at)),
        lanesTop - 2,
        chosen ? 2 : 1,
        lanesBottom - lanesTop,
      );
    }
    const left = Math.max(GUTTER, viewport.toX(mark.begin));
    if (chosen || viewport.toX(mark.end) - left < 44 || isCoveredByDelta(scene, run, left)) {
      continue;
    }
    ctx.fillStyle = theme.muted;
    ctx.fillText(`step ${mark.index}`, left + 5, lanesBottom + 9);
  }
  if (run.step) drawStepEnd(scene, block, run.step, shade);
}

/**
 * Whether the arrow between the ends of two steps covers x = `left`.
 * @param {Scene} scene
 * @param {Run} run
 * @param {number} left
 */
function isCoveredByDelta(scene, run, left) {
  const { state, viewport } = scene;
  const first = state.view?.runs[0].step;
  if (!run.delta || !run.step || !first) return false;
  const ends = [viewport.toX(run.step.end), viewport.toX(first.end)];
  return left + 44 > Math.min(...ends) && left < Math.max(...ends);
}

/**
 * Draw the end of the chosen step, and its distance from the end of the first run's step.
 * @param {Scene} scene
 * @param {Block} block
 * @param {StepMark} step
 * @param {string} shade
 */
function drawStepEnd(scene, block, step, shade) {
  const { ctx, state, theme, viewport } = scene;
  const { run } = block;
  const end = viewport.toX(step.end);
  const y = block.lanesBottom + 9;
  const first = state.view?.runs[0].step;
  ctx.textAlign = "left";
  ctx.font = `600 11px ${theme.font}`;
  const label = `ends at ${run.length}`;
  const width = measureText(ctx, label);
  ctx.fillStyle = shade;
  ctx.fillRect(Math.round(end), block.lanesBottom - 4, 2, 18);
  const isReference = !run.delta || !first;
  if (end >= GUTTER && end <= viewport.width && (isReference || end - GUTTER > width + 12)) {
    ctx.fillStyle = theme.text;
    ctx.fillText(label, Math.max(GUTTER + 4, end - width - 7), y);
  }
  if (!isReference) drawDelta(scene, block, end, viewport.toX(first.end), shade);
}

/**
 * Draw an arrow from the end of the first run's step to the end of this one, with the difference.
 * @param {Scene} scene
 * @param {Block} block
 * @param {number} end of this step on the screen
 * @param {number} other
 * @param {string} shade
 */
function drawDelta(scene, block, end, other, shade) {
  const { ctx, theme, viewport } = scene;
  const y = block.lanesBottom + 9;
  const [left, right] = end < other ? [end, other] : [other, end];
  ctx.strokeStyle = ctx.fillStyle = shade;
  ctx.setLineDash([2, 3]);
  ctx.beginPath();
  ctx.moveTo(Math.round(other) + 0.5, block.lanesTop);
  ctx.lineTo(Math.round(other) + 0.5, y + 6);
  ctx.stroke();
  ctx.setLineDash([]);
  const from = Math.max(left + 4, GUTTER);
  const to = Math.min(right - 3, viewport.width);
  if (to - from < 12) return;
  ctx.fillRect(from, y, to - from, 1);
  const tip = end < other ? left + 3 : right - 2;
  const turn = end < other ? 6 : -6;
  ctx.beginPath();
  ctx.moveTo(tip, y + 0.5);
  ctx.lineTo(tip + turn, y - 3);
  ctx.lineTo(tip + turn, y + 4);
  ctx.fill();
  const text = fitText(ctx, block.run.delta, to - from - 30);
  if (!text) return;
  const room = measureText(ctx, text) + 14;
  const middle = (from + to) / 2;
  ctx.fillStyle = theme.background;
  ctx.fillRect(middle - room / 2, y - 7, room, 15);
  ctx.fillStyle = theme.text;
  ctx.textAlign = "center";
  ctx.fillText(text, middle, y + 0.5);
  ctx.textAlign = "left";
}
