// Drawing of the timeline on a 2D canvas. Names come from traces: they are only ever drawn as text.

const GUTTER = 124;

/** Draws one frame of `t`, a Timeline: everything is a function of its view, window and marks. */
function drawTimeline(t) {
  const { ctx, width, height, view, theme } = t;
  ctx.setTransform(t.dpr, 0, 0, t.dpr, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.textBaseline = "middle";
  if (!view) return;
  const layout = t.layout;
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, layout.axis, width, height - layout.axis);
  ctx.clip();
  ctx.translate(0, -t.scroll);
  drawGrid(t);
  for (const block of layout.blocks) drawRun(t, block);
  drawLinks(t);
  drawMarks(t);
  ctx.restore();
  drawAxis(t);
  drawScroll(t);
}

/** How far the lanes are scrolled, where they do not all fit. */
function drawScroll(t) {
  const { ctx, theme, layout, height } = t;
  const room = height - layout.axis;
  const all = layout.total - layout.axis;
  if (all <= room) return;
  ctx.fillStyle = alpha(theme.text, 0.35);
  ctx.fillRect(t.width - 5, layout.axis + (t.scroll / all) * room, 4, (room / all) * room);
}

function ticks(t) {
  const step = niceStep(((t.window[1] - t.window[0]) * 92) / t.plot);
  const first = Math.ceil(t.window[0] / step) * step;
  const found = [];
  for (let at = first; at <= t.window[1]; at += step) found.push(at || 0); // no minus zero
  return { step, found };
}

function drawGrid(t) {
  const { ctx, theme } = t;
  ctx.fillStyle = theme.rule;
  const bottom = Math.max(t.layout.total, t.height + t.scroll);
  for (const at of ticks(t).found) {
    ctx.globalAlpha = at === 0 ? 1 : 0.55;
    ctx.fillRect(Math.round(t.x(at)), t.layout.axis, 1, bottom - t.layout.axis);
  }
  ctx.globalAlpha = 1;
}

