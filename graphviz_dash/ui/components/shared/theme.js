// Colours, fonts and text widths of the timeline's drawing.

/** Colours and fonts of the page's theme, read anew for each frame so that a switch just shows. */
function readTheme(host, palette) {
  const style = getComputedStyle(host);
  const read = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  const background = read("--st-background-color", "#ffffff");
  const dark = luminance(background) < 0.2;
  const side = dark ? 1 : 0;
  const text = read("--st-text-color", dark ? "#e6e9ef" : "#1b1f27");
  return {
    dark,
    background,
    text,
    lane: mix(background, text, dark ? 0.065 : 0.045),
    cpuLane: mix(background, text, dark ? 0.035 : 0.022),
    rule: mix(background, text, dark ? 0.15 : 0.12),
    muted: mix(background, text, dark ? 0.64 : 0.66),
    surface: mix(background, text, dark ? 0.07 : 0.03),
    primary: read("--st-primary-color", "#2f5fd0"),
    font: read("--st-font", "system-ui, sans-serif"),
    mono: read("--st-code-font", "ui-monospace, monospace"),
    categories: palette.categories.map((entry) => entry.shade[side]),
    modes: Object.fromEntries(Object.entries(palette.modes).map(([k, v]) => [k, v[side]])),
    idle: palette.idle[side],
  };
}

function parseColour(text) {
  if (text[0] === "#") {
    const hex = text.length < 7 ? text.slice(1).replace(/./g, "$&$&") : text.slice(1);
    return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
  }
  const parts = text.match(/[\d.]+/g) || [0, 0, 0];
  return parts.slice(0, 3).map(Number);
}

const parsed = new Map();
function colour(text) {
  let value = parsed.get(text);
  if (!value) parsed.set(text, (value = parseColour(text)));
  return value;
}

function luminance(text) {
  const [r, g, b] = colour(text).map((v) => {
    const s = v / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function mix(from, to, share) {
  const a = colour(from);
  const b = colour(to);
  return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * share)).join(",")})`;
}

function alpha(text, opacity) {
  return `rgba(${colour(text).join(",")},${opacity})`;
}

/** Black or white, whichever reads better on `fill`. */
const inks = new Map();
function ink(fill) {
  let value = inks.get(fill);
  if (!value) {
    const l = luminance(fill);
    value = 1.05 / (l + 0.05) >= (l + 0.05) / 0.055 ? "#ffffff" : "#10141b";
    inks.set(fill, value);
  }
  return value;
}

function hatch(ctx, stroke, dpr) {
  const size = Math.round(7 * dpr);
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const c = tile.getContext("2d");
  c.strokeStyle = stroke;
  c.lineWidth = dpr;
  c.beginPath();
  for (const shift of [-size, 0, size]) {
    c.moveTo(shift - 1, size + 1);
    c.lineTo(shift + size + 1, -1);
  }
  c.stroke();
  const pattern = ctx.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / dpr));
  return pattern;
}

const widths = new Map();
function textWidth(ctx, text) {
  const key = ctx.font + text;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > 4000) widths.clear();
    widths.set(key, (width = ctx.measureText(text).width));
  }
  return width;
}

/** `text`, cut so that it fits into `room` pixels; empty when not even a few letters do. */
function fitText(ctx, text, room) {
  const width = textWidth(ctx, text);
  if (width <= room) return text;
  let letters = Math.floor((text.length * (room - 8)) / width);
  while (letters >= 5 && textWidth(ctx, text.slice(0, letters) + "…") > room) letters--;
  return letters >= 5 ? text.slice(0, letters) + "…" : "";
}
