// Records sent as arrays of their field values.

/**
 * A record of type T as an array of its field values.
 * @template T
 * @typedef {readonly unknown[] & { readonly record?: T }} Row
 */

/**
 * Read the record of a row.
 * @template T
 * @param {readonly (keyof T & string)[]} fields in the order of the row
 * @param {Row<T>} row
 * @returns {T}
 */
export function readRow(fields, row) {
  return /** @type {T} */ (Object.fromEntries(fields.map((field, i) => [field, row[i]])));
}
