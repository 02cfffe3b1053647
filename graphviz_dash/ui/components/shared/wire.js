// deno-fmt-ignore-file
// What the server answers, as the component's scripts know it. Written by `make docs` from the
// structs of the routes: change those.

/**
 * A job as seen from outside.
 * @typedef {object} Standing
 * @property {"running" | "done" | "failed" | "cancelled"} state - Where it stands.
 * @property {string} what - The task it is at, in words; empty when it is done.
 * @property {number} share - How much of all its tasks is done, 0 to 1.
 * @property {string | null} problem - What ended it; None unless it failed.
 */
