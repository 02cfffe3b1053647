// deno-fmt-ignore-file
// What the server answers and the page hands over, as the component's scripts know it. Written by
// `make docs` from the structs of routes and components: change those.

/**
 * A job as seen from outside.
 * @typedef {object} Standing
 * @property {"running" | "done" | "failed" | "cancelled"} state - Where it stands.
 * @property {string} what - The task it is at, in words; empty when it is done.
 * @property {number} share - How much of all its tasks is done, 0 to 1.
 * @property {string | null} problem - What ended it; None unless it failed.
 */

/**
 * A category of slices.
 * @typedef {object} PaletteEntry
 * @property {string} label - As the legend says it.
 * @property {[string, string]} shade - In the light and in the dark theme.
 * @property {string | null} [call] - What kind of thing on the CPU it is; None for GPU work.
 */

/**
 * The colours of a drawing, each in the light and in the dark theme.
 * @typedef {object} Palette
 * @property {PaletteEntry[]} categories - By the categories that slices name.
 * @property {[string, string]} idle - Of idle time.
 * @property {[string, string] | null} [critical] - Of the critical path.
 * @property {[string, string] | null} [run] - Ink of runs.
 * @property {[string, string] | null} [light] - Ink of runs without graphs.
 * @property {[string, string] | null} [saved] - Of time that is gained.
 */
