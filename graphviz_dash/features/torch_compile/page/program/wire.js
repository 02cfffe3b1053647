// deno-fmt-ignore-file
// What the server answers and the page hands over, as the component's scripts know it. Written by
// `make docs` from the structs of routes and components: change those.

/**
 * A compiled program as parallel lists, each box before those within it.
 * @typedef {object} ProgramData
 * @property {string[]} ids - Of the boxes.
 * @property {number[]} parents - Place of the box around each, -1 for none.
 * @property {string[]} kinds - What each is.
 * @property {string[]} titles - What each is called.
 * @property {string[]} lines - The line that each begins at, or nothing.
 * @property {(number | null)[]} times - The time of each in a step, in ns.
 * @property {number[]} causes - How many things there are to mend in each.
 * @property {number} whole - The time of a step, in ns.
 * @property {string} colour - What colours tell: time or cause.
 * @property {string | null} selected - The box that is selected from outside.
 */
