// Numbers: places in ascending arrays, and numbers as text.

const MOST_RECENT = 600;

/**
 * How many of ascending `values` are below `limit`.
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
 * How many of ascending `values` are at most `limit`.
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
 * `value` within bounds.
 * @param {number} value
 * @param {number} least
 * @param {number} most
 */
export function clamp(value, least, most) {
  return Math.max(least, Math.min(most, value));
}

/**
 * Appends a value and drops the oldest beyond the most recent ones.
 * @param {number[]} values
 * @param {number} value
 */
export function keepRecent(values, value) {
  values.push(value);
  if (values.length > MOST_RECENT) values.shift();
}

/**
 * A whole number with separators between thousands: "1,204".
 * @param {number} number
 */
export function formatCount(number) {
  return number.toLocaleString("en");
}

/**
 * A count with its noun: "1 node", "1,204 nodes".
 * @param {number} number
 * @param {string} noun in the singular
 */
export function pluralize(number, noun) {
  return `${formatCount(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/**
 * A time in ns with its unit; digits after the point follow the size.
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
 * A difference of times in ns, its sign always written.
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
