// Spans of time, in ns since the runs' origins: arithmetic of moving and zooming.

import { clamp } from "../common/numbers.js";

/** @typedef {[begin: number, end: number]} Span */

/** The shortest window, in ns. */
export const MIN_SPAN = 200;

const MIN_SLICE_PX = 3;

/**
 * `span` no shorter than can be told, no longer than twice `limits`, and not far outside of them.
 * @param {Span} span
 * @param {Span} limits
 * @returns {Span}
 */
export function boundSpan([begin, end], [low, high]) {
  const longest = high - low;
  const length = Math.min(Math.max(end - begin, MIN_SPAN), 2 * longest);
  const middle = (begin + end) / 2;
  const from = Math.min(
    Math.max(middle - length / 2, low - longest / 2),
    high + longest / 2 - length,
  );
  return [from, from + length];
}

/**
 * `span` shorter by `factor`; the instant `at` stays where it is on the screen.
 * @param {Span} span
 * @param {number} at
 * @param {number} factor
 * @returns {Span}
 */
export function zoomSpan([begin, end], at, factor) {
  return [at - (at - begin) / factor, at + (end - at) / factor];
}

/**
 * `span` later by a share of its length.
 * @param {Span} span
 * @param {number} share
 * @returns {Span}
 */
export function shiftSpan([begin, end], share) {
  const by = (end - begin) * share;
  return [begin + by, end + by];
}

/**
 * On the way from one span to another.
 * @param {Span} from
 * @param {Span} to
 * @param {number} share 0 to 1
 * @returns {Span}
 */
export function interpolateSpan(from, to, share) {
  return [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share];
}

/**
 * The window that shows a slice at the present zoom, or closer or further where it would be too
 * thin or too wide; null where `span` shows it well on `pixels`.
 * @param {Span} span
 * @param {{begin: number, dur: number}} slice
 * @param {number} pixels
 * @returns {Span | null}
 */
export function revealSlice([begin, end], slice, pixels) {
  const length = end - begin;
  const inside = slice.begin >= begin && slice.begin + slice.dur <= end;
  if (inside && (slice.dur / length) * pixels >= MIN_SLICE_PX) return null;
  const wanted = clamp(length, slice.dur * 3, Math.max(slice.dur * 60, 2000));
  const middle = slice.begin + slice.dur / 2;
  return [middle - wanted / 2, middle + wanted / 2];
}

/**
 * Distance between ticks in ns: 1, 2 or 5 times a power of ten, at least `least` ns.
 * @param {number} least
 */
export function chooseTickStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  for (const factor of [1, 2, 5]) if (factor * power >= least) return factor * power;
  return 10 * power;
}

/** Units of an axis by the least length of a window that counts in them, in ns. */
const UNITS = [
  { from: 5e9, name: "s", ns: 1e9 },
  { from: 5e6, name: "ms", ns: 1e6 },
  { from: 0, name: "µs", ns: 1e3 },
];

/**
 * The unit that the axis of a window counts in.
 * @param {Span} span
 */
export function chooseAxisUnit([begin, end]) {
  return UNITS.find(({ from }) => end - begin >= from) ?? UNITS[UNITS.length - 1];
}

/**
 * The ticks of an axis: their distance, and where they are.
 * @param {Span} span
 * @param {number} least distance in ns
 */
export function computeTicks([begin, end], least) {
  const step = chooseTickStep(least);
  const ticks = [];
  // No minus zero.
  for (let at = Math.ceil(begin / step) * step; at <= end; at += step) ticks.push(at || 0);
  return { step, ticks };
}
