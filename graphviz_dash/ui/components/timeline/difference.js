// The difference lanes: where the first run loses time against another.

const LOSS = ["lost: GPU idle", "lost: longer work", "caught up"];

/** Colours of what is lost while idle, of what is lost at work, and of what is gained. */
function lossColours(t, run) {
  const { theme } = t;
  const gained = theme.modes[run.mode] || theme.primary;
  return [theme.idle, mix(theme.background, theme.text, 0.86), gained];
}

/** Where the first run loses time against another: bars for how much of each bin is lost, and a
 *  line for all that was lost so far. */
function drawDifference(t, row) {
  const { ctx, theme, view } = t;
  const { difference, y, h } = row;
  ctx.fillStyle = theme.lane;
  ctx.fillRect(GUTTER, y, t.plot, h);
  if (difference.problem) {
    ctx.font = `12px ${theme.font}`;
    ctx.fillStyle = theme.muted;
    ctx.textAlign = "left";
    const text = difference.problem.startsWith(`${difference.run}: `)
      ? `Not compared with ${difference.problem}`
      : `Not compared with ${difference.run}: ${difference.problem}`;
    ctx.fillText(fitText(ctx, text, t.plot - 12), GUTTER + 6, y + h / 2);
    return;
  }
  const [begin, stop] = view.loaded;
  const { bins, idleAt, busyAt } = difference;
  const perBin = (stop - begin) / bins;
  const together = binsTogether(t, perBin);
  let first = Math.max(0, Math.floor((t.window[0] - begin) / perBin));
  first -= first % together;
  const last = Math.min(bins, Math.ceil((t.window[1] - begin) / perBin));
  const zero = y + Math.round(h * 0.72);
  const up = zero - y - 2;
  const down = y + h - zero - 2;
  const colours = lossColours(t, difference);
  const bar = (left, wide, from, share, fill) => {
    ctx.fillStyle = fill;
    if (share > 0) ctx.fillRect(left, zero - (from + share) * up, wide, share * up);
    else ctx.fillRect(left, zero - from * down, wide, -share * down);
  };
  ctx.globalAlpha = 0.6;
  for (let bin = first; bin < last; bin += together) {
    const next = Math.min(last, bin + together);
    const left = t.x(begin + bin * perBin);
    const wide = Math.max(0.75, t.x(begin + next * perBin) - left);
    const idle = clamp((idleAt[next] - idleAt[bin]) / (perBin * (next - bin)));
    const busy = clamp((busyAt[next] - busyAt[bin]) / (perBin * (next - bin)));
    if (idle) bar(left, wide, 0, idle, idle > 0 ? colours[0] : colours[2]);
    const stacked = busy > 0 === idle > 0 ? idle : 0;
    if (busy) bar(left, wide, stacked, busy, busy > 0 ? colours[1] : colours[2]);
  }
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.rule;
  ctx.fillRect(GUTTER, zero, t.plot, 1);
  const tall = (lost) => zero - Math.max(-down, Math.min(up, (lost / (difference.most || 1)) * up));
  ctx.beginPath();
  for (let place = first; place < last + together; place += together) {
    const edge = Math.min(place, last);
    const x = t.x(begin + edge * perBin);
    const at = tall(idleAt[edge] + busyAt[edge]);
    if (edge === first) ctx.moveTo(x, at);
    else ctx.lineTo(x, at);
  }
  ctx.lineWidth = 3.5;
  ctx.strokeStyle = alpha(theme.lane, 0.85);
  ctx.stroke();
  ctx.lineWidth = 1.5;
  ctx.strokeStyle = theme.text;
  ctx.stroke();
}

const clamp = (share) => Math.max(-1, Math.min(1, share));

function drawDifferenceTitle(t, row) {
  const { ctx, theme } = t;
  const { difference, y, h } = row;
  const [idle, busy] = difference.total;
  const lost = idle + busy;
  ctx.textAlign = "left";
  ctx.fillStyle = theme.modes[difference.mode] || theme.primary;
  ctx.fillRect(10, y + Math.min(h / 2, 10) - 4, 8, 8);
  ctx.font = `11px ${theme.font}`;
  ctx.fillStyle = theme.text;
  ctx.fillText(fitText(ctx, `vs ${difference.run}`, GUTTER - 30), 23, y + Math.min(h / 2, 10));
  if (difference.problem) return;
  ctx.font = `600 12px ${theme.mono}`;
  ctx.fillText(formatTime(Math.abs(lost)), 23, y + 25);
  const room = textWidth(ctx, formatTime(Math.abs(lost))) + 5;
  ctx.font = `11px ${theme.font}`;
  if (room < GUTTER - 58) ctx.fillText(lost < 0 ? "gained" : "lost", 23 + room, y + 25);
  ctx.font = `11px ${theme.font}`;
  ctx.fillStyle = theme.muted;
  ctx.fillText(`work: ${signedTime(busy)}`, 23, y + 40);
}

/** What a difference lane tells at an instant: lost so far, and what is lost there. */
function differenceLines(t, { difference, at }) {
  const first = t.view.runs[0].run;
  if (difference.problem) return ["Not compared", difference.problem];
  const [begin, stop] = t.view.loaded;
  const perBin = (stop - begin) / difference.bins;
  const place = (at - begin) / perBin;
  const bin = Math.floor(place);
  if (bin < 0 || bin >= difference.bins) return null;
  const within = (edges) => edges[bin] + (edges[bin + 1] - edges[bin]) * (place - bin);
  const idle = within(difference.idleAt);
  const busy = within(difference.busyAt);
  const here = ["idleAt", "busyAt"].map((one) => difference[one][bin + 1] - difference[one][bin]);
  const share = (100 * (here[0] + here[1])) / perBin;
  const ahead = idle + busy < 0;
  return [
    `${first} is ${formatTime(Math.abs(idle + busy))} ${ahead ? "ahead of" : "behind"} ${difference.run}`,
    `${signedTime(idle)} from its GPU idling longer, ${signedTime(busy)} from its work`,
    `here it ${share < 0 ? "catches up" : "loses"} ${Math.abs(share).toFixed(0)}% of the time`,
    difference.text,
    "both steps traced, under the profiler",
  ];
}

function signedTime(ns) {
  return (ns < 0 ? "−" : "+") + formatTime(Math.abs(ns));
}
