// Drawing of the DAG: boxes, links, the strip of colours in a folded group, the small map.
//
// What has one colour is one path, made once for a view; text is drawn where it can be read. While
// the reader zooms or pans a view that is slow to draw, the last frame is moved instead.

const LABELS_FROM = 0.26;
// Below this a box has room for its name or its time: the name.
const TIMES_FROM = 0.44;
const NOTES_FROM = 0.6;
const MAP_WIDTH = 168;
const HEAD = 26;
const SLOW_FRAME_MS = 18.5;
const WHOLE_PIXELS = 1400;

/** One frame: everything that touches the canvas, in CSS pixels. */
function drawDag(dag) {
  const { ctx, width, height, dpr, theme } = dag;
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, width, height);
  if (!dag.view) return;
  if (dag.tween) drawTween(dag);
  else if (dag.moving && dag.slow && dag.layer) drawMoved(dag);
  else {
    drawScene(dag, ctx, dpr * dag.zoom, dag.x * dpr, dag.y * dpr);
    dag.crisp = true;
  }
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  drawMap(dag);
}

/** The view at a scale and place, in the pixels of `ctx`. */
function drawScene(dag, ctx, scale, x, y) {
  const { view, zoom } = dag;
  ctx.setTransform(scale, 0, 0, scale, x, y);
  const left = -x / scale;
  const top = -y / scale;
  const right = left + ctx.canvas.width / scale;
  const bottom = top + ctx.canvas.height / scale;
  const seen = (b) => b.x < right && b.x + b.w > left && b.y < bottom && b.y + b.h > top;
  const paths = (dag.paths = dag.paths || makePaths(dag));
  dag.hot = [];
  fillContainers(dag, ctx, paths);
  drawLinks(dag, ctx, paths);
  fillBoxes(dag, ctx, paths);
  drawMarked(dag, ctx, seen);
  if (zoom < LABELS_FROM) return;
  for (const box of view.boxes) {
    if (!seen(box)) continue;
    ctx.globalAlpha = isDim(dag, box) ? 0.4 : 1;
    if (box.open) drawHead(dag, ctx, box);
    else drawText(dag, ctx, box);
  }
  ctx.globalAlpha = 1;
}

/** What was drawn last, moved to where it now belongs, above a small picture of the whole. */
function drawMoved(dag) {
  const { ctx, dpr, layer, whole } = dag;
  ctx.imageSmoothingQuality = "low";
  if (whole) {
    const scale = (dpr * dag.zoom) / whole.scale;
    ctx.setTransform(scale, 0, 0, scale, dag.x * dpr, dag.y * dpr);
    ctx.drawImage(whole.canvas, 0, 0);
  }
  const scale = dag.zoom / layer.zoom;
  const x = (dag.x - layer.x * scale) * dpr;
  const y = (dag.y - layer.y * scale) * dpr;
  ctx.setTransform(scale, 0, 0, scale, x, y);
  // Its ground covers what lies under it, which it shows better.
  ctx.drawImage(layer.canvas, 0, 0);
}

/** Keeps the frame on the canvas, to be moved while a slow view is in motion. */
function keepFrame(dag) {
  if (!dag.slow || !dag.crisp || !dag.view || dag.tween) return;
  const { width, height } = dag.canvas;
  if (!dag.layer) dag.layer = { canvas: document.createElement("canvas") };
  const { layer } = dag;
  if (layer.canvas.width !== width || layer.canvas.height !== height)
    Object.assign(layer.canvas, { width, height });
  layer.canvas.getContext("2d").drawImage(dag.canvas, 0, 0);
  Object.assign(layer, { zoom: dag.zoom, x: dag.x, y: dag.y });
  if (!dag.whole) {
    const scale = Math.min(dag.dpr, WHOLE_PIXELS / dag.view.width, WHOLE_PIXELS / dag.view.height);
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(dag.view.width * scale);
    canvas.height = Math.ceil(dag.view.height * scale);
    drawScene(dag, canvas.getContext("2d"), scale, 0, 0);
    dag.whole = { canvas, scale };
  }
  dag.crisp = false;
}

function isDim(dag, box) {
  return dag.hits.size > 0 && !dag.hitsIn(box);
}

