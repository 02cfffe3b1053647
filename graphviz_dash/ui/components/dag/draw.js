// Drawing of the DAG: boxes, links, the strip of colours in a folded group, the small map.

const LABELS_FROM = 0.42;
const NOTES_FROM = 0.6;
const MAP_WIDTH = 168;

/** One frame: everything that touches the canvas, in CSS pixels. */
function drawDag(dag) {
  const { ctx, view, width, height, dpr, theme, zoom } = dag;
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, width, height);
  if (!view) return;
  const scale = dpr * zoom;
  ctx.setTransform(scale, 0, 0, scale, dag.x * dpr, dag.y * dpr);
  const left = -dag.x / zoom;
  const top = -dag.y / zoom;
  const right = left + width / zoom;
  const bottom = top + height / zoom;
  const seen = (b) => b.x < right && b.x + b.w > left && b.y < bottom && b.y + b.h > top;
  for (const box of view.boxes) if (box.open && seen(box)) drawContainer(dag, box);
  drawLinks(dag);
  for (const box of view.boxes) if (!box.open && seen(box)) drawBox(dag, box);
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  drawMap(dag);
}

function drawContainer(dag, box) {
  const { ctx, theme, zoom } = dag;
  ctx.beginPath();
  ctx.roundRect(box.x, box.y, box.w, box.h, 9);
  ctx.fillStyle = alpha(theme.text, theme.dark ? 0.035 : 0.026);
  ctx.fill();
  ctx.lineWidth = outline(dag, box, 1);
  ctx.strokeStyle = dag.isHover(box) ? theme.primary : box.body ? alpha(theme.text, 0.38) : theme.rule;
  // A graph inside a node may run or not: its outline is broken, as in the driver's own drawings.
  ctx.setLineDash(box.body ? [6, 4] : []);
  ctx.stroke();
  ctx.setLineDash([]);
  if (zoom < LABELS_FROM) return;
  ctx.textBaseline = "middle";
  const y = box.y + 13;
  chevron(ctx, box.x + 13, y, true, theme.muted);
  // The name comes first; of the facts as much is shown as there is room for.
  const room = box.w - 36;
  ctx.font = `600 12px ${theme.font}`;
  const name = fitText(ctx, box.label, room);
  const left = room - textWidth(ctx, name) - 14;
  ctx.textAlign = "left";
  ctx.fillStyle = theme.text;
  ctx.fillText(name, box.x + 22, y);
  ctx.font = `11px ${theme.mono}`;
  ctx.fillStyle = theme.muted;
  ctx.textAlign = "right";
  const times = box.repeats ? `× ${box.repeats} · ` : "";
  const facts = [`${times}${box.note} · ${box.time}`, `${times}${box.time}`, box.time];
  const shown = facts.find((text) => textWidth(ctx, text) <= left);
  if (shown) ctx.fillText(shown, box.x + box.w - 11, y);
}

function drawBox(dag, box) {
  const { ctx, theme, zoom } = dag;
  const fill = dag.colours[box.colour];
  const chosen = box.node >= 0 && box.node === dag.selected;
  const hit = dag.hits.size && dag.holdsHit(box);
  const dim = dag.hits.size && !hit;
  ctx.globalAlpha = dim ? 0.4 : 1;
  if (box.repeats) {
    for (const shift of [7, 3.5]) {
      ctx.beginPath();
      ctx.roundRect(box.x + shift, box.y + shift, box.w, box.h, 7);
      ctx.fillStyle = theme.background;
      ctx.fill();
      ctx.fillStyle = alpha(fill, theme.dark ? 0.12 : 0.1);
      ctx.fill();
      ctx.lineWidth = 1;
      ctx.strokeStyle = alpha(fill, 0.5);
      ctx.stroke();
    }
  }
  ctx.beginPath();
  ctx.roundRect(box.x, box.y, box.w, box.h, 7);
  ctx.fillStyle = theme.background;
  ctx.fill();
  // What does not run has no body of its own colour.
  if (!box.off) {
    ctx.fillStyle = alpha(fill, theme.dark ? 0.2 : 0.13);
    ctx.fill();
  }
  ctx.lineWidth = outline(dag, box, chosen ? 2.6 : hit ? 2 : 1);
  ctx.strokeStyle = chosen ? theme.text : hit ? theme.primary : alpha(fill, dag.isHover(box) ? 1 : 0.75);
  ctx.setLineDash(box.off ? [5, 4] : []);
  ctx.stroke();
  ctx.setLineDash([]);
  if (zoom < 0.12) {
    ctx.fillStyle = alpha(fill, 0.6);
    ctx.fill();
    ctx.globalAlpha = 1;
    return;
  }
  // A bar at the left in the full colour: what tells the colour apart when the tint is faint.
  ctx.save();
  ctx.clip();
  ctx.fillStyle = fill;
  ctx.fillRect(box.x, box.y, 4, box.h);
  ctx.restore();
  if (box.critical) drawCritical(dag, box);
  if (box.strip.length) drawStrip(dag, box);
  if (zoom >= LABELS_FROM) drawText(dag, box);
  ctx.globalAlpha = 1;
}

/** A bar at the right edge: the critical path runs through here. */
function drawCritical(dag, box) {
  const { ctx, theme } = dag;
  ctx.save();
  ctx.beginPath();
  ctx.roundRect(box.x, box.y, box.w, box.h, 7);
  ctx.clip();
  ctx.fillStyle = theme.critical;
  ctx.fillRect(box.x + box.w - 4, box.y, 4, box.h);
  ctx.restore();
}

