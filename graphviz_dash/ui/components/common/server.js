// Requests to the routes of this server.

/**
 * Fetch a JSON object from a route.
 * @throws {Error} with the message of the server if the request fails
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
 * Fetch a JSON object with its length as text.
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
 * Get the message of an error.
 * @param {unknown} error
 */
export function getMessage(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Whether the page itself aborted the request.
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
