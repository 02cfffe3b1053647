// The canvas of the DAG: frames, and the pictures that are kept from one frame to the next.
//
// While the reader zooms or pans a view that is slow to draw, the last frame is moved instead.

import { getContext } from "../common/elements.js";
import { NO_PALETTE, readTheme } from "../common/theme.js";
import { drawMap, drawMapBoxes, drawScene, drawTween } from "./draw.js";
import { makePaths } from "./paths.js";

/** @import { Palette, Theme } from "../common/theme.js" */
/** @import { BlockArrow, Scene } from "./draw.js" */
/** @import { Rect } from "./geometry.js" */
/** @import { Paths } from "./paths.js" */
/** @import { DagState } from "./state.js" */
/** @import { Viewport } from "./viewport.js" */
/** @import { Box } from "./wire.js" */

/** @typedef {{begin: number, ms: number, from: Map<string, Rect>, source: Rect}} Tween */
/** @typedef {{canvas: HTMLCanvasElement, zoom: number, x: number, y: number}} Layer */

/** Time without motion after which the view is drawn sharp again. */
export const REST_MS = 110;

const TWEEN_MS = 130;
const SLOW_FRAME_MS = 18.5;
const OVERVIEW_PIXELS = 1400;

export class Renderer {
  /** @type {Palette} */
  palette = NO_PALETTE;
  /** @type {Theme} */
  theme;
  /** @type {string[]} of the legend, in the page's theme */
  colours = [];
  /** @type {BlockArrow[]} */
  arrows = [];
  /** @type {Paths | null} */
  paths = null;
  /** @type {Tween | null} */
  tween = null;
  /** @type {Layer | null} the last frame, to be moved */
  layer = null;
  /** @type {{canvas: HTMLCanvasElement, scale: number} | null} a small picture of the graph */
  overview = null;
  /** @type {{canvas: HTMLCanvasElement, width: number, height: number} | null} */
  mapPicture = null;
  moving = false;
  slow = false;
  sharp = false;
  frame = 0;
  lastFrame = 0;
  painted = 0;
  restTimer = 0;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {HTMLElement} host whose style has the theme
   * @param {DagState} state
   * @param {Viewport} viewport
   */
  constructor(canvas, host, state, viewport) {
    this.canvas = canvas;
    this.host = host;
    this.state = state;
    this.viewport = viewport;
    this.ctx = getContext(canvas);
    this.theme = readTheme(host, this.palette);
  }

  dispose() {
    clearTimeout(this.restTimer);
  }

  /** @param {Palette} palette */
  setPalette(palette) {
    this.palette = palette;
    this.theme = readTheme(this.host, palette);
  }

  /** Sets the resolution of the canvas to that of the viewport. */
  resize() {
    const { width, height, dpr } = this.viewport;
    this.canvas.width = Math.round(width * dpr);
    this.canvas.height = Math.round(height * dpr);
    this.dropPictures();
  }

  dropPictures() {
    this.overview = this.layer = this.mapPicture = null;
  }

  /** Drops all that depends on the view. */
  dropView() {
    this.dropPictures();
    this.paths = null;
    this.sharp = this.slow = false;
  }

  /** Draws the view in other colours, or with other boxes faded. */
  recolour() {
    const side = this.theme.dark ? "dark" : "light";
    this.colours = (this.state.view?.legend ?? []).map((entry) => entry[side]);
    this.paths = null;
    this.dropPictures();
    this.draw();
  }

  /**
   * Moves boxes from their old places, relative to the one that keeps its place on the screen; new
   * boxes come out of that one.
   * @param {Map<string, Box>} old
   * @param {Box} before
   * @param {Box} after
   */
  startTween(old, before, after) {
    const dx = after.x - before.x;
    const dy = after.y - before.y;
    const from = new Map();
    for (const [id, { x, y, width, height }] of old) {
      if (this.state.byId.has(id)) from.set(id, { x: x + dx, y: y + dy, width, height });
    }
    const source = { x: after.x, y: after.y, width: before.width, height: before.height };
    this.tween = { begin: performance.now(), ms: TWEEN_MS, from, source };
  }

