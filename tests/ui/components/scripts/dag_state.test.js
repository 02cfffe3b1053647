// What the DAG shows: the graph, the selection, the focus and the hits of a search.

import assert from "node:assert/strict";
import { test } from "node:test";

import { SearchHits } from "../../../../graphviz_dash/features/graph/page/component/hits.js";
import { DagState } from "../../../../graphviz_dash/features/graph/page/component/state.js";
import { Viewport } from "../../../../graphviz_dash/features/graph/page/component/viewport.js";
import { box, dagData, dagView, link } from "./builders.js";

const GROUP = box({
  id: "g.0",
  x: 0,
  y: 0,
  width: 400,
  height: 300,
  open: true,
  first: 0,
  count: 3,
});
const [FIRST, SECOND, THIRD] = [0, 1, 2].map((node) =>
  box({ id: `n${node}`, node, x: 20 + 120 * node, y: 40, first: node, label: `node ${node}` })
);
const FOLDED = box({ id: "g.1", x: 0, y: 400, first: 3, count: 5 });
const BOXES = [GROUP, FIRST, SECOND, THIRD, FOLDED];
const LINKS = [
  link({ source: "n0", target: "n1", points: [120, 58, 140, 58] }),
  link({ source: "n0", target: "g.1", count: 0 }),
  link({ source: "n1", target: "n2" }),
  link({ source: "n2", target: "g.1" }),
];

/** A state that shows three nodes in an unfolded group, and a folded group. */
function makeState() {
  const state = new DagState();
  state.setGraph(dagData({}));
  Object.assign(state, { fold: "order", colour: "kind" });
  state.setView(dagView({ boxes: BOXES, links: LINKS, expanded: ["g.0"], shown: { "g.0": 2 } }));
  return state;
}

test("only another graph counts as another one", () => {
  const state = new DagState();
  assert.ok(state.setGraph(dagData({})));
  assert.ok(!state.setGraph(dagData({ colour: "module", selected: 3 })));
  assert.ok(state.setGraph(dagData({ against: { before: "eager" } })));
  assert.deepEqual(state.query, {
    experiment: "e",
    run: "graph",
    graph: "graph-0",
    before: "eager",
    fold: "",
  });
});

test("a new view drops the pointer and the chosen link, and a focus that is hidden", () => {
  const state = makeState();
  Object.assign(state, { focus: "n1", chosenLink: LINKS[0] });
  state.setHover(SECOND, null);
  state.setView(dagView({ boxes: BOXES }));
  assert.deepEqual([state.focus, state.hover, state.chosenLink], ["n1", null, null]);
  state.setView(dagView({ boxes: [FOLDED] }));
  assert.equal(state.focus, null);
  assert.equal(state.getNodeBox(1), undefined);
});

test("a request without groups keeps those unfolded now; a fresh one leaves them to the server", () => {
  const state = makeState();
  const viewport = new Viewport();
  viewport.resize({ width: 800, height: 500, dpr: 1 }, null);
  const kept = state.buildLoadQuery(viewport, { focus: 7 });
  assert.equal(kept.get("expanded"), "g.0");
  assert.equal(kept.get("shown"), "g.0:2");
  assert.equal(kept.get("focus"), "7");
  assert.deepEqual([kept.get("width"), kept.get("ratio")], ["800", "1.600"]);
  const fresh = state.buildLoadQuery(viewport, { fresh: true, focus: null });
  assert.deepEqual(["expanded", "shown", "focus"].map((name) => fresh.get(name)), [
    null,
    null,
    null,
  ]);
  assert.equal(fresh.get("fold"), "order");
});

test("unfolding a group has priority over others; folding has not", () => {
  const state = makeState();
  assert.deepEqual(state.requestToggle(FOLDED), {
    expanded: ["g.0", "g.1"],
    first: "g.1",
    keep: "g.1",
  });
  assert.deepEqual(state.requestToggle(GROUP), { expanded: [], first: undefined, keep: "g.0" });
  assert.deepEqual(state.requestBlock(FOLDED, -1).shown, { "g.0": 2, "g.1": -1 });
});

