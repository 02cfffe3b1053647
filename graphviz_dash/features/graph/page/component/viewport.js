// The visible part of the graph: a camera and the size of the screen. No drawing.

import { CanvasSize } from "../../../../ui/components/common/canvas.js";
import { clamp } from "../../../../ui/components/common/numbers.js";
import {
  fitCamera,
  HEAD_HEIGHT,
  isInView,
  openCamera,
  placeMap,
  READABLE_ZOOM,
  recentreCamera,
  zoomCamera,
} from "./geometry.js";

/** @import { Camera, Rect, Size } from "./geometry.js" */
/** @import { Box } from "./wire.js" */

/** Zoom for revealing a box that is not readable. */
const REVEAL_ZOOM = 0.8;

/** Distance of the clickable point of an unfolded group from its left edge. */
const HEAD_INSET = 40;

export class Viewport extends CanvasSize {
  zoom = 1;
  x = 0;
  y = 0;
  /** @type {Camera | null} the camera that showed the entire graph */
  home = null;

  /** Width over height, within the range that the server accepts. */
  get aspectRatio() {
    return clamp((this.width || 16) / (this.height || 10), 0.1, 20);
  }

  /** Whether the camera has not moved since it showed the entire graph. */
  get isHome() {
    const { home } = this;
    return home !== null && home.zoom === this.zoom && home.x === this.x && home.y === this.y;
  }

  /**
   * Set the size of the screen. A reader who saw the entire graph still sees it; otherwise the
   * middle of the screen stays in the middle.
   * @param {{width: number, height: number, dpr: number}} size
   * @param {Size | null} graph
   * @returns {boolean} whether the entire graph is shown
   */
  resize({ width, height, dpr }, graph) {
    const before = { width: this.width, height: this.height };
    Object.assign(this, { width, height, dpr });
    const showsAll = !before.width || this.isHome;
    if (showsAll) this.showReadable(graph);
    else Object.assign(this, recentreCamera(this, before, this));
    return showsAll;
  }

  /**
   * Show the entire graph, or as much of its beginning as is readable.
   * @param {Size | null} graph
   */
  showReadable(graph) {
    if (graph && this.width) this.setHome(openCamera(graph, this));
  }

  /**
   * Show the entire graph, however small.
   * @param {Size | null} graph
   */
  fit(graph) {
    if (graph && this.width) this.setHome(fitCamera(graph, this));
  }

  /** @param {Camera} camera */
  setHome(camera) {
    this.home = camera;
    Object.assign(this, camera);
  }

  /**
   * @param {Size} graph
   * @param {number} factor
   * @param {number} [x] of the screen; this point keeps its place
   * @param {number} [y]
   */
  zoomBy(graph, factor, x = this.width / 2, y = this.height / 2) {
    Object.assign(this, zoomCamera(this, factor, x, y, graph, this));
  }

  /**
   * @param {number} dx
   * @param {number} dy
   */
  panBy(dx, dy) {
    this.x += dx;
    this.y += dy;
  }

  /**
   * Move a point of the graph to the middle of the screen.
   * @param {number} x
   * @param {number} y
   */
  center(x, y) {
    this.x = this.width / 2 - x * this.zoom;
    this.y = this.height / 2 - y * this.zoom;
  }

  /**
   * Move the point of the graph at a point of the overview map to the middle of the screen.
   * @param {Size} graph
   * @param {number} x of the screen
   * @param {number} y
   * @returns {boolean} whether there is a map
   */
  centerMapPoint(graph, x, y) {
    const map = this.placeMap(graph);
    if (map) this.center((x - map.x) / map.scale, (y - map.y) / map.scale);
    return map !== null;
  }

  /**
   * Make a box visible and readable with the smallest possible move.
   * @param {Rect} box
   */
  reveal(box) {
    if (this.zoom < READABLE_ZOOM) this.zoom = REVEAL_ZOOM;
    if (!isInView(box, this, this)) this.center(box.x + box.width / 2, box.y + box.height / 2);
  }

  /**
   * Keep a box in its place on the screen when another layout moves it.
   * @param {Rect} before
   * @param {Rect} after
   */
  holdBox(before, after) {
    this.x += (before.x - after.x) * this.zoom;
    this.y += (before.y - after.y) * this.zoom;
  }

  /**
   * Convert a point of the screen to a point of the graph.
   * @param {number} x
   * @param {number} y
   * @returns {[x: number, y: number]}
   */
  toGraphPoint(x, y) {
    return [(x - this.x) / this.zoom, (y - this.y) / this.zoom];
  }

  /**
   * Get the point of the screen where a click hits a box.
   * @param {Box} box
   */
  getHandle(box) {
    const right = box.open ? HEAD_INSET : box.width / 2;
    const down = box.open ? HEAD_HEIGHT / 2 : box.height / 2;
    return { x: this.x + (box.x + right) * this.zoom, y: this.y + (box.y + down) * this.zoom };
  }

  /**
   * Place the overview map; null if the entire graph is visible.
   * @param {Size} graph
   */
  placeMap(graph) {
    return placeMap(graph, this, this);
  }
}