  /** Draws with the next frame of the screen. */
  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      this.detectSlowness(now);
      this.paint();
    });
  }

  /** Draws after a step of zooming or panning; sharp again once the reader rests. */
  drawMotion() {
    if (!this.moving) this.keepFrame();
    this.moving = true;
    clearTimeout(this.restTimer);
    this.restTimer = window.setTimeout(() => {
      this.moving = false;
      this.lastFrame = 0;
      this.draw();
    }, REST_MS);
    this.draw();
  }

  /**
   * A view whose frames follow each other too slowly in motion is slow.
   * @param {number} now
   */
  detectSlowness(now) {
    const gap = this.moving && this.lastFrame ? now - this.lastFrame : 0;
    this.lastFrame = this.moving ? now : 0;
    if (gap < SLOW_FRAME_MS || gap > REST_MS || this.slow) return;
    this.slow = true;
    this.keepFrame();
  }

  /** One frame, at once. */
  paint() {
    const { state, viewport } = this;
    if (!viewport.width || !state.source) return;
    this.paintFrame();
    this.painted += 1;
    const { dataset } = this.canvas;
    dataset.painted = String(this.painted);
    dataset.boxes = state.view ? String(state.view.boxes.length) : "";
    dataset.zoom = viewport.zoom.toFixed(3);
    dataset.selected = state.selected === null ? "" : String(state.selected);
  }

  paintFrame() {
    const { ctx, theme, viewport } = this;
    const { width, height, dpr, zoom, x, y } = viewport;
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.fillStyle = theme.background;
    ctx.fillRect(0, 0, width, height);
    if (!this.state.view) return;
    if (this.tween) this.paintTween(this.tween);
    else if (this.moving && this.slow && this.layer) this.paintMoved(this.layer);
    else {
      this.paintScene(ctx, zoom, dpr * zoom, x * dpr, y * dpr);
      this.sharp = true;
    }
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    this.paintMap();
  }

  /**
   * @param {CanvasRenderingContext2D} ctx
   * @param {number} zoom that texts and lines are sized for
   * @returns {Scene | null}
   */
  makeScene(ctx, zoom) {
    const { state, theme, colours } = this;
    return state.view && { ctx, view: state.view, state, theme, colours, zoom, arrows: [] };
  }

  /**
   * The view at a scale and place, in the pixels of `ctx`.
   * @param {CanvasRenderingContext2D} ctx
   * @param {number} zoom that texts and lines are sized for
   * @param {number} scale
   * @param {number} x
   * @param {number} y
   * @returns {BlockArrow[]}
   */
  drawView(ctx, zoom, scale, x, y) {
    const scene = this.makeScene(ctx, zoom);
    if (!scene) return [];
    this.paths ??= makePaths(scene.view, (box) => this.state.hits.isDim(box));
    drawScene(scene, this.paths, scale, x, y);
    return scene.arrows;
  }

  /**
   * As `drawView`, for the reader, who can click its arrows.
   * @param {Parameters<Renderer["drawView"]>} place
   */
  paintScene(...place) {
    this.arrows = this.drawView(...place);
  }

  /**
   * A frame on the way from the view before to this one.
   * @param {Tween} tween
   */
  paintTween(tween) {
    const { ctx, viewport: { dpr, zoom, x, y } } = this;
    const scene = this.makeScene(ctx, zoom);
    if (!scene) return;
    const done = Math.min(1, (performance.now() - tween.begin) / tween.ms);
    ctx.setTransform(dpr * zoom, 0, 0, dpr * zoom, x * dpr, y * dpr);
    drawTween(scene, tween, 1 - (1 - done) ** 3);
    if (done >= 1) this.tween = null;
    this.draw();
  }

  /**
   * What was drawn last, moved to where it now belongs, above a small picture of the whole.
   * @param {Layer} layer
   */
  paintMoved(layer) {
    const { ctx, overview: whole, viewport } = this;
    const { dpr } = viewport;
    ctx.imageSmoothingQuality = "low";
    if (whole) {
      const scale = (dpr * viewport.zoom) / whole.scale;
      ctx.setTransform(scale, 0, 0, scale, viewport.x * dpr, viewport.y * dpr);
      ctx.drawImage(whole.canvas, 0, 0);
    }
    const scale = viewport.zoom / layer.zoom;
    const x = (viewport.x - layer.x * scale) * dpr;
    const y = (viewport.y - layer.y * scale) * dpr;
    ctx.setTransform(scale, 0, 0, scale, x, y);
    // Its ground covers what lies under it, which it shows better.
    ctx.drawImage(layer.canvas, 0, 0);
  }

  /** Keeps the frame on the canvas, to be moved while a slow view is in motion. */
  keepFrame() {
    const { view } = this.state;
    if (!this.slow || !this.sharp || !view || this.tween) return;
    const { width, height } = this.canvas;
    const { zoom, x, y, dpr } = this.viewport;
    const canvas = this.layer ? this.layer.canvas : document.createElement("canvas");
    if (canvas.width !== width || canvas.height !== height) {
      Object.assign(canvas, { width, height });
    }
    getContext(canvas).drawImage(this.canvas, 0, 0);
    this.layer = { canvas, zoom, x, y };
    if (!this.overview) {
      const scale = Math.min(dpr, OVERVIEW_PIXELS / view.width, OVERVIEW_PIXELS / view.height);
      const picture = document.createElement("canvas");
      picture.width = Math.ceil(view.width * scale);
      picture.height = Math.ceil(view.height * scale);
      this.paintScene(getContext(picture), zoom, scale, 0, 0);
      this.overview = { canvas: picture, scale };
    }
    this.sharp = false;
  }

  paintMap() {
    const { ctx, state, theme, viewport } = this;
    const map = state.view && viewport.placeMap(state.view);
    if (map) drawMap(ctx, theme, viewport, map, this.drawMapPicture(map));
  }

  /**
   * The boxes of the small map as a picture of its own, drawn once for a view and theme.
   * @param {Rect & {scale: number}} map
   */
  drawMapPicture(map) {
    const kept = this.mapPicture;
    if (kept && kept.width === map.width && kept.height === map.height) return kept.canvas;
    const { dpr } = this.viewport;
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(map.width * dpr);
    canvas.height = Math.ceil(map.height * dpr);
    const boxes = this.state.view?.boxes ?? [];
    drawMapBoxes(getContext(canvas), boxes, this.colours, map.scale * dpr);
    this.mapPicture = { canvas, width: map.width, height: map.height };
    return canvas;
  }
}
