// deno-fmt-ignore-file
// What the server answers and the page hands over, as the component's scripts know it. Written by
// `make docs` from the structs of routes and components: change those.

/**
 * A compiled program as parallel lists, each box before those inside it.
 * @typedef {object} ProgramData
 * @property {string[]} ids - Ids of the boxes.
 * @property {number[]} parents - Index of the parent box, or -1.
 * @property {string[]} kinds - Kinds of the boxes.
 * @property {string[]} titles - Titles of the boxes.
 * @property {string[]} lines - First source line, or empty.
 * @property {(number | null)[]} times - Time per step in ns.
 * @property {number[]} causes - Number of problems to fix.
 * @property {number} whole - Step time in ns; 0 if unknown.
 * @property {string} colour - Colouring: time or cause.
 * @property {string | null} selected - Box selected by the page.
 */
