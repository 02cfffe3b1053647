// Drawing of one run: its lanes with slices or busy shares, idle times and steps.

import { countUpTo, formatTime } from "../../../../ui/components/common/numbers.js";
import { alpha, fitText, ink, mix, textWidth } from "../../../../ui/components/common/theme.js";
import { binRange, drawDifference, drawDifferenceTitle } from "./difference.js";
import { GUTTER } from "./layout.js";

/** @import { StepMark } from "./wire.js" */
/** @import { Block, LaneRow } from "./layout.js" */
/** @import { Lane, Run } from "./model.js" */
/** @import { Timeline } from "./timeline.js" */

const LABEL_FROM_PX = 26;
const HATCH_FROM_PX = 2.5;
/** Opacity of the ink in which the busy share of the GPU is drawn. */
const BUSY = 0.62;

/**
 * The ink in which the busy share of the GPU is drawn, one for all runs.
 * @param {Timeline} t
 */
export function busyColour({ theme }) {
  return alpha(theme.text, BUSY);
}

/**
 * The ink of a run.
 * @param {Timeline} t
 * @param {Run} run
 */
export function inkOf({ theme }, { light }) {
  return light ? theme.light : theme.run;
}

/**
 * The colour of a slice, and of what the legend says of it.
 * @param {Timeline} t
 * @param {number} category
 */
export function sliceColour(t, category) {
  const { call } = t.palette.categories[category];
  if (call === "synchronise") return mix(t.theme.background, t.theme.text, 0.2);
  if (call === "annotation") return mix(t.theme.background, t.theme.text, 0.13);
  if (call === "operator") return mix(t.theme.background, t.theme.text, 0.3);
  if (call === "kernel launch") return mix(t.theme.background, t.theme.text, 0.5);
  return t.theme.categories[category];
}

/**
 * @param {Timeline} t
 * @param {Block} block
 */
