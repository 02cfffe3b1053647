// Drawing of the DAG: boxes, links, the small map, and the frames in between.
//
// Text is drawn where it can be read.

import { fitText, setAlpha } from "../common/theme.js";
import { traceLink } from "./paths.js";
import { computeTextSize, drawHead, drawText, getGroundColour, NOTE_ZOOM, SIZES } from "./text.js";

/** @import { Theme } from "../common/theme.js" */
/** @import { Camera, Rect, Size } from "./geometry.js" */
/** @import { Paths } from "./paths.js" */
/** @import { Tween } from "./renderer.js" */
/** @import { DagState } from "./state.js" */
/** @import { View } from "./view.js" */
/** @import { Box, Link } from "./wire.js" */

/**
 * An arrow to the block before or after the one that a repeat shows.
 * @typedef {Rect & {box: Box, by: number}} BlockArrow
 */

/**
 * What is drawn, and with which colours and context.
 * @typedef {object} Scene
 * @property {CanvasRenderingContext2D} ctx
 * @property {View} view
 * @property {DagState} state
 * @property {Theme} theme
 * @property {string[]} colours of the legend
 * @property {number} zoom that texts and lines are sized for
 * @property {BlockArrow[]} arrows that were drawn
 */

const LABEL_ZOOM = 0.26;

/**
 * The view at a scale and place, in the pixels of its context.
 * @param {Scene} scene
 * @param {Paths} paths
 * @param {number} scale
 * @param {number} x
 * @param {number} y
 */
export function drawScene(scene, paths, scale, x, y) {
  const { ctx, view, zoom } = scene;
  ctx.setTransform(scale, 0, 0, scale, x, y);
  const left = -x / scale;
  const top = -y / scale;
  const right = left + ctx.canvas.width / scale;
  const bottom = top + ctx.canvas.height / scale;
  /** @type {(box: Rect) => boolean} */
  const seen = (box) =>
    box.x < right && box.x + box.width > left && box.y < bottom && box.y + box.height > top;
  fillContainers(scene, paths);
  drawLinks(scene, paths);
  fillBoxes(scene, paths);
  drawOutlines(scene, seen);
  if (zoom < LABEL_ZOOM) return;
  for (const box of view.boxes) {
    if (!seen(box)) continue;
    ctx.globalAlpha = scene.state.hits.isDim(box) ? 0.4 : 1;
    if (box.open) drawHead(scene, box);
    else drawText(scene, box);
  }
  ctx.globalAlpha = 1;
}

/**
 * A line's width in the graph that is `width` pixels on the screen, as far as the graph is zoomed
 * out.
 * @param {Scene} scene
 * @param {number} width
 * @param {number} [least] zoom from which on lines get thinner too
 */
function scaleWidth({ zoom }, width, least = 0.35) {
  return width / Math.min(1, Math.max(zoom, least));
}

/**
 * @param {Scene} scene
 * @param {Paths} paths
 */
function fillContainers(scene, paths) {
  const { ctx, theme } = scene;
  ctx.fillStyle = getGroundColour(theme);
  ctx.fill(paths.containers);
  ctx.fill(paths.bodies);
  ctx.lineWidth = scaleWidth(scene, 1);
  ctx.strokeStyle = theme.rule;
  ctx.stroke(paths.containers);
  // A graph inside a node may run or not: its outline is broken, as in the driver's own drawings.
  ctx.strokeStyle = setAlpha(theme.text, 0.38);
  ctx.setLineDash([6, 4]);
  ctx.stroke(paths.bodies);
  ctx.setLineDash([]);
}

/**
 * @param {Scene} scene
 * @param {Paths} paths
 */
