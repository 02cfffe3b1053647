// The canvas of the timeline.

import { getContext } from "../../../../ui/components/common/elements.js";
import { keepRecent } from "../../../../ui/components/common/numbers.js";
import {
  makeHatch,
  NO_PALETTE,
  readTheme,
  setAlpha,
} from "../../../../ui/components/common/theme.js";
import { drawTimeline } from "./draw.js";

/** @import { Palette, Theme } from "../../../../ui/components/common/theme.js" */
/** @import { TimelineState } from "./state.js" */
/** @import { TimeViewport } from "./viewport.js" */

export class Renderer {
  /** @type {Palette} */
  palette = NO_PALETTE;
  /** @type {Theme} */
  theme;
  /** @type {CanvasPattern | null} */
  hatch = null;
  /** Stroke of the hatch. */
  hatchStroke = "";
  frame = 0;
  painted = 0;
  /** @type {number[]} drawing times of the last frames, in ms */
  frames = [];

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {HTMLElement} host element with the style of the theme
   * @param {TimelineState} state
   * @param {TimeViewport} viewport
   */
  constructor(canvas, host, state, viewport) {
    this.canvas = canvas;
    this.host = host;
    this.state = state;
    this.viewport = viewport;
    this.ctx = getContext(canvas);
    this.theme = readTheme(host, this.palette);
  }

  /** @param {Palette} palette */
  setPalette(palette) {
    this.palette = palette;
    this.theme = readTheme(this.host, palette);
    this.hatch = null;
  }

  /** Apply the size of the viewport to the canvas. */
  resize() {
    const { width, height, dpr } = this.viewport;
    this.hatch = null;
    this.canvas.width = Math.round(width * dpr);
    this.canvas.height = Math.round(height * dpr);
  }

  /** Draw with the next animation frame. */
  paint() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /** Draw immediately. */
  draw() {
    const { ctx, palette, state, viewport } = this;
    if (!viewport.width || !state.layout || !viewport.placed) return;
    const start = performance.now();
    const theme = this.theme = readTheme(this.host, palette);
    const stroke = setAlpha(theme.idle, theme.dark ? 0.34 : 0.3);
    if (!this.hatch || this.hatchStroke !== stroke) {
      this.hatch = makeHatch(ctx, stroke, viewport.dpr);
    }
    this.hatchStroke = stroke;
    drawTimeline({ ctx, palette, theme, hatch: this.hatch, state, viewport }, state.layout);
    const marks = this.canvas.dataset;
    marks.painted = String(++this.painted);
    marks.window = viewport.window.map((at) => Math.round(at)).join(",");
    marks.moving = viewport.target ? "yes" : "no";
    keepRecent(this.frames, performance.now() - start);
  }
}