export function drawRun(t, block) {
  const { ctx, theme } = t;
  const { run } = block;
  const shade = inkOf(t, run);
  for (const row of block.lanes) {
    ctx.fillStyle = row.lane.kind === "gpu" ? theme.lane : theme.cpuLane;
    ctx.fillRect(GUTTER, row.y, t.plot, row.h);
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(GUTTER, block.top, t.plot, block.bottom - block.top);
  ctx.clip();
  drawIdle(t, block);
  for (const row of block.lanes) {
    if (row.lane.busy) drawBusy(t, row, row.lane.busy);
    else drawSlices(t, row);
  }
  drawOutsideStep(t, block);
  drawSteps(t, block, shade);
  drawIdleLabels(t, block);
  for (const row of block.differences) drawDifference(t, row);
  ctx.restore();
  for (const row of block.differences) drawDifferenceTitle(t, row);
  drawTitle(t, block, shade);
  if (block.lanes.length) return;
  ctx.font = `12px ${theme.font}`;
  ctx.fillStyle = theme.muted;
  ctx.textAlign = "left";
  const text = `Nothing to draw: ${run.problem || "no slices"}`;
  ctx.fillText(fitText(ctx, text, t.plot - 12), GUTTER + 6, block.lanesTop + 16);
}

/**
 * @param {Timeline} t
 * @param {Block} block
 * @param {string} shade
 */
function drawTitle(t, block, shade) {
  const { ctx, theme } = t;
  const { run } = block;
  const y = block.top + 13;
  ctx.textAlign = "left";
  // Hollow for a run without graphs.
  ctx.fillStyle = ctx.strokeStyle = shade;
  ctx.lineWidth = 2;
  if (run.light) ctx.strokeRect(11, y - 4, 8, 8);
  else ctx.fillRect(10, y - 5, 10, 10);
  ctx.fillStyle = theme.text;
  ctx.font = `600 13px ${theme.font}`;
  ctx.fillText(fitText(ctx, run.run, GUTTER - 32), 26, y);
  const step = stepText(run);
  ctx.font = `12px ${theme.font}`;
  ctx.fillText(step, GUTTER, y);
  const used = textWidth(ctx, step);
  ctx.fillStyle = theme.muted;
  ctx.textAlign = "right";
  ctx.fillText(fitText(ctx, summaryText(run), t.plot - used - 24), t.width - 8, y);
  ctx.textAlign = "left";
  ctx.font = `11px ${theme.font}`;
  for (const { lane, y: top, h } of block.lanes) {
    if (lane.label) {
      ctx.fillText(fitText(ctx, lane.label, GUTTER - 20), 10, top + Math.min(h / 2, 12));
    }
  }
}

/**
 * What is in view of a run, and where the lanes are that are not drawn.
 * @param {Run} run
 */
export function summaryText(run) {
  const hidden = run.hiddenLanes ? ` · ${run.hiddenLanes} lanes not shown: open in Perfetto` : "";
  return run.summary ? `in view: ${run.summary}${hidden}` : "";
}

/** @param {Run} run */
function stepText(run) {
  if (run.step) return `step ${run.step.index} · ${run.length} traced`;
  return run.problem ? "" : "whole trace, no steps marked";
}

/**
 * The long times in which the device of a lane runs nothing, as far as they are in view.
 * @param {Timeline} t
 * @param {Run} run
 * @param {Lane} lane
 */
function idleInView(t, run, lane) {
  const periods = run.idle[lane.owner] ?? [];
  const spans = [];
  for (let i = 0; i < periods.length; i += 2) {
    const [begin, end] = periods.slice(i, i + 2);
    const left = Math.max(GUTTER, t.x(begin));
    const right = Math.min(t.width, t.x(end));
    if (right > left) spans.push({ left, right, length: end - begin });
  }
  return spans;
}

/**
 * Long times in which a device runs nothing: hatched over all its lanes; where slices are too many
 * to be drawn, the share of time in which it runs nothing.
 * @param {Timeline} t
 * @param {Block} block
 */
function drawIdle(t, block) {
  const { ctx } = t;
  ctx.fillStyle = t.hatch ?? "transparent";
  for (const row of block.lanes) {
    const { lane, y, h } = row;
    if (lane.kind !== "gpu") continue;
    const busy = block.run.deviceBusy[lane.owner];
    if (busy) {
      ctx.beginPath();
      traceShare(t, row, busy, y);
      ctx.fill();
      continue;
    }
    for (const { left, right } of idleInView(t, block.run, lane)) {
      if (right - left >= HATCH_FROM_PX) ctx.fillRect(left + 1, y, right - left - 2, h);
    }
  }
}

/**
 * @param {Timeline} t
 * @param {Block} block
 */
function drawIdleLabels(t, block) {
  const { ctx, theme } = t;
  const row = block.lanes.find(({ lane }) => lane.kind === "gpu");
  if (!row || row.h < 16) return;
  ctx.font = `11px ${theme.mono}`;
  ctx.textAlign = "center";
  for (const { left, right, length } of idleInView(t, block.run, row.lane)) {
    const text = `idle ${formatTime(length)}`;
    const width = textWidth(ctx, text);
    if (right - left < width + 20) continue;
    const middle = (left + right) / 2;
    ctx.globalAlpha = isFaded(t, block.run, t.time(middle)) ? 0.45 : 1;
    ctx.fillStyle = theme.lane;
    ctx.fillRect(middle - width / 2 - 5, row.y + row.h / 2 - 8, width + 10, 16);
    ctx.fillStyle = theme.idle;
    ctx.fillText(text, middle, row.y + row.h / 2 + 0.5);
  }
  ctx.globalAlpha = 1;
  ctx.textAlign = "left";
}

/**
 * The exact busy share of each bin as an area in one hue.
 * @param {Timeline} t
 * @param {LaneRow} row
 * @param {Uint8Array} busy
 */
function drawBusy(t, row, busy) {
  const { ctx } = t;
  ctx.beginPath();
  traceShare(t, row, busy, row.y + row.h);
  ctx.fillStyle = row.lane.kind === "cpu" ? alpha(t.theme.text, 0.38) : busyColour(t);
  ctx.fill();
}

/**
 * A path around what lies between the busy share of each bin and the upper or lower edge of a lane.
 * @param {Timeline} t
 * @param {LaneRow} row
 * @param {Uint8Array} busy
 * @param {number} edge
 */
function traceShare(t, row, busy, edge) {
  const { ctx } = t;
  const { first, last, together, xOf } = binRange(t, busy.length);
  const bottom = row.y + row.h;
  ctx.moveTo(xOf(first), edge);
  for (let bin = first; bin < last; bin += together) {
    const next = Math.min(last, bin + together);
    let sum = 0;
    for (let each = bin; each < next; each++) sum += busy[each];
    const y = bottom - (sum / (next - bin) / 255) * row.h;
    ctx.lineTo(xOf(bin), y);
    ctx.lineTo(xOf(next), y);
  }
  ctx.lineTo(xOf(last), edge);
  ctx.closePath();
}

/**
 * @param {Timeline} t
 * @param {LaneRow} row
 */
function drawSlices(t, row) {
  const { ctx, view, hover } = t;
  if (!view) return;
  const { lane, y, h } = row;
  const hovered = hover?.kind === "slice" && hover.lane.kind === lane.kind ? hover : null;
  const same = hovered ? hovered.lane.name[hovered.i] : -1;
  ctx.font = `11px ${t.theme.font}`;
  ctx.textAlign = "left";
  let i = Math.max(0, countUpTo(lane.end, t.window[0]) - 1);
  for (; i < lane.count && lane.start[i] <= t.window[1]; i++) {
    const left = t.x(lane.start[i]);
    const wide = t.x(lane.end[i]) - left;
    const [text, category] = view.names[lane.name[i]];
    const fill = sliceColour(t, category);
    // A hairline between neighbours, as soon as there is room for it.
    const drawn = wide > 3 ? wide - 0.75 : Math.max(wide, 0.75);
    ctx.fillStyle = fill;
    ctx.fillRect(left, y, drawn, h);
    if (lane.name[i] === same) {
      ctx.fillStyle = t.theme.text;
      ctx.fillRect(left, y + h - 2, drawn, 2);
    }
    if (h < 13 || wide < LABEL_FROM_PX) continue;
    const from = Math.max(left, GUTTER);
    ctx.fillStyle = ink(fill);
    ctx.fillText(fitText(ctx, text, left + wide - from - 9), from + 5, y + h / 2 + 0.5);
  }
}

/**
 * @param {Timeline} t
 * @param {StepMark | null} step
 * @returns {step is StepMark}
 */
function isInView(t, step) {
  return step !== null && step.end >= t.window[0] && step.begin <= t.window[1];
}

/**
 * @param {Timeline} t
 * @param {Run} run
 * @param {number} at
 */
function isFaded(t, { step }, at) {
  return isInView(t, step) && (at < step.begin || at > step.end);
}

/**
 * Other steps are faded beside the chosen one, which is what is compared.
 * @param {Timeline} t
 * @param {Block} block
 */
function drawOutsideStep(t, block) {
  const { step } = block.run;
  if (!isInView(t, step)) return;
  const { ctx, theme } = t;
  ctx.fillStyle = alpha(theme.background, 0.62);
  const top = block.lanesTop;
  const tall = block.lanesBottom - top;
  const left = t.x(0);
  const right = t.x(step.end);
  if (left > GUTTER) ctx.fillRect(GUTTER, top, left - GUTTER, tall);
  if (right < t.width) ctx.fillRect(Math.max(GUTTER, right), top, t.width, tall);
}

/**
 * @param {Timeline} t
 * @param {Block} block
 * @param {string} shade
 */
function drawSteps(t, block, shade) {
  const { ctx, theme } = t;
  const { run, lanesTop, lanesBottom } = block;
  ctx.font = `11px ${theme.font}`;
  for (const mark of run.boundaries) {
    const chosen = run.step !== null && mark.index === run.step.index;
    ctx.fillStyle = chosen ? shade : theme.rule;
    for (const at of [mark.begin, mark.end]) {
      ctx.fillRect(Math.round(t.x(at)), lanesTop - 2, chosen ? 2 : 1, lanesBottom - lanesTop);
    }
    const left = Math.max(GUTTER, t.x(mark.begin));
    if (chosen || t.x(mark.end) - left < 44 || isCoveredByDelta(t, run, left)) continue;
    ctx.fillStyle = theme.muted;
    ctx.fillText(`step ${mark.index}`, left + 5, lanesBottom + 9);
  }
  if (run.step) drawStepEnd(t, block, run.step, shade);
}

/**
 * Whether the line that tells the difference of two steps' ends needs the room at x = `left`.
 * @param {Timeline} t
 * @param {Run} run
 * @param {number} left
 */
function isCoveredByDelta(t, run, left) {
  const first = t.view?.runs[0].step;
  if (!run.delta || !run.step || !first) return false;
  const ends = [t.x(run.step.end), t.x(first.end)];
  return left + 44 > Math.min(...ends) && left < Math.max(...ends);
}

/**
 * Where the chosen step ends, and how far that is from the end of the first run's.
 * @param {Timeline} t
 * @param {Block} block
 * @param {StepMark} step
 * @param {string} shade
 */
function drawStepEnd(t, block, step, shade) {
  const { ctx, theme } = t;
  const { run } = block;
  const end = t.x(step.end);
  const y = block.lanesBottom + 9;
  const first = t.view?.runs[0].step;
  ctx.textAlign = "left";
  ctx.font = `600 11px ${theme.font}`;
  const label = `ends at ${run.length}`;
  const width = textWidth(ctx, label);
  ctx.fillStyle = shade;
  ctx.fillRect(Math.round(end), block.lanesBottom - 4, 2, 18);
  const alone = !run.delta || !first;
  if (end >= GUTTER && end <= t.width && (alone || end - GUTTER > width + 12)) {
    ctx.fillStyle = theme.text;
    ctx.fillText(label, Math.max(GUTTER + 4, end - width - 7), y);
  }
  if (!alone) drawDelta(t, block, end, t.x(first.end), shade);
}

/**
 * An arrow from the end of the first run's step to that of this one, with the difference.
 * @param {Timeline} t
 * @param {Block} block
 * @param {number} end of this step, on the screen
 * @param {number} other
 * @param {string} shade
 */
function drawDelta(t, block, end, other, shade) {
  const { ctx, theme } = t;
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
  const to = Math.min(right - 3, t.width);
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
  const room = textWidth(ctx, text) + 14;
  const middle = (from + to) / 2;
  ctx.fillStyle = theme.background;
  ctx.fillRect(middle - room / 2, y - 7, room, 15);
  ctx.fillStyle = theme.text;
  ctx.textAlign = "center";
  ctx.fillText(text, middle, y + 0.5);
  ctx.textAlign = "left";
}