function fillBoxes(scene, paths) {
  const { ctx, theme, colours } = scene;
  for (const alike of paths.boxes.values()) {
    const fill = colours[alike.colour];
    ctx.globalAlpha = alike.dim ? 0.4 : 1;
    ctx.fillStyle = theme.background;
    ctx.fill(alike.stack);
    ctx.lineWidth = 1;
    ctx.strokeStyle = setAlpha(fill, 0.5);
    ctx.stroke(alike.stack);
    ctx.fill(alike.box);
    // What does not run has no body of its own colour.
    if (!alike.disabled) {
      ctx.fillStyle = setAlpha(fill, theme.dark ? 0.2 : 0.13);
      ctx.fill(alike.box);
    }
    ctx.lineWidth = scaleWidth(scene, 1);
    ctx.strokeStyle = setAlpha(fill, 0.75);
    ctx.setLineDash(alike.disabled ? [5, 4] : []);
    ctx.stroke(alike.box);
    ctx.setLineDash([]);
    // A bar at the left in the full colour: what tells the colour apart when the tint is faint.
    ctx.fillStyle = fill;
    ctx.fill(alike.bar);
  }
  for (const { colour, dim, path } of paths.strips.values()) {
    ctx.globalAlpha = dim ? 0.4 : 1;
    ctx.fillStyle = colours[colour];
    ctx.fill(path);
  }
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.critical;
  ctx.fill(paths.critical);
}

/**
 * The outlines of what is chosen, a hit, pointed at, or unlike the other blocks of its repeat.
 * @param {Scene} scene
 * @param {(box: Rect) => boolean} seen
 */
function drawOutlines(scene, seen) {
  const { ctx, state, theme, view } = scene;
  for (const box of view.boxes) {
    if (!seen(box)) continue;
    const chosen = box.node >= 0 && box.node === state.selected;
    const hit = !box.open && state.hits.countIn(box) > 0;
    const pointed = state.hover === box || state.focus === box.id;
    const unlike = box.node >= 0 && state.differing.has(box.node);
    if (!chosen && !hit && !pointed && !unlike) continue;
    ctx.beginPath();
    ctx.roundRect(box.x, box.y, box.width, box.height, box.open ? 9 : 7);
    ctx.lineWidth = scaleWidth(
      scene,
      chosen ? 2.6 : hit || box.id === state.focus || unlike ? 2 : 1.4,
    );
    ctx.strokeStyle = chosen ? theme.text : hit || pointed ? theme.primary : theme.critical;
    ctx.setLineDash(unlike && !chosen ? [2, 3] : []);
    ctx.stroke();
    ctx.setLineDash([]);
  }
}

/**
 * @param {Scene} scene
 * @param {Paths} paths
 */
function drawLinks(scene, paths) {
  const { ctx, state, theme, view, zoom } = scene;
  for (const alike of paths.links.values()) {
    ctx.setLineDash(alike.dash);
    ctx.lineWidth = scaleWidth(scene, alike.width, 0.4);
    ctx.strokeStyle = ctx.fillStyle = alike.critical ? theme.critical : theme.muted;
    ctx.globalAlpha = alike.critical ? 1 : 0.62;
    ctx.stroke(alike.line);
    ctx.setLineDash([]);
    ctx.fill(alike.heads);
  }
  ctx.globalAlpha = 1;
  const near = state.currentId;
  for (const link of view.links) {
    const pointed = link === state.hoverLink || link === state.chosenLink;
    if (pointed || (near && (link.source === near || link.target === near))) {
      drawMarkedLink(scene, link, pointed);
    }
    if (link.text && zoom >= NOTE_ZOOM) {
      ctx.font = `${computeTextSize(zoom, SIZES.link)}px ${theme.font}`;
      ctx.fillStyle = theme.muted;
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      const [x, y] = link.points.slice(-2);
      ctx.fillText(link.text, x + 5, y - 7);
    }
  }
}

/**
 * @param {Scene} scene
 * @param {Link} link
 * @param {boolean} pointed
 */