/** The paths of a view: one for all that is filled and outlined alike. */
function makePaths(dag) {
  const paths = { containers: new Path2D(), bodies: new Path2D(), links: new Map(), boxes: new Map() };
  for (const box of dag.view.boxes) {
    if (box.open) {
      (box.body ? paths.bodies : paths.containers).roundRect(box.x, box.y, box.w, box.h, 9);
      continue;
    }
    const dim = isDim(dag, box);
    const key = `${box.colour}/${box.off}/${dim}`;
    let of = paths.boxes.get(key);
    if (!of) {
      of = { colour: box.colour, off: box.off, dim, stack: new Path2D(), box: new Path2D(), bar: new Path2D() };
      paths.boxes.set(key, of);
    }
    if (box.repeats) for (const by of [7, 3.5]) of.stack.roundRect(box.x + by, box.y + by, box.w, box.h, 7);
    of.box.roundRect(box.x, box.y, box.w, box.h, 7);
    of.bar.roundRect(box.x, box.y, 4.5, box.h, [7, 0, 0, 7]);
    if (box.critical) {
      paths.critical = paths.critical || new Path2D();
      paths.critical.roundRect(box.x + box.w - 4.5, box.y, 4.5, box.h, [0, 7, 7, 0]);
    }
    if (box.strip.length) stripPaths(paths, box, dim);
  }
  for (const link of dag.view.links) {
    const width = link.critical ? 2.6 : link.count > 1 ? 1.6 : 1.1;
    const dash = link.dashed ? "5,4" : link.count ? "" : "1.5,3.5";
    const key = `${width}/${dash}/${link.critical}`;
    let of = paths.links.get(key);
    if (!of) {
      of = { width, dash: dash ? dash.split(",").map(Number) : [], critical: link.critical };
      Object.assign(of, { line: new Path2D(), heads: new Path2D() });
      paths.links.set(key, of);
    }
    traceLink(of.line, of.heads, link.points);
  }
  return paths;
}

/** The strip of a group's colours; neighbours of one colour are one rectangle. */
function stripPaths(paths, box, dim) {
  paths.strips = paths.strips || new Map();
  const step = (box.w - 24) / box.strip.length;
  const y = box.y + box.h - 14;
  let from = 0;
  for (let i = 1; i <= box.strip.length; i++) {
    const apart = step > 4 || i === box.strip.length || box.strip[i] !== box.strip[from];
    if (!apart) continue;
    const key = `${box.strip[from]}/${dim}`;
    if (!paths.strips.has(key)) paths.strips.set(key, { colour: box.strip[from], dim, path: new Path2D() });
    const width = (i - from) * step - (step > 4 ? 1 : 0);
    paths.strips.get(key).path.rect(box.x + 12 + from * step, y, Math.max(width, 0.5), 7);
    from = i;
  }
}

function traceLink(line, heads, p) {
  line.moveTo(p[0], p[1]);
  for (let i = 2; i < p.length - 2; i += 2) line.arcTo(p[i], p[i + 1], p[i + 2], p[i + 3], 7);
  const x = p[p.length - 2];
  const y = p[p.length - 1];
  line.lineTo(x, y);
  heads.moveTo(x, y);
  heads.lineTo(x - 3.6, y - 6);
  heads.lineTo(x + 3.6, y - 6);
  heads.closePath();
}

/** The size of a text that has `size` at full scale and is not to fall below `least` pixels of the
 * screen, where a box of this scale has room for it. */
function legible(dag, size, least, most = 1.8) {
  return Math.round(Math.min(most * size, Math.max(size, least / dag.zoom)) * 2) / 2;
}

/** How much of the text's colour is in the ground of unfolded groups. */
function ground(theme) {
  return theme.dark ? 0.035 : 0.026;
}

function thin(dag, width, least = 0.35) {
  return width / Math.min(1, Math.max(dag.zoom, least));
}

function fillContainers(dag, ctx, paths) {
  const { theme } = dag;
  ctx.fillStyle = alpha(theme.text, ground(theme));
  ctx.fill(paths.containers);
  ctx.fill(paths.bodies);
  ctx.lineWidth = thin(dag, 1);
  ctx.strokeStyle = theme.rule;
  ctx.stroke(paths.containers);
  // A graph inside a node may run or not: its outline is broken, as in the driver's own drawings.
  ctx.strokeStyle = alpha(theme.text, 0.38);
  ctx.setLineDash([6, 4]);
  ctx.stroke(paths.bodies);
  ctx.setLineDash([]);
}

