// What the timeline shows: runs, selection, and the way from one slice to the next.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  GUTTER,
  layOut,
} from "../../../../graphviz_dash/features/timeline/page/component/layout.js";
import { TimelineState } from "../../../../graphviz_dash/features/timeline/page/component/state.js";
import { TimeViewport } from "../../../../graphviz_dash/features/timeline/page/component/viewport.js";
import { lane, run, timelineView } from "./builders.js";

/** @import { SliceCard, TimelineData } from "../../../../graphviz_dash/features/timeline/page/component/wire.js" */

const CALLS = lane([[0, 5], [8, 12]], { kind: "cpu", row: Int32Array.of(3, 4) });
const RANGE = lane([[0, 90]], { kind: "range" });
const WORK = lane([[10, 20], [25, 45]], { row: Int32Array.of(40, 41) });
const EMPTY = lane([], { sub: 1 });
const SIDE = lane([[22, 30], [50, 60]], { track: 8, row: Int32Array.of(50, 51) });
const GRAPH = run([CALLS, RANGE, WORK, EMPTY, SIDE], { run: "graph" });

/** @type {TimelineData} */
const DATA = {
  experiment: "e",
  runs: ["eager", "graph"],
  steps: [null, 7],
  selected: null,
  ruler: null,
  height: 400,
  palette: { categories: [], idle: ["#888888", "#888888"] },
};

/** A state with a loaded run, and a viewport of 100 ns on 100 pixels. */
function makeState() {
  const state = new TimelineState();
  state.setRuns(DATA);
  state.view = timelineView({ names: [["gemm", 0]], runs: [GRAPH] });
  state.layout = layOut(state.view, 400);
  const viewport = new TimeViewport();
  Object.assign(viewport, { width: GUTTER + 100, height: 400, window: [0, 100], placed: true });
  return { state, viewport };
}

/**
 * @param {Partial<SliceCard>} given
 * @returns {SliceCard}
 */
function card(given) {
  return /** @type {SliceCard} */ ({ run: "graph", token: "g41", begin: 25, dur: 20, ...given });
}

test("only other runs or steps count as others, and drop the card", () => {
  const state = new TimelineState();
  assert.ok(state.setRuns(DATA));
  state.card = card({});
  assert.ok(!state.setRuns({ ...DATA, selected: "graph/g41", height: 900 }));
  assert.notEqual(state.card, null);
  assert.ok(state.setRuns({ ...DATA, steps: [null, 8] }));
  assert.equal(state.card, null);
  assert.equal(String(state.query), "experiment=e&run=eager&run=graph&step=&step=8");
});

test("a view is requested for a window, or for the chosen steps", () => {
  const { state } = makeState();
  const all = state.buildViewQuery(20.4, null);
  assert.deepEqual(["px", "t0", "t1"].map((name) => all.get(name)), ["50", null, null]);
  const part = state.buildViewQuery(812.3, [1.4, 99.6]);
  assert.deepEqual(["px", "t0", "t1"].map((name) => part.get(name)), ["812", "1", "100"]);
});

test("a card is requested with the runs next to it", () => {
  const { state } = makeState();
  assert.equal(
    String(state.buildCardQuery("graph", "g41")),
    "experiment=e&run=graph&slice=g41&step=7&shown=eager&shown_step=&shown=graph&shown_step=7",
  );
  assert.equal(state.buildCardQuery("eager", "g1").get("step"), null);
});

test("the selected slice is known without its card", () => {
  const { state } = makeState();
  assert.equal(state.selectedSlice, null);
  state.selected = "graph/g41";
  assert.deepEqual(state.selectedSlice, { run: GRAPH, lane: WORK, i: 1 });
  assert.deepEqual(state.selectedSpan, [25, 45]);
  state.selected = "eager/g41";
  assert.equal(state.selectedSlice, null);
});

test("a selected node leads to a slice only through its card", () => {
  const { state } = makeState();
  state.selected = "graph/graph-0#30";
  assert.equal(state.selectedSlice, null);
  state.card = card({});
  assert.deepEqual(state.selectedSlice, { run: GRAPH, lane: WORK, i: 1 });
});

test("a card knows its span before the slice is loaded", () => {
  const { state } = makeState();
  state.selected = "graph/g99";
  assert.equal(state.selectedSpan, null);
  state.card = card({ token: "g99", begin: 500, dur: 30 });
  assert.deepEqual(state.selectedSpan, [500, 530]);
});

test("the next slice is on the same lane, and none is beyond its ends", () => {
  const { state } = makeState();
  const first = { run: GRAPH, lane: WORK, i: 0 };
  assert.equal(state.findSliceAfter(first, 1)?.i, 1);
  assert.equal(state.findSliceAfter(first, -1), null);
  assert.equal(state.findSliceAfter(first, 2), null);
});

test("the first visible slice is on a GPU lane", () => {
  const { state } = makeState();
  assert.deepEqual(state.findFirstSlice([0, 100]), { run: GRAPH, lane: WORK, i: 0 });
  assert.deepEqual(state.findFirstSlice([20, 100]), { run: GRAPH, lane: WORK, i: 1 });
  assert.deepEqual(state.findFirstSlice([46, 100])?.lane, WORK);
  assert.equal(state.findFirstSlice([0, 5]), null);
  assert.equal(new TimelineState().findFirstSlice([0, 100]), null);
});

test("keys up and down skip empty lanes and ranges", () => {
  const { state } = makeState();
  const work = { run: GRAPH, lane: WORK, i: 1 };
  assert.deepEqual(state.findSliceOnLane(work, 1), { run: GRAPH, lane: SIDE, i: 0 });
  assert.deepEqual(state.findSliceOnLane(work, -1), { run: GRAPH, lane: CALLS, i: 1 });
  assert.equal(state.findSliceOnLane({ run: GRAPH, lane: SIDE, i: 0 }, 1), null);
});

test("a slice is hit where it is drawn, scrolled lanes included", () => {
  const { state, viewport } = makeState();
  const place = state.getSliceRect(viewport, "graph", "g41");
  assert.ok(place);
  assert.deepEqual([place.x, place.width], [GUTTER + 25, 20]);
  const hover = state.findHover(viewport, place.x + 5, place.y + 5);
  assert.ok(hover?.kind === "slice" && hover.lane === WORK && hover.i === 1);
  viewport.scroll = 10;
  const scrolled = state.getSliceRect(viewport, "graph", "g41");
  assert.equal(scrolled?.y, place.y - 10);
  assert.equal(state.findHover(viewport, place.x + 5, place.y - 5)?.kind, "slice");
  assert.equal(state.findHover(viewport, place.x, 3), null, "the axis is no lane");
  assert.equal(state.getSliceRect(viewport, "graph", "g77"), null);
});

test("lanes overflow a canvas that is too low", () => {
  const { state } = makeState();
  assert.ok(state.overflows(50));
  assert.ok(!state.overflows(5000));
  assert.ok(!new TimelineState().overflows(0));
});

test("loaded slices are listed with their names", () => {
  const { state } = makeState();
  const [call] = state.listSlices();
  assert.deepEqual(call, { run: "graph", token: "c3", name: "gemm", start: 0, dur: 5 });
  assert.deepEqual(new TimelineState().listSlices(), []);
});
