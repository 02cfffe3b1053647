// Questions to the routes of this server.

/**
 * The answer of a route, an object; rejects with the server's own words where there is none.
 * @template T
 * @param {string} path with its query
 * @param {RequestInit} [options]
 * @returns {Promise<T>}
 */
export async function fetchJson(path, options) {
  const { body } = await fetchSized(path, options);
  return /** @type {T} */ (body);
}

/**
 * As `ask`, with the length of the answer as text.
 * @param {string} path
 * @param {RequestInit} [options]
 * @returns {Promise<{body: unknown, length: number}>}
 */
export async function fetchSized(path, options) {
  const response = await fetch(path, options);
  const text = await response.text();
  const body = parseJson(text);
  if (!response.ok) throw new Error(body?.error?.message ?? response.statusText);
  return { body, length: text.length };
}

/**
 * What an error says.
 * @param {unknown} error
 */
export function getMessage(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Whether a request was ended by the page itself.
 * @param {unknown} error
 */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/** @param {string} text */
function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
