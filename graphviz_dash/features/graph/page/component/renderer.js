// The canvas of the DAG: frames, and pictures cached from one frame to the next.
//
// If a view is slow to draw, zooming and panning move a copy of the last frame instead.

import { getContext } from "../../../../ui/components/common/elements.js";
import { NO_PALETTE, readTheme } from "../../../../ui/components/common/theme.js";
import { drawMap, drawMapBoxes, drawScene, drawTween } from "./draw.js";
import { makePaths } from "./paths.js";

/** @import { Palette, Theme } from "../../../../ui/components/common/theme.js" */
/** @import { BlockArrow, Scene } from "./draw.js" */
/** @import { Rect } from "./geometry.js" */
/** @import { Paths } from "./paths.js" */
/** @import { DagState } from "./state.js" */
/** @import { Viewport } from "./viewport.js" */
/** @import { Box } from "./wire.js" */

/** @typedef {{begin: number, ms: number, from: Map<string, Rect>, source: Rect}} Tween */
/** @typedef {{canvas: HTMLCanvasElement, zoom: number, x: number, y: number}} Layer */

/** Time without motion after which a moved frame is drawn again, sharp. */
export const REST_MS = 110;

const TWEEN_MS = 130;
const SLOW_FRAME_MS = 18.5;
const OVERVIEW_PIXELS = 1400;

export class Renderer {
  /** @type {Palette} */
  palette = NO_PALETTE;
  /** @type {Theme} */
  theme;
  /** @type {string[]} colours of the legend in the current theme */
  colours = [];
  /** @type {BlockArrow[]} arrows that react to clicks */
  arrows = [];
  /** @type {Paths | null} */
  paths = null;
  /** @type {Tween | null} */
  tween = null;
  /** @type {Layer | null} copy of the last frame, to move */
  layer = null;
  /** @type {{canvas: HTMLCanvasElement, scale: number} | null} small picture of the entire graph */
  overview = null;
  /** @type {{canvas: HTMLCanvasElement, width: number, height: number} | null} */
  mapPicture = null;
  moving = false;
  /** Whether frames take too long to follow the pointer. */
  slow = false;
  /** Whether the canvas shows a complete drawing. */
  sharp = false;
  frame = 0;
  lastFrame = 0;
  painted = 0;
  restTimer = 0;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {HTMLElement} host element with the style of the theme
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

  /** Apply the size of the viewport to the canvas. */
  resize() {
    const { width, height, dpr } = this.viewport;
    this.canvas.width = Math.round(width * dpr);
    this.canvas.height = Math.round(height * dpr);
    this.dropPictures();
  }

  dropPictures() {
    this.overview = this.layer = this.mapPicture = null;
  }

  /** Drop everything cached for the view. */
  dropView() {
    this.dropPictures();
    this.paths = null;
    this.sharp = this.slow = false;
  }

  /** Draw again with other colours or other faded boxes. */
  recolour() {
    const side = this.theme.dark ? "dark" : "light";
    this.colours = (this.state.view?.legend ?? []).map((entry) => entry[side]);
    this.paths = null;
    this.dropPictures();
    this.draw();
  }

  /**
   * Start the transition from the previous view. Boxes move relative to the one that keeps its
   * place on the screen; new boxes grow out of it.
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

  /** Draw with the next animation frame. */
  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      this.detectSlowness(now);
      this.paint();
    });
  }

  /** Draw after a step of zooming or panning, and sharp again after the motion. */
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
   * Detect from the time between frames in motion that the view is slow to draw.
   * @param {number} now
   */
  detectSlowness(now) {
    const gap = this.moving && this.lastFrame ? now - this.lastFrame : 0;
    this.lastFrame = this.moving ? now : 0;
    if (gap < SLOW_FRAME_MS || gap > REST_MS || this.slow) return;
    this.slow = true;
    this.keepFrame();
  }

  /** Draw a frame immediately. */
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
   * @param {number} zoom for the sizes of texts and lines
   * @returns {Scene | null}
   */
  makeScene(ctx, zoom) {
    const { state, theme, colours } = this;
    return state.view && { ctx, view: state.view, state, theme, colours, zoom, arrows: [] };
  }

  /**
   * Draw the view at a scale and offset in the pixels of `ctx`.
   * @param {CanvasRenderingContext2D} ctx
   * @param {number} zoom for the sizes of texts and lines
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
   * Draw the view, and make its arrows react to clicks.
   * @param {Parameters<Renderer["drawView"]>} place
   */
  paintScene(...place) {
    this.arrows = this.drawView(...place);
  }

  /**
   * Draw a frame of the transition.
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
   * Draw the copy of the last frame at its new place, above the small picture of the graph.
   * @param {Layer} layer
   */
  paintMoved(layer) {
    const { ctx, overview, viewport } = this;
    const { dpr } = viewport;
    ctx.imageSmoothingQuality = "low";
    if (overview) {
      const scale = (dpr * viewport.zoom) / overview.scale;
      ctx.setTransform(scale, 0, 0, scale, viewport.x * dpr, viewport.y * dpr);
      ctx.drawImage(overview.canvas, 0, 0);
    }
    const scale = viewport.zoom / layer.zoom;
    const x = (viewport.x - layer.x * scale) * dpr;
    const y = (viewport.y - layer.y * scale) * dpr;
    ctx.setTransform(scale, 0, 0, scale, x, y);
    // Its opaque background hides the coarser picture below.
    ctx.drawImage(layer.canvas, 0, 0);
  }

  /** Copy the frame on the canvas, to move it while a slow view is in motion. */
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
   * Draw the boxes of the overview map as a picture, once per view and theme.
   * @param {Rect & {scale: number}} map
   */
  drawMapPicture(map) {
    const cached = this.mapPicture;
    if (cached && cached.width === map.width && cached.height === map.height) return cached.canvas;
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
