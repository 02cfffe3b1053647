// Arithmetic of time spans, in ns since the origins of the runs.

import { clamp } from "../../../../ui/components/common/numbers.js";

/** @typedef {[begin: number, end: number]} Span */

/** Shortest window, in ns. */
export const MIN_SPAN = 200;

const MIN_SLICE_PX = 3;

/**
 * Limit the length of a span to twice that of `limits`, and its distance from them.
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
 * Zoom a span by `factor` around the time `at`.
 * @param {Span} span
 * @param {number} at
 * @param {number} factor
 * @returns {Span}
 */
export function zoomSpan([begin, end], at, factor) {
  return [at - (at - begin) / factor, at + (end - at) / factor];
}

/**
 * Shift a span by a share of its length.
 * @param {Span} span
 * @param {number} share
 * @returns {Span}
 */
export function shiftSpan([begin, end], share) {
  const by = (end - begin) * share;
  return [begin + by, end + by];
}

/**
 * Interpolate between two spans.
 * @param {Span} from
 * @param {Span} to
 * @param {number} share 0 to 1
 * @returns {Span}
 */
export function interpolateSpan(from, to, share) {
  return [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share];
}

/**
 * Find the window that shows a slice at the current zoom, or at another one if the slice would be too
 * narrow or too wide. Null if `span` already shows it well on `pixels`.
 * @param {Span} span
 * @param {{begin: number, dur: number}} slice
 * @param {number} pixels
 * @returns {Span | null}
 */
export function revealSlice([begin, end], slice, pixels) {
  const length = end - begin;
  const inside = slice.begin >= begin && slice.begin + slice.dur <= end;
  if (inside && (slice.dur / length) * pixels >= MIN_SLICE_PX) return null;
  const window = clamp(length, slice.dur * 3, Math.max(slice.dur * 60, 2000));
  const middle = slice.begin + slice.dur / 2;
  return [middle - window / 2, middle + window / 2];
}

/**
 * Choose the distance between ticks in ns: 1, 2 or 5 times a power of ten.
 * @param {number} minStep
 */
export function chooseTickStep(minStep) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, minStep)));
  for (const factor of [1, 2, 5]) if (factor * power >= minStep) return factor * power;
  return 10 * power;
}

/** Units of an axis, by the minimum length of the window in ns. */
const UNITS = [
  { from: 5e9, name: "s", ns: 1e9 },
  { from: 5e6, name: "ms", ns: 1e6 },
  { from: 0, name: "µs", ns: 1e3 },
];

/**
 * Choose the unit of the axis of a window.
 * @param {Span} span
 */
export function chooseAxisUnit([begin, end]) {
  return UNITS.find(({ from }) => end - begin >= from) ?? UNITS[UNITS.length - 1];
}

/**
 * Compute the ticks of an axis.
 * @param {Span} span
 * @param {number} minStep in ns
 */
export function computeTicks([begin, end], minStep) {
  const step = chooseTickStep(minStep);
  const ticks = [];
  // `|| 0` removes minus zero.
  for (let at = Math.ceil(begin / step) * step; at <= end; at += step) ticks.push(at || 0);
  return { step, ticks };
}
