// deno-fmt-ignore-file
// What the server answers and the page hands over, as the component's scripts know it. Written by
// `make docs` from the structs of routes and components: change those.

/**
 * What Python says of the buttons that open Perfetto.
 * @typedef {object} PerfettoData
 * @property {string} path - Of the trace's route.
 * @property {string} trace - Query of the trace that is handed over.
 * @property {string} native - Query of the trace to download.
 * @property {string} chrome - Query of the trace to download as JSON.
 * @property {string} stem - Of file names.
 * @property {string} title - Of the trace in Perfetto.
 * @property {string} label - Of the main button.
 * @property {boolean} small - Whether the buttons stand in one row, small.
 * @property {string} public - Address of the public UI.
 * @property {string} host - Of that address.
 * @property {string | null} local - Address of the UI that this server has, if it has one.
 * @property {number} timeout - In ms.
 */
