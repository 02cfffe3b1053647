// Records that travel as arrays, by the order of their fields.

/**
 * A record of type T as an array of its fields' values.
 * @template T
 * @typedef {readonly unknown[] & { readonly record?: T }} Row
 */

/**
 * The record in a row.
 * @template T
 * @param {readonly (keyof T & string)[]} fields in the order of the row
 * @param {Row<T>} row
 * @returns {T}
 */
export function readRow(fields, row) {
  return /** @type {T} */ (Object.fromEntries(fields.map((field, i) => [field, row[i]])));
}
