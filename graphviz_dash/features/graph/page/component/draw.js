// Drawing of the DAG: boxes, links, the overview map and the frames of a transition.

import { fitText, setAlpha } from "../../../../ui/components/common/theme.js";
import { traceLink } from "./paths.js";
import { computeTextSize, drawHead, drawText, getGroundColour, NOTE_ZOOM, SIZES } from "./text.js";

/** @import { Theme } from "../../../../ui/components/common/theme.js" */
/** @import { Camera, Rect, Size } from "./geometry.js" */
/** @import { Paths } from "./paths.js" */
/** @import { Tween } from "./renderer.js" */
/** @import { DagState } from "./state.js" */
/** @import { View } from "./view.js" */
/** @import { Box, Link } from "./wire.js" */

/**
 * An arrow to the previous or next block of a repeat.
 * @typedef {Rect & {box: Box, by: number}} BlockArrow
 */

/**
 * The input of one drawing.
 * @typedef {object} Scene
 * @property {CanvasRenderingContext2D} ctx
 * @property {View} view
 * @property {DagState} state
 * @property {Theme} theme
 * @property {string[]} colours of the legend
 * @property {number} zoom for the sizes of texts and lines
 * @property {BlockArrow[]} arrows filled by the drawing
 */

const LABEL_ZOOM = 0.26;

/**
 * Draw the view at a scale and offset in the pixels of its context.
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
  const isVisible = (box) =>
    box.x < right && box.x + box.width > left && box.y < bottom && box.y + box.height > top;
  fillContainers(scene, paths);
  drawLinks(scene, paths);
  fillBoxes(scene, paths);
  drawOutlines(scene, isVisible);
  if (zoom < LABEL_ZOOM) return;
  for (const box of view.boxes) {
    if (!isVisible(box)) continue;
    ctx.globalAlpha = scene.state.hits.isDim(box) ? 0.4 : 1;
    if (box.open) drawHead(scene, box);
    else drawText(scene, box);
  }
  ctx.globalAlpha = 1;
}

/**
 * Scale a line width so that it stays `width` pixels on the screen when zoomed out.
 * @param {Scene} scene
 * @param {number} width
 * @param {number} [minZoom] below this zoom lines get thinner
 */
function scaleWidth({ zoom }, width, minZoom = 0.35) {
  return width / Math.min(1, Math.max(zoom, minZoom));
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
  // The graph inside a conditional node may not run. Its outline is dashed, as in the driver's
  // drawings.
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
  for (const group of paths.boxes.values()) {
    const fill = colours[group.colour];
    ctx.globalAlpha = group.dim ? 0.4 : 1;
    ctx.fillStyle = theme.background;
    ctx.fill(group.stack);
    ctx.lineWidth = 1;
    ctx.strokeStyle = setAlpha(fill, 0.5);
    ctx.stroke(group.stack);
    ctx.fill(group.box);
    // Disabled nodes have no fill.
    if (!group.disabled) {
      ctx.fillStyle = setAlpha(fill, theme.dark ? 0.2 : 0.13);
      ctx.fill(group.box);
    }
    ctx.lineWidth = scaleWidth(scene, 1);
    ctx.strokeStyle = setAlpha(fill, 0.75);
    ctx.setLineDash(group.disabled ? [5, 4] : []);
    ctx.stroke(group.box);
    ctx.setLineDash([]);
    // A bar in the full colour at the left: the fill is too faint to tell colours apart.
    ctx.fillStyle = fill;
    ctx.fill(group.bar);
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
 * Outline boxes that are selected, found, hovered, or different from the other blocks.
 * @param {Scene} scene
 * @param {(box: Rect) => boolean} isVisible
 */
function drawOutlines(scene, isVisible) {
  const { ctx, state, theme, view } = scene;
  for (const box of view.boxes) {
    if (!isVisible(box)) continue;
    const selected = box.node >= 0 && box.node === state.selected;
    const hit = !box.open && state.hits.countIn(box) > 0;
    const hovered = state.hover === box || state.focus === box.id;
    const differs = box.node >= 0 && state.differing.has(box.node);
    if (!selected && !hit && !hovered && !differs) continue;
    ctx.beginPath();
    ctx.roundRect(box.x, box.y, box.width, box.height, box.open ? 9 : 7);
    ctx.lineWidth = scaleWidth(
      scene,
      selected ? 2.6 : hit || box.id === state.focus || differs ? 2 : 1.4,
    );
    ctx.strokeStyle = selected ? theme.text : hit || hovered ? theme.primary : theme.critical;
    ctx.setLineDash(differs && !selected ? [2, 3] : []);
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
  for (const group of paths.links.values()) {
    ctx.setLineDash(group.dash);
    ctx.lineWidth = scaleWidth(scene, group.width, 0.4);
    ctx.strokeStyle = ctx.fillStyle = group.critical ? theme.critical : theme.muted;
    ctx.globalAlpha = group.critical ? 1 : 0.62;
    ctx.stroke(group.line);
    ctx.setLineDash([]);
    ctx.fill(group.heads);
  }
  ctx.globalAlpha = 1;
  const current = state.currentId;
  for (const link of view.links) {
    const marked = link === state.hoverLink || link === state.chosenLink;
    if (marked || (current && (link.source === current || link.target === current))) {
      drawMarkedLink(scene, link, marked);
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
 * @param {boolean} marked hovered or chosen
 */
function drawMarkedLink(scene, link, marked) {
  const { ctx, theme } = scene;
  const line = new Path2D();
  const heads = new Path2D();
  traceLink(line, heads, link.points);
  ctx.lineWidth = scaleWidth(scene, marked ? 3 : link.critical ? 2.6 : 2, 0.4);
  ctx.strokeStyle = ctx.fillStyle = link.critical && !marked ? theme.critical : theme.primary;
  ctx.setLineDash(link.dashed ? [5, 4] : []);
  ctx.stroke(line);
  ctx.setLineDash([]);
  ctx.fill(heads);
}

/**
 * Draw a frame of the transition to a new view: boxes move, new ones grow out of their group.
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
 * Draw the boxes of the overview map.
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
 * Draw the overview map with a frame around the visible part of the graph.
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