function drawMarkedLink(scene, link, pointed) {
  const { ctx, theme } = scene;
  const line = new Path2D();
  const heads = new Path2D();
  traceLink(line, heads, link.points);
  ctx.lineWidth = scaleWidth(scene, pointed ? 3 : link.critical ? 2.6 : 2, 0.4);
  ctx.strokeStyle = ctx.fillStyle = link.critical && !pointed ? theme.critical : theme.primary;
  ctx.setLineDash(link.dashed ? [5, 4] : []);
  ctx.stroke(line);
  ctx.setLineDash([]);
  ctx.fill(heads);
}

/**
 * A frame on the way from the view before to this one: boxes move, new ones come out of theirs.
 * @param {Scene} scene
 * @param {Tween} tween
 * @param {number} share of the way, 0 to 1
 */
export function drawTween(scene, tween, share) {
  const { ctx, theme, view, zoom, colours } = scene;
  ctx.font = `500 ${computeTextSize(zoom, SIZES.name)}px ${theme.font}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const box of view.boxes) {
    const rect = interpolate(tween.from.get(box.id) ?? tween.source, box, share);
    ctx.beginPath();
    ctx.rect(rect.x, rect.y, rect.width, rect.height);
    const fill = colours[box.colour];
    if (!box.open) {
      ctx.fillStyle = theme.background;
      ctx.fill();
    }
    ctx.fillStyle = box.open ? getGroundColour(theme) : setAlpha(fill, theme.dark ? 0.2 : 0.13);
    ctx.fill();
    ctx.lineWidth = scaleWidth(scene, 1);
    ctx.strokeStyle = box.open ? theme.rule : setAlpha(fill, 0.75);
    ctx.stroke();
    if (zoom < LABEL_ZOOM || rect.width < 60) continue;
    ctx.fillStyle = theme.text;
    const inset = box.node < 0 ? 24 : 11;
    ctx.fillText(fitText(ctx, box.label, box.width - 80), rect.x + inset, rect.y + 13);
  }
}

/**
 * @param {Rect} from
 * @param {Rect} to
 * @param {number} share 0 to 1
 * @returns {Rect}
 */
function interpolate(from, to, share) {
  return {
    x: from.x + (to.x - from.x) * share,
    y: from.y + (to.y - from.y) * share,
    width: from.width + (to.width - from.width) * share,
    height: from.height + (to.height - from.height) * share,
  };
}

/**
 * The boxes of the small map.
 * @param {CanvasRenderingContext2D} ctx
 * @param {readonly Box[]} boxes
 * @param {readonly string[]} colours
 * @param {number} scale
 */
export function drawMapBoxes(ctx, boxes, colours, scale) {
  for (const box of boxes) {
    if (box.open) continue;
    ctx.fillStyle = setAlpha(colours[box.colour], 0.75);
    const width = Math.max(1, box.width * scale);
    ctx.fillRect(box.x * scale, box.y * scale, width, Math.max(1, box.height * scale));
  }
}

/**
 * The small map, and on it the part of the graph that is in view.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Theme} theme
 * @param {Camera & Size} viewport
 * @param {Rect & {scale: number}} map
 * @param {HTMLCanvasElement} picture
 */
export function drawMap(ctx, theme, viewport, map, picture) {
  const { zoom } = viewport;
  ctx.fillStyle = setAlpha(theme.background, 0.9);
  ctx.strokeStyle = theme.rule;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.roundRect(map.x - 5, map.y - 5, map.width + 10, map.height + 10, 6);
  ctx.fill();
  ctx.stroke();
  ctx.drawImage(picture, map.x, map.y, map.width, map.height);
  const x = Math.max(map.x - 3, map.x - (viewport.x / zoom) * map.scale);
  const y = Math.max(map.y - 3, map.y - (viewport.y / zoom) * map.scale);
  const right = Math.min(
    map.x + map.width + 3,
    map.x + ((viewport.width - viewport.x) / zoom) * map.scale,
  );
  const bottom = Math.min(
    map.y + map.height + 3,
    map.y + ((viewport.height - viewport.y) / zoom) * map.scale,
  );
  ctx.strokeStyle = theme.primary;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(x, y, Math.max(2, right - x), Math.max(2, bottom - y));
}