function fillBoxes(dag, ctx, paths) {
  const { theme } = dag;
  for (const of of paths.boxes.values()) {
    const fill = dag.colours[of.colour];
    ctx.globalAlpha = of.dim ? 0.4 : 1;
    ctx.fillStyle = theme.background;
    ctx.fill(of.stack);
    ctx.lineWidth = 1;
    ctx.strokeStyle = alpha(fill, 0.5);
    ctx.stroke(of.stack);
    ctx.fill(of.box);
    // What does not run has no body of its own colour.
    if (!of.off) {
      ctx.fillStyle = alpha(fill, theme.dark ? 0.2 : 0.13);
      ctx.fill(of.box);
    }
    ctx.lineWidth = thin(dag, 1);
    ctx.strokeStyle = alpha(fill, 0.75);
    ctx.setLineDash(of.off ? [5, 4] : []);
    ctx.stroke(of.box);
    ctx.setLineDash([]);
    // A bar at the left in the full colour: what tells the colour apart when the tint is faint.
    ctx.fillStyle = fill;
    ctx.fill(of.bar);
  }
  for (const { colour, dim, path } of (paths.strips || new Map()).values()) {
    ctx.globalAlpha = dim ? 0.4 : 1;
    ctx.fillStyle = dag.colours[colour];
    ctx.fill(path);
  }
  ctx.globalAlpha = 1;
  if (paths.critical) {
    ctx.fillStyle = theme.critical;
    ctx.fill(paths.critical);
  }
}

/** The outlines of what is chosen, found, pointed at, or unlike the other blocks of its repeat. */
function drawMarked(dag, ctx, seen) {
  const { theme, view } = dag;
  for (const box of view.boxes) {
    if (!seen(box)) continue;
    const chosen = box.node >= 0 && box.node === dag.selected;
    const hit = !box.open && dag.hits.size > 0 && dag.hitsIn(box) > 0;
    const pointed = dag.isHover(box);
    const unlike = box.node >= 0 && dag.unlike.has(box.node);
    if (!chosen && !hit && !pointed && !unlike) continue;
    ctx.beginPath();
    ctx.roundRect(box.x, box.y, box.w, box.h, box.open ? 9 : 7);
    ctx.lineWidth = thin(dag, chosen ? 2.6 : hit || box.id === dag.focus || unlike ? 2 : 1.4);
    const outline = chosen ? theme.text : hit || pointed ? theme.primary : theme.critical;
    ctx.strokeStyle = outline;
    ctx.setLineDash(unlike && !chosen ? [2, 3] : []);
    ctx.stroke();
    ctx.setLineDash([]);
  }
}

