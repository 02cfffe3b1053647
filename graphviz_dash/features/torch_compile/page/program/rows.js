// Rows of a program's tree: boxes with unfolded parents, or the matches of a search.

/**
 * A tree as parallel arrays, each box before those inside it.
 * @typedef {object} Tree
 * @property {number[]} depth
 * @property {number[]} end - index after the last box inside each box
 * @property {string[]} words - searched text, in lower case
 */

/** Maximum number of rows at first, if folding can achieve it. */
const FIRST_ROWS = 60;

/**
 * @param {number[]} parents - index of the parent of each box, -1 for a root
 * @param {string[]} words
 * @returns {Tree}
 */
export function makeTree(parents, words) {
  /** @type {number[]} */
  const depth = [];
  const end = parents.map((_, place) => place + 1);
  for (const parent of parents) depth.push(parent < 0 ? 0 : depth[parent] + 1);
  for (let place = parents.length - 1; place >= 0; place--) {
    const parent = parents[place];
    if (parent >= 0) end[parent] = Math.max(end[parent], end[place]);
  }
  return { depth, end, words: words.map((word) => word.toLowerCase()) };
}

/**
 * Choose the boxes to fold at first: the deepest levels, until few enough rows remain.
 * @param {Tree} tree
 * @returns {Set<number>}
 */
export function chooseFolds(tree) {
  const deepest = Math.max(0, ...new Set(tree.depth));
  for (let level = deepest; level >= 0; level--) {
    const count = tree.depth.filter((depth) => depth <= level).length;
    if (count <= FIRST_ROWS || level === 0) {
      const folds = new Set();
      tree.depth.forEach((depth, place) => {
        if (depth === level && tree.end[place] > place + 1) folds.add(place);
      });
      return folds;
    }
  }
  return new Set();
}

/**
 * List the indices of the shown boxes, in order.
 * @param {Tree} tree
 * @param {Set<number>} folds
 * @param {string} search
 * @returns {number[]}
 */
export function listRows(tree, folds, search) {
  const text = search.trim().toLowerCase();
  if (text) return listMatches(tree, text);
  const rows = [];
  for (let place = 0; place < tree.depth.length;) {
    rows.push(place);
    place = folds.has(place) ? tree.end[place] : place + 1;
  }
  return rows;
}

/**
 * List the boxes that match a text, and those around them.
 * @param {Tree} tree
 * @param {string} text
 * @returns {number[]}
 */
function listMatches(tree, text) {
  const matches = new Set();
  /** @type {number[]} */
  const around = [];
  tree.words.forEach((word, place) => {
    while (around.length && tree.end[around[around.length - 1]] <= place) around.pop();
    around.push(place);
    if (word.includes(text)) { for (const box of around) matches.add(box); }
  });
  return [...matches].sort((a, b) => a - b);
}
