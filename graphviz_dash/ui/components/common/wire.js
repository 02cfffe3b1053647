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
 * @property {string} label - Label in the legend.
 * @property {[string, string]} shade - Colour in the light and in the dark theme.
 * @property {string | null} [call] - Class of CPU call; None for GPU work.
 */

/**
 * Colours of a drawing, each in the light and in the dark theme.
 * @typedef {object} Palette
 * @property {PaletteEntry[]} categories - Categories in the order of their index in slices.
 * @property {[string, string]} idle - Idle time.
 * @property {[string, string] | null} [critical] - Critical path.
 * @property {[string, string] | null} [run] - Runs with graphs.
 * @property {[string, string] | null} [light] - Runs without graphs.
 * @property {[string, string] | null} [saved] - Saved time.
 */