function drawStrip(dag, box) {
  const { ctx } = dag;
  const x = box.x + 12;
  const width = box.w - 24;
  const y = box.y + box.h - 14;
  const step = width / box.strip.length;
  box.strip.forEach((place, i) => {
    ctx.fillStyle = dag.colours[place];
    ctx.fillRect(x + i * step, y, Math.max(step - (step > 4 ? 1 : 0), 0.5), 7);
  });
}

function drawText(dag, box) {
  const { ctx, theme, zoom } = dag;
  const group = box.node < 0;
  const x = box.x + (group ? 24 : 11);
  const first = box.y + (group ? 14 : 12);
  ctx.textBaseline = "middle";
  if (group) chevron(ctx, box.x + 14, first, false, theme.muted);
  ctx.textAlign = "right";
  ctx.font = `11px ${theme.mono}`;
  ctx.fillStyle = theme.muted;
  const edge = box.x + box.w - 9;
  const time = box.time;
  ctx.fillText(time, edge, first);
  const used = textWidth(ctx, time) + 8;
  ctx.textAlign = "left";
  ctx.font = `${group ? 600 : 500} 11.5px ${theme.font}`;
  ctx.fillStyle = theme.text;
  const badge = box.repeats ? ` × ${box.repeats}` : "";
  const room = edge - x - used;
  const fitted = fitText(ctx, box.label, room - (badge ? textWidth(ctx, badge) : 0));
  ctx.fillText(fitted + badge, x, first);
  if (zoom < NOTES_FROM) return;
  ctx.font = `10.5px ${theme.font}`;
  ctx.fillStyle = theme.muted;
  if (!group) ctx.fillText(fitText(ctx, box.note, box.w - 22), x, box.y + 26);
  else ctx.fillText(box.note, x, box.y + 27);
}

function outline(dag, box, width) {
  return (box.id === dag.focus ? Math.max(width, 2) : width) / Math.min(1, Math.max(dag.zoom, 0.35));
}

function chevron(ctx, x, y, open, stroke) {
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

function drawLinks(dag) {
  const { ctx, view, theme, zoom } = dag;
  const near = dag.focus || dag.selectedId();
  for (const pass of [false, true]) {
    for (const link of view.links) {
      const lit = Boolean(near) && (link.source === near || link.target === near);
      if (lit !== pass) continue;
      const p = link.points;
      ctx.beginPath();
      ctx.moveTo(p[0], p[1]);
      for (let i = 2; i < p.length - 2; i += 2) ctx.arcTo(p[i], p[i + 1], p[i + 2], p[i + 3], 7);
      ctx.lineTo(p[p.length - 2], p[p.length - 1]);
      ctx.setLineDash(link.dashed ? [5, 4] : link.count ? [] : [1.5, 3.5]);
      const width = link.critical ? 2.6 : lit ? 2 : link.count > 1 ? 1.6 : 1.1;
      ctx.lineWidth = width / Math.min(1, Math.max(zoom, 0.4));
      ctx.strokeStyle = link.critical ? theme.critical : lit ? theme.primary : theme.muted;
      ctx.globalAlpha = lit || link.critical ? 1 : 0.62;
      ctx.stroke();
      arrow(ctx, p, ctx.strokeStyle);
      if (link.text && zoom >= NOTES_FROM) {
        ctx.font = `10px ${theme.font}`;
        ctx.fillStyle = theme.muted;
        ctx.textAlign = "left";
        ctx.fillText(link.text, p[p.length - 2] + 5, p[p.length - 1] - 7);
      }
    }
  }
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

function arrow(ctx, p, fill) {
  const x = p[p.length - 2];
  const y = p[p.length - 1];
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x - 3.6, y - 6);
  ctx.lineTo(x + 3.6, y - 6);
  ctx.closePath();
  ctx.fillStyle = fill;
  ctx.fill();
}

/** Where the small map lies, or null when all is in view anyway. */
function mapOf(dag) {
  const { view, width, height, zoom } = dag;
  if (!view || (view.width * zoom <= width + 1 && view.height * zoom <= height + 1)) return null;
  const scale = Math.min(MAP_WIDTH / view.width, (height * 0.32) / view.height);
  const w = view.width * scale;
  const h = view.height * scale;
  return { x: width - w - 12, y: height - h - 12, w, h, scale };
}

function drawMap(dag) {
  const map = mapOf(dag);
  if (!map) return;
  const { ctx, view, theme, zoom } = dag;
  ctx.fillStyle = alpha(theme.background, 0.9);
  ctx.strokeStyle = theme.rule;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.roundRect(map.x - 5, map.y - 5, map.w + 10, map.h + 10, 6);
  ctx.fill();
  ctx.stroke();
  for (const box of view.boxes) {
    if (box.open) continue;
    ctx.fillStyle = alpha(dag.colours[box.colour], 0.75);
    ctx.fillRect(
      map.x + box.x * map.scale,
      map.y + box.y * map.scale,
      Math.max(1, box.w * map.scale),
      Math.max(1, box.h * map.scale),
    );
  }
  const x = Math.max(map.x - 3, map.x - (dag.x / zoom) * map.scale);
  const y = Math.max(map.y - 3, map.y - (dag.y / zoom) * map.scale);
  const right = Math.min(map.x + map.w + 3, map.x + ((dag.width - dag.x) / zoom) * map.scale);
  const bottom = Math.min(map.y + map.h + 3, map.y + ((dag.height - dag.y) / zoom) * map.scale);
  ctx.strokeStyle = theme.primary;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(x, y, Math.max(2, right - x), Math.max(2, bottom - y));
}