test("a box is hit before a link, and both before nothing", () => {
  const state = makeState();
  assert.deepEqual(state.findAt([30, 50], 1), { box: FIRST, link: null });
  assert.deepEqual(state.findAt([130, 60], 1), { box: null, link: LINKS[0] });
  assert.deepEqual(state.findAt([390, 250], 1), { box: null, link: null });
  assert.deepEqual(new DagState().findAt([0, 0], 1), { box: null, link: null });
});

test("the pointer reports a change once", () => {
  const state = makeState();
  assert.ok(state.setHover(FIRST, null));
  assert.ok(!state.setHover(FIRST, null));
  assert.equal(state.describeHover()[0], "node 0");
  assert.ok(state.setHover(null, LINKS[1]));
  assert.deepEqual(state.describeHover(), ["node 0 contains a box"]);
  assert.ok(state.setHover(null, null));
  assert.deepEqual(state.describeHover(), []);
});

test("the keyboard starts at the first box and follows the edges", () => {
  const state = makeState();
  assert.equal(state.findNeighbour("target"), FIRST);
  state.focus = "n1";
  assert.equal(state.findNeighbour("target"), THIRD);
  assert.equal(state.findNeighbour("source"), FIRST);
  state.focus = "g.1";
  assert.equal(state.findNeighbour("target"), undefined);
});

test("the focus counts before the selection", () => {
  const state = makeState();
  state.selected = 2;
  assert.equal(state.currentId, "n2");
  assert.equal(state.findNeighbour("source"), SECOND);
  assert.equal(state.focusBox, null);
  state.focus = "n0";
  assert.equal(state.currentId, "n0");
  assert.equal(state.focusBox, FIRST);
});

test("keys to the side need a focus", () => {
  const state = makeState();
  assert.equal(state.findBoxToSide(1), FIRST);
  state.focus = "n0";
  assert.equal(state.findBoxToSide(1), SECOND);
  assert.equal(state.findBoxToSide(-1), undefined);
});

test("the edges of a box are listed one link at a time, around the end", () => {
  const state = makeState();
  assert.equal(state.findNextLink(), null);
  state.focus = "n0";
  assert.equal(state.findNextLink(), LINKS[0], "the link from a node to its graph has no edges");
  state.focus = "n1";
  state.chosenLink = LINKS[0];
  assert.equal(state.findNextLink(), LINKS[2]);
  state.chosenLink = LINKS[2];
  assert.equal(state.findNextLink(), LINKS[0]);
});

test("the repeat around the current box is shown", () => {
  const repeat = box({ ...GROUP, repeats: 4 });
  const state = new DagState();
  assert.equal(state.findCurrentRepeat(), null);
  state.setView(dagView({ boxes: [repeat, FIRST, FOLDED] }));
  state.focus = "n0";
  assert.equal(state.findCurrentRepeat(), repeat);
});

test("hits are visited in turn, and counted by box", () => {
  const hits = new SearchHits();
  assert.equal(hits.step(1), null);
  assert.ok(!hits.isDim(FOLDED));
  hits.setHits({ total: 3, nodes: [9, 4, 2], positions: [1, 4, 6], groups: [] });
  assert.deepEqual([hits.step(1), hits.step(1), hits.index], [9, 4, 1]);
  assert.deepEqual([hits.step(-1), hits.step(-1), hits.index], [9, 2, 2]);
  assert.deepEqual([GROUP, FOLDED, FIRST].map((each) => hits.countIn(each)), [1, 2, 0]);
  assert.deepEqual([GROUP, FIRST].map((each) => hits.isDim(each)), [false, true]);
  hits.clear();
  assert.deepEqual([hits.countIn(GROUP), hits.nodes.size], [0, 0]);
});
