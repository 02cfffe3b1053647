// Which boxes of a compiled program are rows: by folds, and by what is searched for.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  chooseFolds,
  listRows,
  makeTree,
} from "../../../../graphviz_dash/features/torch_compile/page/program/rows.js";

// f: 0/0 (graph 0, graph 1), 1/0; g: 2/0
const PARENTS = [-1, 0, 1, 1, 0, -1, 5];
const WORDS = ["f a.py:1", "0/0", "graph 0", "graph 1", "1/0", "g b.py:9", "2/0"];

test("a box ends behind the last one in it", () => {
  const tree = makeTree(PARENTS, WORDS);
  assert.deepEqual(tree.depth, [0, 1, 2, 2, 1, 0, 1]);
  assert.deepEqual(tree.end, [5, 4, 3, 4, 5, 7, 7]);
});

test("a folded box hides what is in it", () => {
  const tree = makeTree(PARENTS, WORDS);
  assert.deepEqual(listRows(tree, new Set([1]), ""), [0, 1, 4, 5, 6]);
  assert.deepEqual(listRows(tree, new Set([0, 5]), ""), [0, 5]);
});

test("a search shows what it finds and what is around it, folded or not", () => {
  const tree = makeTree(PARENTS, WORDS);
  assert.deepEqual(listRows(tree, new Set([0, 1]), " Graph 1"), [0, 1, 3]);
  assert.deepEqual(listRows(tree, new Set(), "b.py"), [5]);
});

test("few boxes are open at first, of many only the functions", () => {
  assert.equal(chooseFolds(makeTree(PARENTS, WORDS)).size, 0);
  const many = [];
  for (let i = 0; i < 100; i++) many.push(-1, 2 * i);
  const tree = makeTree(many, many.map(String));
  const folds = chooseFolds(tree);
  assert.equal(folds.size, 100);
  assert.equal(listRows(tree, folds, "").length, 100);
});
