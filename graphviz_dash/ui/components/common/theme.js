// Colours, fonts and text widths for drawing on a canvas.

import { getContext } from "./elements.js";

/** @typedef {import("./wire.js").Palette} Palette */

/**
 * The palette before any data from Python.
 * @type {Palette}
 */
export const NO_PALETTE = { categories: [], idle: ["#888888", "#888888"] };

/** @typedef {ReturnType<typeof readTheme>} Theme */

/**
 * Read colours and fonts from the theme of the page. Called per frame, so that a change of the theme
 * shows immediately.
 * @param {HTMLElement} host
 * @param {Palette} palette
 */
export function readTheme(host, palette) {
  const style = getComputedStyle(host);
  /** @type {(name: string, fallback: string) => string} */
  const read = (name, fallback) => style.getPropertyValue(name).trim() || fallback;
  const background = read("--st-background-color", "#ffffff");
  const dark = computeLuminance(background) < 0.2;
  const side = dark ? 1 : 0;
  const text = read("--st-text-color", dark ? "#e6e9ef" : "#1b1f27");
  return {
    dark,
    background,
    text,
    lane: mixColours(background, text, dark ? 0.065 : 0.045),
    cpuLane: mixColours(background, text, dark ? 0.035 : 0.022),
    rule: mixColours(background, text, dark ? 0.15 : 0.12),
    muted: mixColours(background, text, dark ? 0.64 : 0.66),
    surface: mixColours(background, text, dark ? 0.07 : 0.03),
    primary: read("--st-primary-color", "#2f5fd0"),
    font: read("--st-font", "system-ui, sans-serif"),
    mono: read("--st-code-font", "ui-monospace, monospace"),
    categories: palette.categories.map((entry) => entry.shade[side]),
    run: (palette.run ?? palette.idle)[side],
    light: (palette.light ?? palette.idle)[side],
    saved: (palette.saved ?? palette.idle)[side],
    idle: palette.idle[side],
    critical: (palette.critical ?? palette.idle)[side],
  };
}

/**
 * Parse "#rgb", "#rrggbb" or "rgb(r, g, b)" to red, green and blue, 0 to 255.
 * @param {string} text
 * @returns {number[]}
 */
export function parseColour(text) {
  if (text[0] === "#") {
    const hex = text.length < 7 ? text.slice(1).replace(/./g, "$&$&") : text.slice(1);
    return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
  }
  return (text.match(/[\d.]+/g) ?? ["0", "0", "0"]).slice(0, 3).map(Number);
}

/** @type {Map<string, number[]>} */
const parsedColours = new Map();

/** @param {string} text */
function getChannels(text) {
  let value = parsedColours.get(text);
  if (!value) parsedColours.set(text, value = parseColour(text));
  return value;
}

/**
 * Compute the relative luminance defined by WCAG, 0 to 1.
 * @param {string} colour
 */
export function computeLuminance(colour) {
  const [red, green, blue] = getChannels(colour).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/**
 * Mix two colours.
 * @param {string} from
 * @param {string} to
 * @param {number} share 0 to 1
 */
export function mixColours(from, to, share) {
  const end = getChannels(to);
  const mixed = getChannels(from).map((value, i) => Math.round(value + (end[i] - value) * share));
  return `rgb(${mixed.join(",")})`;
}

/**
 * @param {string} colour
 * @param {number} opacity 0 to 1
 */
export function setAlpha(colour, opacity) {
  return `rgba(${getChannels(colour).join(",")},${opacity})`;
}

/** @type {Map<string, string>} */
const inks = new Map();

/**
 * Choose black or white text for a background, by contrast.
 * @param {string} fill
 */
export function chooseInk(fill) {
  let value = inks.get(fill);
  if (!value) {
    const light = computeLuminance(fill);
    value = 1.05 / (light + 0.05) >= (light + 0.05) / 0.055 ? "#ffffff" : "#10141b";
    inks.set(fill, value);
  }
  return value;
}

/**
 * Make a pattern of slanted lines, independent of the resolution of the screen.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} stroke
 * @param {number} dpr
 */
export function makeHatch(ctx, stroke, dpr) {
  const size = Math.round(7 * dpr);
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = getContext(tile);
  pen.strokeStyle = stroke;
  pen.lineWidth = dpr;
  pen.beginPath();
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift - 1, size + 1);
    pen.lineTo(shift + size + 1, -1);
  }
  pen.stroke();
  const pattern = /** @type {CanvasPattern} */ (ctx.createPattern(tile, "repeat"));
  pattern.setTransform(new DOMMatrix().scale(1 / dpr));
  return pattern;
}

/** @type {Map<string, number>} */
const textWidths = new Map();

/**
 * Measure the width of a text in the font of the context, in CSS pixels.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} text
 */
export function measureText(ctx, text) {
  const key = ctx.font + text;
  let width = textWidths.get(key);
  if (width === undefined) {
    if (textWidths.size > 4000) textWidths.clear();
    textWidths.set(key, width = ctx.measureText(text).width);
  }
  return width;
}

/**
 * Shorten a text to `room` pixels; empty if fewer than five letters fit.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} text
 * @param {number} room
 */
export function fitText(ctx, text, room) {
  const width = measureText(ctx, text);
  if (width <= room) return text;
  let letters = Math.floor((text.length * (room - 8)) / width);
  while (letters >= 5 && measureText(ctx, text.slice(0, letters) + "…") > room) letters--;
  return letters >= 5 ? text.slice(0, letters) + "…" : "";
}
