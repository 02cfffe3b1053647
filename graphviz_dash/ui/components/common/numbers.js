// Binary search in ascending arrays, and numbers as text.

const MAX_RECENT = 600;

/**
 * Count the ascending `values` below `limit`.
 * @param {ArrayLike<number>} values
 * @param {number} limit
 */
export function countBelow(values, limit) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Count the ascending `values` up to `limit`, included.
 * @param {ArrayLike<number>} values
 * @param {number} limit
 */
export function countUpTo(values, limit) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Limit a value to a range.
 * @param {number} value
 * @param {number} min
 * @param {number} max
 */
export function clamp(value, min, max) {
  return Math.max(min, Math.min(max, value));
}

/**
 * Append a value and drop the oldest of too many.
 * @param {number[]} values
 * @param {number} value
 */
export function keepRecent(values, value) {
  values.push(value);
  if (values.length > MAX_RECENT) values.shift();
}

/**
 * Format an integer with separators between thousands: "1,204".
 * @param {number} number
 */
export function formatCount(number) {
  return number.toLocaleString("en");
}

/**
 * Format a count with its noun: "1 node", "1,204 nodes".
 * @param {number} number
 * @param {string} noun in the singular
 */
export function pluralize(number, noun) {
  return `${formatCount(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/**
 * Format a time in ns with a unit and four to five digits.
 * @param {number} ns
 */
export function formatTime(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return `${formatDigits(ns / 1e9)} s`;
  if (size >= 1e6) return `${formatDigits(ns / 1e6)} ms`;
  if (size >= 1e3) return `${formatDigits(ns / 1e3)} µs`;
  return `${Math.round(ns)} ns`;
}

/**
 * Format a difference of times in ns, always with a sign.
 * @param {number} ns
 */
export function formatTimeChange(ns) {
  return (ns < 0 ? "−" : "+") + formatTime(Math.abs(ns));
}

/** @param {number} value */
function formatDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3);
}
