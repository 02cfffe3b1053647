// Drawing of the DAG: boxes, links, the small map, and the frames in between.
//
// Text is drawn where it can be read. While the reader zooms or pans a view that is slow to draw,
// the last frame is moved instead.

import { contextOf } from "../../../../ui/components/common/elements.js";
import { alpha, fitText } from "../../../../ui/components/common/theme.js";
import { mapFrame } from "./geometry.js";
import { makePaths, traceLink } from "./paths.js";
import { drawHead, drawText, ground, legible, NOTES_FROM, SIZES } from "./text.js";

/** @import { Dag } from "./dag.js" */
/** @import { Paths } from "./paths.js" */
/** @import { Box, Link } from "./wire.js" */
/** @import { Rect } from "./geometry.js" */

const LABELS_FROM = 0.26;
const WHOLE_PIXELS = 1400;

/**
 * One frame: everything that touches the canvas, in CSS pixels.
 * @param {Dag} dag
 */
export function drawDag(dag) {
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

/**
 * The view at a scale and place, in the pixels of `ctx`.
 * @param {Dag} dag
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} scale
 * @param {number} x
 * @param {number} y
 */
export function drawScene(dag, ctx, scale, x, y) {
  const { view, zoom } = dag;
  if (!view) return;
  ctx.setTransform(scale, 0, 0, scale, x, y);
  const left = -x / scale;
  const top = -y / scale;
  const right = left + ctx.canvas.width / scale;
  const bottom = top + ctx.canvas.height / scale;
  /** @type {(box: Rect) => boolean} */
  const seen = (box) =>
    box.x < right && box.x + box.width > left && box.y < bottom && box.y + box.height > top;
  const paths = dag.paths ??= makePaths(view, (box) => isDim(dag, box));
  dag.arrows = [];
  fillContainers(dag, ctx, paths);
  drawLinks(dag, ctx, paths);
  fillBoxes(dag, ctx, paths);
  drawOutlines(dag, ctx, seen);
  if (zoom < LABELS_FROM) return;
  for (const box of view.boxes) {
    if (!seen(box)) continue;
    ctx.globalAlpha = isDim(dag, box) ? 0.4 : 1;
    if (box.open) drawHead(dag, ctx, box);
    else drawText(dag, ctx, box);
  }
  ctx.globalAlpha = 1;
}

/**
 * What was drawn last, moved to where it now belongs, above a small picture of the whole.
 * @param {Dag} dag
 */
function drawMoved(dag) {
  const { ctx, dpr, layer, whole } = dag;
  if (!layer) return;
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

/**
 * Keeps the frame on the canvas, to be moved while a slow view is in motion.
 * @param {Dag} dag
 */
export function keepFrame(dag) {
  const { view } = dag;
  if (!dag.slow || !dag.crisp || !view || dag.tween) return;
  const { width, height } = dag.canvas;
  const { zoom, x, y } = dag;
  const canvas = dag.layer ? dag.layer.canvas : document.createElement("canvas");
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  contextOf(canvas).drawImage(dag.canvas, 0, 0);
  dag.layer = { canvas, zoom, x, y };
  if (!dag.whole) {
    const scale = Math.min(dag.dpr, WHOLE_PIXELS / view.width, WHOLE_PIXELS / view.height);
    const picture = document.createElement("canvas");
    picture.width = Math.ceil(view.width * scale);
    picture.height = Math.ceil(view.height * scale);
    drawScene(dag, contextOf(picture), scale, 0, 0);
    dag.whole = { canvas: picture, scale };
  }
  dag.crisp = false;
}

/**
 * Whether a box steps back because a search has hits elsewhere.
 * @param {Dag} dag
 * @param {Box} box
 */
function isDim(dag, box) {
  return dag.finder.hits.size > 0 && !dag.finder.hitsIn(box);
}

/**
 * A line's width in the graph that is `width` pixels on the screen, as far as the graph is zoomed
 * out.
 * @param {Dag} dag
 * @param {number} width
 * @param {number} [least] zoom from which on lines get thinner too
 */
function thin(dag, width, least = 0.35) {
  return width / Math.min(1, Math.max(dag.zoom, least));
}

/**
 * @param {Dag} dag
 * @param {CanvasRenderingContext2D} ctx
 * @param {Paths} paths
 */
function fillContainers(dag, ctx, paths) {
  const { theme } = dag;
  ctx.fillStyle = ground(theme);
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

/**
 * @param {Dag} dag
 * @param {CanvasRenderingContext2D} ctx
 * @param {Paths} paths
 */
function fillBoxes(dag, ctx, paths) {
  const { theme } = dag;
  for (const alike of paths.boxes.values()) {
    const fill = dag.colours[alike.colour];
    ctx.globalAlpha = alike.dim ? 0.4 : 1;
    ctx.fillStyle = theme.background;
    ctx.fill(alike.stack);
    ctx.lineWidth = 1;
    ctx.strokeStyle = alpha(fill, 0.5);
    ctx.stroke(alike.stack);
    ctx.fill(alike.box);
    // What does not run has no body of its own colour.
    if (!alike.disabled) {
      ctx.fillStyle = alpha(fill, theme.dark ? 0.2 : 0.13);
      ctx.fill(alike.box);
    }
    ctx.lineWidth = thin(dag, 1);
    ctx.strokeStyle = alpha(fill, 0.75);
    ctx.setLineDash(alike.disabled ? [5, 4] : []);
    ctx.stroke(alike.box);
    ctx.setLineDash([]);
    // A bar at the left in the full colour: what tells the colour apart when the tint is faint.
    ctx.fillStyle = fill;
    ctx.fill(alike.bar);
  }
  for (const { colour, dim, path } of paths.strips.values()) {
    ctx.globalAlpha = dim ? 0.4 : 1;
    ctx.fillStyle = dag.colours[colour];
    ctx.fill(path);
  }
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.critical;
  ctx.fill(paths.critical);
}

/**
 * The outlines of what is chosen, a hit, pointed at, or unlike the other blocks of its repeat.
 * @param {Dag} dag
 * @param {CanvasRenderingContext2D} ctx
 * @param {(box: Rect) => boolean} seen
 */
function drawOutlines(dag, ctx, seen) {
  const { theme, view } = dag;
  for (const box of view ? view.boxes : []) {
    if (!seen(box)) continue;
    const chosen = box.node >= 0 && box.node === dag.selected;
    const hit = !box.open && dag.finder.hitsIn(box) > 0;
    const pointed = dag.hover === box || dag.focus === box.id;
    const unlike = box.node >= 0 && dag.unlike.has(box.node);
    if (!chosen && !hit && !pointed && !unlike) continue;
    ctx.beginPath();
    ctx.roundRect(box.x, box.y, box.width, box.height, box.open ? 9 : 7);
    ctx.lineWidth = thin(dag, chosen ? 2.6 : hit || box.id === dag.focus || unlike ? 2 : 1.4);
    ctx.strokeStyle = chosen ? theme.text : hit || pointed ? theme.primary : theme.critical;
    ctx.setLineDash(unlike && !chosen ? [2, 3] : []);
    ctx.stroke();
    ctx.setLineDash([]);
  }
}

/**
 * @param {Dag} dag
 * @param {CanvasRenderingContext2D} ctx
 * @param {Paths} paths
 */
function drawLinks(dag, ctx, paths) {
  const { view, theme, zoom } = dag;
  for (const alike of paths.links.values()) {
    ctx.setLineDash(alike.dash);
    ctx.lineWidth = thin(dag, alike.width, 0.4);
    ctx.strokeStyle = ctx.fillStyle = alike.critical ? theme.critical : theme.muted;
    ctx.globalAlpha = alike.critical ? 1 : 0.62;
    ctx.stroke(alike.line);
    ctx.setLineDash([]);
    ctx.fill(alike.heads);
  }
  ctx.globalAlpha = 1;
  const near = dag.focus ?? dag.selectedId();
  for (const link of view ? view.links : []) {
    const pointed = link === dag.hoverLink || link === dag.chosenLink;
    if (pointed || (near && (link.source === near || link.target === near))) {
      drawMarkedLink(dag, ctx, link, pointed);
    }
    if (link.text && zoom >= NOTES_FROM) {
      ctx.font = `${legible(zoom, SIZES.link)}px ${theme.font}`;
      ctx.fillStyle = theme.muted;
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      const [x, y] = link.points.slice(-2);
      ctx.fillText(link.text, x + 5, y - 7);
    }
  }
}

/**
 * @param {Dag} dag
 * @param {CanvasRenderingContext2D} ctx
 * @param {Link} link
 * @param {boolean} pointed
 */
function drawMarkedLink(dag, ctx, link, pointed) {
  const { theme } = dag;
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

/**
 * A frame on the way from the view before to this one: boxes move, new ones come out of theirs.
 * @param {Dag} dag
 */
function drawTween(dag) {
  const { ctx, dpr, theme, tween, view } = dag;
  if (!tween || !view) return;
  const done = Math.min(1, (performance.now() - tween.begin) / tween.ms);
  const share = 1 - (1 - done) ** 3;
  const scale = dpr * dag.zoom;
  ctx.setTransform(scale, 0, 0, scale, dag.x * dpr, dag.y * dpr);
  ctx.font = `500 ${legible(dag.zoom, SIZES.name)}px ${theme.font}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const box of view.boxes) {
    const rect = between(tween.from.get(box.id) ?? tween.source, box, share);
    ctx.beginPath();
    ctx.rect(rect.x, rect.y, rect.width, rect.height);
    const fill = dag.colours[box.colour];
    if (!box.open) {
      ctx.fillStyle = theme.background;
      ctx.fill();
    }
    ctx.fillStyle = box.open ? ground(theme) : alpha(fill, theme.dark ? 0.2 : 0.13);
    ctx.fill();
    ctx.lineWidth = thin(dag, 1);
    ctx.strokeStyle = box.open ? theme.rule : alpha(fill, 0.75);
    ctx.stroke();
    if (dag.zoom < LABELS_FROM || rect.width < 60) continue;
    ctx.fillStyle = theme.text;
    const inset = box.node < 0 ? 24 : 11;
    ctx.fillText(fitText(ctx, box.label, box.width - 80), rect.x + inset, rect.y + 13);
  }
  if (done >= 1) dag.tween = null;
  dag.draw();
}

/**
 * @param {Rect} from
 * @param {Rect} to
 * @param {number} share 0 to 1
 * @returns {Rect}
 */
function between(from, to, share) {
  return {
    x: from.x + (to.x - from.x) * share,
    y: from.y + (to.y - from.y) * share,
    width: from.width + (to.width - from.width) * share,
    height: from.height + (to.height - from.height) * share,
  };
}

/**
 * The boxes of the small map as a picture of its own, drawn once for a view and theme.
 * @param {Dag} dag
 * @param {Rect & {scale: number}} map
 */
function mapPicture(dag, map) {
  const kept = dag.mapPicture;
  if (kept && kept.width === map.width && kept.height === map.height) return kept.canvas;
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(map.width * dag.dpr);
  canvas.height = Math.ceil(map.height * dag.dpr);
  const ctx = contextOf(canvas);
  const scale = map.scale * dag.dpr;
  for (const box of dag.view ? dag.view.boxes : []) {
    if (box.open) continue;
    ctx.fillStyle = alpha(dag.colours[box.colour], 0.75);
    const width = Math.max(1, box.width * scale);
    ctx.fillRect(box.x * scale, box.y * scale, width, Math.max(1, box.height * scale));
  }
  dag.mapPicture = { canvas, width: map.width, height: map.height };
  return canvas;
}

/** @param {Dag} dag */
function drawMap(dag) {
  const map = dag.view && mapFrame(dag.view, dag, dag);
  if (!map) return;
  const { ctx, theme, zoom } = dag;
  ctx.fillStyle = alpha(theme.background, 0.9);
  ctx.strokeStyle = theme.rule;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.roundRect(map.x - 5, map.y - 5, map.width + 10, map.height + 10, 6);
  ctx.fill();
  ctx.stroke();
  ctx.drawImage(mapPicture(dag, map), map.x, map.y, map.width, map.height);
  const x = Math.max(map.x - 3, map.x - (dag.x / zoom) * map.scale);
  const y = Math.max(map.y - 3, map.y - (dag.y / zoom) * map.scale);
  const right = Math.min(
    map.x + map.width + 3,
    map.x + ((dag.width - dag.x) / zoom) * map.scale,
  );
  const bottom = Math.min(
    map.y + map.height + 3,
    map.y + ((dag.height - dag.y) / zoom) * map.scale,
  );
  ctx.strokeStyle = theme.primary;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(x, y, Math.max(2, right - x), Math.max(2, bottom - y));
}
