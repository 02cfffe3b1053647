// deno-fmt-ignore-file
// What the server answers and the page hands over, as the component's scripts know it. Written by
// `make docs` from the structs of routes and components: change those.

/**
 * Data of the Perfetto buttons.
 * @typedef {object} PerfettoData
 * @property {string} path - Path of the trace route.
 * @property {string} trace - Query of the trace to send to Perfetto.
 * @property {string} native - Query of the trace to download.
 * @property {string} chrome - Query of the trace to download as JSON.
 * @property {string} stem - Stem of file names.
 * @property {string} title - Title of the trace in Perfetto.
 * @property {string} label - Label of the main button.
 * @property {boolean} small - Whether to show small buttons in one row.
 * @property {string} public - Address of the public UI.
 * @property {string} host - Host of that address.
 * @property {string | null} local - Address of the local UI; None if not installed.
 * @property {number} timeout - Timeout in ms.
 */