/** The head of an unfolded group: its name, and of the facts as much as there is room for. */
function drawHead(dag, ctx, box) {
  const { theme } = dag;
  ctx.textBaseline = "middle";
  const y = box.y + 13;
  chevron(ctx, box.x + 13, y, true, theme.muted);
  let room = box.w - 36;
  if (box.repeats) room -= drawBlock(dag, ctx, box, y, room);
  ctx.font = `600 ${legible(dag, 12, 8.5)}px ${theme.font}`;
  const name = fitText(ctx, box.label, room);
  const left = room - textWidth(ctx, name) - 14;
  ctx.textAlign = "left";
  clearUnder(ctx, theme, box.x + 22, y, textWidth(ctx, name));
  ctx.fillStyle = theme.text;
  ctx.fillText(name, box.x + 22, y);
  ctx.font = `${legible(dag, 11, 7.5)}px ${theme.mono}`;
  ctx.fillStyle = theme.muted;
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

/** Takes away the link that may run where text will stand, down to the ground of the group. */
function clearUnder(ctx, theme, x, y, width) {
  ctx.fillStyle = mix(theme.background, theme.text, ground(theme));
  ctx.fillRect(x - 2, y - 8, width + 4, 16);
}

/** Which block of a repeat is shown, with arrows to the ones beside it; returns the room taken. */
function drawBlock(dag, ctx, box, y, most) {
  const { theme } = dag;
  const count = box.repeats.toLocaleString("en");
  const text = box.block < 0 ? `× ${count}` : `${(box.block + 1).toLocaleString("en")} of ${count}`;
  ctx.font = `600 ${legible(dag, 11, 8)}px ${theme.font}`;
  const arrows = box.block < 0 ? 0 : 18;
  const room = textWidth(ctx, text) + 2 * arrows + 8;
  if (room > most * 0.6) return 0;
  const right = box.x + box.w - 9;
  const left = right - room + 8;
  ctx.textAlign = "left";
  clearUnder(ctx, theme, left, y, room - 10);
  ctx.fillStyle = box.differ ? theme.critical : theme.primary;
  ctx.fillText(text, left + arrows, y);
  if (arrows) {
    for (const [by, x] of [[-1, left + 6], [1, right - 7]]) {
      arrowTo(ctx, x, y, by, theme.primary);
      dag.hot.push({ x: x - 10, y: box.y, w: 20, h: HEAD, box, by });
    }
  }
  return room + 6;
}

function arrowTo(ctx, x, y, by, stroke) {
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1.8;
  ctx.beginPath();
  ctx.moveTo(x - 2 * by, y - 4.5);
  ctx.lineTo(x + 2.5 * by, y);
  ctx.lineTo(x - 2 * by, y + 4.5);
  ctx.stroke();
}

function drawText(dag, ctx, box) {
  const { theme, zoom } = dag;
  const group = box.node < 0;
  const x = box.x + (group ? 24 : 11);
  const alone = zoom < NOTES_FROM;
  // The only line of a box is in its middle: in a group's, above the strip.
  const first = box.y + (alone ? (group ? 17 : box.h / 2) : group ? 14 : 12);
  ctx.textBaseline = "middle";
  if (group) chevron(ctx, box.x + 14, first, false, theme.muted);
  ctx.textAlign = "right";
  ctx.font = `${legible(dag, 11, 7.5)}px ${theme.mono}`;
  ctx.fillStyle = theme.muted;
  const edge = box.x + box.w - 9;
  const time = zoom < TIMES_FROM ? "" : box.time;
  ctx.fillText(time, edge, first);
  const used = time ? textWidth(ctx, time) + 8 : 0;
  ctx.textAlign = "left";
  ctx.font = `${group ? 600 : 500} ${legible(dag, 11.5, 8, 2.4)}px ${theme.font}`;
  ctx.fillStyle = theme.text;
  const badge = box.repeats ? ` × ${box.repeats.toLocaleString("en")}` : "";
  const room = edge - x - used;
  const fitted = fitText(ctx, box.label, room - (badge ? textWidth(ctx, badge) : 0));
  ctx.fillText(fitted + badge, x, first);
  if (alone) return;
  ctx.font = `${legible(dag, 10.5, 7)}px ${theme.font}`;
  ctx.fillStyle = theme.muted;
  if (!group) return ctx.fillText(fitText(ctx, box.note, box.w - 22), x, box.y + 26);
  const hits = dag.hits.size ? dag.hitsIn(box) : 0;
  const taken = hits ? textWidth(ctx, `${hits} found`) + 8 : 0;
  const note = box.differ ? `${box.note}, ${box.differ} differ` : box.note;
  ctx.fillText(fitText(ctx, note, edge - x - taken), x, box.y + 27);
  if (!hits) return undefined;
  ctx.textAlign = "right";
  ctx.fillStyle = theme.primary;
  return ctx.fillText(`${hits} found`, edge, box.y + 27);
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

function drawLinks(dag, ctx, paths) {
  const { view, theme, zoom } = dag;
  for (const of of paths.links.values()) {
    ctx.setLineDash(of.dash);
    ctx.lineWidth = thin(dag, of.width, 0.4);
    ctx.strokeStyle = ctx.fillStyle = of.critical ? theme.critical : theme.muted;
    ctx.globalAlpha = of.critical ? 1 : 0.62;
    ctx.stroke(of.line);
    ctx.setLineDash([]);
    ctx.fill(of.heads);
  }
  ctx.globalAlpha = 1;
  const near = dag.focus || dag.selectedId();
  for (const link of view.links) {
    const pointed = link === dag.hoverLink || link === dag.chosenLink;
    if (pointed || (near && (link.source === near || link.target === near))) {
      const line = new Path2D();
      const heads = new Path2D();
      traceLink(line, heads, link.points);
      ctx.lineWidth = thin(dag, pointed ? 3 : link.critical ? 2.6 : 2, 0.4);
      ctx.strokeStyle = ctx.fillStyle = link.critical && !pointed ? theme.critical : theme.primary;
      ctx.setLineDash(link.dashed ? [5, 4] : []);
      ctx.stroke(line);
      ctx.setLineDash([]);
      ctx.fill(heads);
    }
    if (link.text && zoom >= NOTES_FROM) {
      ctx.font = `10px ${theme.font}`;
      ctx.fillStyle = theme.muted;
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      ctx.fillText(link.text, link.points[link.points.length - 2] + 5, link.points[link.points.length - 1] - 7);
    }
  }
}

/** A frame on the way from the view before to this one: boxes move, new ones come out of theirs. */
function drawTween(dag) {
  const { ctx, dpr, theme, tween } = dag;
  const done = Math.min(1, (performance.now() - tween.begin) / tween.ms);
  const t = 1 - (1 - done) ** 3;
  const between = (a, b) => a + (b - a) * t;
  const scale = dpr * dag.zoom;
  ctx.setTransform(scale, 0, 0, scale, dag.x * dpr, dag.y * dpr);
  ctx.font = `500 ${legible(dag, 11.5, 8)}px ${theme.font}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const box of dag.view.boxes) {
    const from = tween.from.get(box.id) || tween.source;
    const x = between(from.x, box.x);
    const y = between(from.y, box.y);
    const w = between(from.w, box.w);
    const h = between(from.h, box.h);
    ctx.beginPath();
    ctx.rect(x, y, w, h);
    const fill = dag.colours[box.colour];
    if (!box.open) {
      ctx.fillStyle = theme.background;
      ctx.fill();
    }
    ctx.fillStyle = box.open ? alpha(theme.text, 0.026) : alpha(fill, theme.dark ? 0.2 : 0.13);
    ctx.fill();
    ctx.lineWidth = thin(dag, 1);
    ctx.strokeStyle = box.open ? theme.rule : alpha(fill, 0.75);
    ctx.stroke();
    if (dag.zoom < LABELS_FROM || w < 60) continue;
    ctx.fillStyle = theme.text;
    ctx.fillText(fitText(ctx, box.label, box.w - 80), x + (box.node < 0 ? 24 : 11), y + 13);
  }
  if (done >= 1) dag.tween = null;
  dag.draw();
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

/** The boxes of the small map as a picture of its own, drawn once for a view and theme. */
function mapPicture(dag, map) {
  const known = dag.mapPicture;
  if (known && known.w === map.w && known.h === map.h) return known.canvas;
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(map.w * dag.dpr);
  canvas.height = Math.ceil(map.h * dag.dpr);
  const ctx = canvas.getContext("2d");
  const scale = map.scale * dag.dpr;
  for (const box of dag.view.boxes) {
    if (box.open) continue;
    ctx.fillStyle = alpha(dag.colours[box.colour], 0.75);
    ctx.fillRect(box.x * scale, box.y * scale, Math.max(1, box.w * scale), Math.max(1, box.h * scale));
  }
  dag.mapPicture = { canvas, w: map.w, h: map.h };
  return canvas;
}

function drawMap(dag) {
  const map = mapOf(dag);
  if (!map) return;
  const { ctx, theme, zoom } = dag;
  ctx.fillStyle = alpha(theme.background, 0.9);
  ctx.strokeStyle = theme.rule;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.roundRect(map.x - 5, map.y - 5, map.w + 10, map.h + 10, 6);
  ctx.fill();
  ctx.stroke();
  ctx.drawImage(mapPicture(dag, map), map.x, map.y, map.w, map.h);
  const x = Math.max(map.x - 3, map.x - (dag.x / zoom) * map.scale);
  const y = Math.max(map.y - 3, map.y - (dag.y / zoom) * map.scale);
  const right = Math.min(map.x + map.w + 3, map.x + ((dag.width - dag.x) / zoom) * map.scale);
  const bottom = Math.min(map.y + map.h + 3, map.y + ((dag.height - dag.y) / zoom) * map.scale);
  ctx.strokeStyle = theme.primary;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(x, y, Math.max(2, right - x), Math.max(2, bottom - y));
}