function drawAxis(t) {
  const { ctx, theme } = t;
  const { step, found } = ticks(t);
  const inMs = t.window[1] - t.window[0] >= 1e8;
  const scale = inMs ? 1e6 : 1e3;
  const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  ctx.font = `11px ${theme.mono}`;
  ctx.textAlign = "left";
  const middle = t.layout.axis / 2;
  const cursor = t.cursor === null ? null : t.x(t.cursor);
  for (const at of found) {
    const label = (at / scale).toLocaleString("en-US", {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
    const x = t.x(at);
    ctx.globalAlpha = cursor !== null && Math.abs(cursor - x - 20) < 62 ? 0.15 : 1;
    ctx.fillStyle = theme.muted;
    ctx.fillText(label, x + 4, middle);
    ctx.fillStyle = theme.rule;
    ctx.fillRect(Math.round(x), 5, 1, t.layout.axis - 5);
  }
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, GUTTER, t.layout.axis);
  ctx.fillStyle = theme.muted;
  ctx.font = `11px ${theme.font}`;
  ctx.fillText((inMs ? "ms" : "us") + " since step start", 10, middle);
  ctx.fillStyle = theme.rule;
  ctx.fillRect(0, t.layout.axis - 1, t.width, 1);
  if (cursor !== null && cursor >= GUTTER) drawCursor(t, cursor, scale, digits, middle);
}

function drawCursor(t, x, scale, digits, middle) {
  const { ctx, theme } = t;
  ctx.fillStyle = alpha(theme.text, 0.28);
  ctx.fillRect(Math.round(x), t.layout.axis, 1, t.height);
  ctx.font = `600 11px ${theme.mono}`;
  const text = (t.cursor / scale).toLocaleString("en-US", {
    minimumFractionDigits: Math.min(3, digits + 1),
    maximumFractionDigits: Math.min(3, digits + 1),
  });
  const width = textWidth(ctx, text);
  const left = Math.min(Math.max(GUTTER, x - width / 2), t.width - width - 6);
  ctx.fillStyle = theme.text;
  ctx.fillText(text, left, middle);
}

function drawRun(t, block) {
  const { ctx, theme } = t;
  const { run } = block;
  const shade = theme.modes[run.mode] || theme.primary;
  for (const row of block.lanes) {
    ctx.fillStyle = row.lane.kind === "cpu" ? theme.cpuLane : theme.lane;
    ctx.fillRect(GUTTER, row.y, t.plot, row.h);
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(GUTTER, block.top, t.plot, block.bottom - block.top);
  ctx.clip();
  drawIdle(t, block);
  for (const row of block.lanes) {
    if (row.lane.busy) drawBusy(t, row, shade);
    else drawSlices(t, row, shade);
  }
  drawOutsideStep(t, block);
  drawSteps(t, block, shade);
  drawIdleLabels(t, block);
  for (const row of block.differences) drawDifference(t, row);
  ctx.restore();
  for (const row of block.differences) drawDifferenceTitle(t, row);
  drawRunTitle(t, block, shade);
  if (!block.lanes.length) {
    ctx.font = `12px ${theme.font}`;
    ctx.fillStyle = theme.muted;
    ctx.textAlign = "left";
    const text = `Nothing to draw: ${run.problem || "no slices"}`;
    ctx.fillText(fitText(ctx, text, t.plot - 12), GUTTER + 6, block.lanesTop + 16);
  }
}

function drawRunTitle(t, block, shade) {
  const { ctx, theme } = t;
  const { run } = block;
  const y = block.top + 13;
  ctx.textAlign = "left";
  ctx.fillStyle = shade;
  ctx.fillRect(10, y - 5, 10, 10);
  ctx.fillStyle = theme.text;
  ctx.font = `600 13px ${theme.font}`;
  ctx.fillText(fitText(ctx, run.run, GUTTER - 32), 26, y);
  const step = run.step
    ? `step ${run.step.index} · ${run.length} traced`
    : run.problem
      ? ""
      : "whole trace, no steps marked";
  ctx.font = `12px ${theme.font}`;
  ctx.fillText(step, GUTTER, y);
  const used = textWidth(ctx, step);
  ctx.fillStyle = theme.muted;
  const hidden = run.hidden_lanes ? ` · ${run.hidden_lanes} lanes not shown` : "";
  const summary = run.summary ? `in view: ${run.summary}${hidden}` : "";
  ctx.textAlign = "right";
  ctx.fillText(fitText(ctx, summary, t.plot - used - 24), t.width - 8, y);
  ctx.textAlign = "left";
  ctx.font = `11px ${theme.font}`;
  for (const row of block.lanes) {
    if (!row.lane.label) continue;
    ctx.fillText(fitText(ctx, row.lane.label, GUTTER - 20), 10, row.y + Math.min(row.h / 2, 12));
  }
}

/** Long times in which a device runs nothing: hatched over all its lanes. */
function drawIdle(t, block) {
  const { ctx } = t;
  for (const row of block.lanes) {
    if (row.lane.kind !== "gpu") continue;
    const periods = block.run.idle[row.lane.owner] || [];
    ctx.fillStyle = t.hatch;
    for (let i = 0; i < periods.length; i += 2) {
      const left = Math.max(GUTTER, t.x(periods[i]));
      const right = Math.min(t.width, t.x(periods[i + 1]));
      if (right - left >= 4) ctx.fillRect(left + 1, row.y, right - left - 2, row.h);
    }
  }
}

function drawIdleLabels(t, block) {
  const { ctx, theme } = t;
  const row = block.lanes.find((one) => one.lane.kind === "gpu");
  if (!row || row.h < 16) return;
  const periods = block.run.idle[row.lane.owner] || [];
  ctx.font = `11px ${theme.mono}`;
  ctx.textAlign = "center";
  for (let i = 0; i < periods.length; i += 2) {
    const left = Math.max(GUTTER, t.x(periods[i]));
    const right = Math.min(t.width, t.x(periods[i + 1]));
    const text = `idle ${formatTime(periods[i + 1] - periods[i])}`;
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

/** How many bins are drawn as one: while the view is older than the window and they are narrower
 *  than a pixel, those that share two. Without a GPU a browser takes long over a path that turns
 *  more often. */
function binsTogether(t, perBin) {
  const wide = t.x(perBin) - t.x(0);
  return wide < 0.9 ? Math.round(2 / wide) : 1;
}

/** The exact busy share of each bin as an area in one hue. */
function drawBusy(t, row, shade) {
  const { ctx, view } = t;
  const { busy } = row.lane;
  const [begin, stop] = view.loaded;
  const perBin = (stop - begin) / busy.length;
  const bottom = row.y + row.h;
  const together = binsTogether(t, perBin);
  let first = Math.max(0, Math.floor((t.window[0] - begin) / perBin));
  first -= first % together;
  const last = Math.min(busy.length, Math.ceil((t.window[1] - begin) / perBin));
  ctx.beginPath();
  ctx.moveTo(t.x(begin + first * perBin), bottom);
  for (let bin = first; bin < last; bin += together) {
    const next = Math.min(last, bin + together);
    let sum = 0;
    for (let one = bin; one < next; one++) sum += busy[one];
    const y = bottom - (sum / (next - bin) / 255) * row.h;
    ctx.lineTo(t.x(begin + bin * perBin), y);
    ctx.lineTo(t.x(begin + next * perBin), y);
  }
  ctx.lineTo(t.x(begin + last * perBin), bottom);
  ctx.closePath();
  ctx.fillStyle = row.lane.kind === "cpu" ? alpha(t.theme.text, 0.38) : shade;
  ctx.fill();
}

function sliceColour(t, kind, category, shade) {
  if (kind === "gpu") return t.theme.categories[category];
  const { call } = t.palette.categories[category];
  if (call === "graph launch") return shade;
  if (call === "synchronise") return mix(t.theme.background, t.theme.text, 0.2);
  if (call === "kernel launch") return mix(t.theme.background, t.theme.text, 0.5);
  return t.theme.categories[category];
}

function drawSlices(t, row, shade) {
  const { ctx, view } = t;
  const { lane, y, h } = row;
  const hovered = t.hover && t.hover.lane ? t.hover : null;
  const same = hovered && hovered.i >= 0 && hovered.lane.kind === lane.kind ? hovered.name : -1;
  const labelled = h >= 13;
  ctx.font = `11px ${t.theme.font}`;
  ctx.textAlign = "left";
  let i = Math.max(0, countUpTo(lane.end, t.window[0]) - 1);
  for (; i < lane.count && lane.start[i] <= t.window[1]; i++) {
    const left = t.x(lane.start[i]);
    const wide = t.x(lane.end[i]) - left;
    const [text, category] = view.names[lane.name[i]];
    const fill = sliceColour(t, lane.kind, category, shade);
    // A hairline between neighbours, as soon as there is room for it.
    const drawn = wide > 3 ? wide - 0.75 : Math.max(wide, 0.75);
    ctx.fillStyle = fill;
    ctx.fillRect(left, y, drawn, h);
    if (lane.name[i] === same) {
      ctx.fillStyle = t.theme.text;
      ctx.fillRect(left, y + h - 2, drawn, 2);
    }
    if (!labelled || wide < 26) continue;
    const from = Math.max(left, GUTTER);
    const shown = fitText(ctx, text, left + wide - from - 9);
    if (!shown) continue;
    ctx.fillStyle = ink(fill);
    ctx.fillText(shown, from + 5, y + h / 2 + 0.5);
  }
}

function stepInView(t, step) {
  return step && step.end >= t.window[0] && step.begin <= t.window[1];
}

function isFaded(t, run, at) {
  return stepInView(t, run.step) && (at < run.step.begin || at > run.step.end);
}

/** Other steps are faded beside the chosen one, which is what is compared. */
function drawOutsideStep(t, block) {
  const { step } = block.run;
  if (!stepInView(t, step)) return;
  const { ctx, theme } = t;
  ctx.fillStyle = alpha(theme.background, 0.62);
  const top = block.lanesTop;
  const tall = block.lanesBottom - top;
  const left = t.x(0);
  const right = t.x(step.end);
  if (left > GUTTER) ctx.fillRect(GUTTER, top, left - GUTTER, tall);
  if (right < t.width) ctx.fillRect(Math.max(GUTTER, right), top, t.width, tall);
}

function drawSteps(t, block, shade) {
  const { ctx, theme } = t;
  const { run } = block;
  ctx.font = `11px ${theme.font}`;
  const bottom = block.lanesBottom;
  for (const mark of run.boundaries) {
    const chosen = run.step && mark.index === run.step.index;
    const color = chosen ? shade : theme.rule;
    ctx.fillStyle = color;
    for (const at of [mark.begin, mark.end]) {
      ctx.fillRect(Math.round(t.x(at)), block.lanesTop - 2, chosen ? 2 : 1, bottom - block.lanesTop);
    }
    const left = Math.max(GUTTER, t.x(mark.begin));
    const right = t.x(mark.end);
    if (chosen || right - left < 44 || coveredByDelta(t, run, left)) continue;
    ctx.fillStyle = theme.muted;
    ctx.fillText(`step ${mark.index}`, left + 5, bottom + 9);
  }
  if (run.step) drawStepEnd(t, block, shade);
}

/** Whether the line that tells the difference of two steps' ends takes the room at x = `left`. */
function coveredByDelta(t, run, left) {
  if (!run.delta || !run.step) return false;
  const ends = [t.x(run.step.end), t.x(t.view.runs[0].step.end)];
  return left + 44 > Math.min(...ends) && left < Math.max(...ends);
}

/** The end of the chosen step, and how much sooner it comes than the first run's. */
function drawStepEnd(t, block, shade) {
  const { ctx, theme } = t;
  const { run } = block;
  const end = t.x(run.step.end);
  const y = block.lanesBottom + 9;
  const first = t.view.runs[0];
  ctx.textAlign = "left";
  ctx.font = `600 11px ${theme.font}`;
  const label = `ends at ${run.length}`;
  const width = textWidth(ctx, label);
  ctx.fillStyle = shade;
  ctx.fillRect(Math.round(end), block.lanesBottom - 4, 2, 18);
  const before = Math.max(GUTTER + 4, end - width - 7);
  const shown = end >= GUTTER && end <= t.width;
  if (!run.delta || !first.step) {
    ctx.fillStyle = theme.text;
    if (shown) ctx.fillText(label, before, y);
    return;
  }
  const other = t.x(first.step.end);
  const [left, right] = end < other ? [end, other] : [other, end];
  ctx.fillStyle = theme.text;
  if (shown && end - GUTTER > width + 12) ctx.fillText(label, before, y);
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
  const text = fitText(ctx, run.delta, to - from - 30);
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

/** Launches and their kernels: a line for one kernel, a fan for all that a call launched. */
function drawLinks(t) {
  const hovered = t.hover && t.hover.i >= 0 ? t.hover : null;
  for (const mark of [t.selectedSlice(), hovered]) {
    if (!mark) continue;
    const block = t.layout.blocks.find((one) => one.run === mark.run);
    const call = mark.lane.kind === "cpu" ? mark : launchOf(mark);
    if (!block || !call) continue;
    const { ctx } = t;
    ctx.save();
    ctx.beginPath();
    ctx.rect(GUTTER, block.top, t.plot, block.bottom - block.top);
    ctx.clip();
    ctx.strokeStyle = alpha(t.theme.text, mark === hovered ? 0.55 : 0.85);
    ctx.fillStyle = alpha(t.theme.text, 0.13);
    ctx.lineWidth = 1.2;
    if (mark === call) drawFan(t, block, call);
    else drawLink(t, block, call, mark);
    ctx.restore();
  }
}

function launchOf(mark) {
  const row = mark.lane.launch ? mark.lane.launch[mark.i] : -1;
  return row < 0 ? null : findSlice(mark.run, "c" + row);
}

function callFoot(t, block, call) {
  const row = block.lanes.find((one) => one.lane === call.lane);
  return [t.x(call.lane.start[call.i]), row.y + row.h];
}

function drawLink(t, block, call, mark) {
  const target = block.lanes.find((row) => row.lane === mark.lane);
  const [x, y] = callFoot(t, block, call);
  curve(t.ctx, x, y, t.x(mark.lane.start[mark.i]), target.y);
}

function drawFan(t, block, call) {
  const [x, y] = callFoot(t, block, call);
  const row = call.lane.row[call.i];
  const { ctx } = t;
  let [begin, end, count] = [Infinity, -Infinity, 0];
  for (const target of block.lanes) {
    const { lane } = target;
    if (lane.kind !== "gpu" || !lane.launch) continue;
    for (let i = 0; i < lane.count; i++) {
      if (lane.launch[i] !== row) continue;
      begin = Math.min(begin, lane.start[i]);
      end = Math.max(end, lane.end[i]);
      if (++count <= 12) curve(ctx, x, y, t.x(lane.start[i]), target.y);
    }
  }
  if (count < 2) return;
  const top = block.gpuTop;
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(t.x(begin), top);
  ctx.lineTo(t.x(end), top);
  ctx.closePath();
  ctx.fill();
  ctx.fillStyle = ctx.strokeStyle;
  ctx.fillRect(t.x(begin), top - 2, t.x(end) - t.x(begin), 2);
}

function curve(ctx, x0, y0, x1, y1) {
  const bend = Math.max(8, (y1 - y0) * 0.6);
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
  ctx.stroke();
}

/** Rings around the hovered and the selected slice, and the ruler. */
function drawMarks(t) {
  const { ctx, theme } = t;
  if (t.hover && t.hover.i >= 0) ring(t, t.hover, 1);
  const selected = t.selectedSlice();
  if (selected) ring(t, selected, 2);
  else if (t.card) ringCard(t);
  drawRuler(t);
}

/** The ruler: its two instants, and its length between them. */
function drawRuler(t) {
  const { ctx, theme } = t;
  const ruler = t.ruler.span;
  if (!ruler) return;
  const top = t.scroll + t.layout.axis;
  const [from, to] = [t.x(ruler[0]), t.x(ruler[1])];
  const left = Math.min(Math.max(GUTTER, from), t.width);
  const right = Math.min(Math.max(GUTTER, to), t.width);
  ctx.fillStyle = alpha(theme.primary, 0.13);
  ctx.fillRect(left, top, right - left, t.height);
  ctx.fillStyle = theme.primary;
  for (const x of [from, to]) if (x >= GUTTER && x <= t.width) ctx.fillRect(x - 0.75, top, 1.5, t.height);
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

function ring(t, mark, thick) {
  const block = t.layout.blocks.find((one) => one.run === mark.run);
  const row = block && block.lanes.find((one) => one.lane === mark.lane);
  if (row) ringAt(t, row, mark.lane.start[mark.i], mark.lane.end[mark.i], thick);
}

function ringCard(t) {
  const block = t.layout.blocks.find((one) => one.run.run === t.card.run);
  const lane = block && findLane(block.run, t.card);
  const row = lane && block.lanes.find((one) => one.lane === lane);
  if (row) ringAt(t, row, t.card.begin, t.card.begin + t.card.dur, 2);
}

function ringAt(t, row, begin, end, thick) {
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
