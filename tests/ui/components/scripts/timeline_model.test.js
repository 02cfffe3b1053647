// The timeline's data: what the server sends, decoded.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  accumulate,
  decodeDeltas,
  decodeView,
  findLane,
  findLaunch,
  findSlice,
  getToken,
  parseSelection,
} from "../../../../graphviz_dash/features/timeline/page/component/model.js";
import { lane, run } from "./builders.js";

/** @import { TimelineView } from "../../../../graphviz_dash/features/timeline/page/component/wire.js" */

/**
 * @param {Partial<TimelineView>} given
 * @returns {TimelineView}
 */
function sent(given) {
  return {
    level: "slices",
    window: [0, 100],
    loaded: [-25, 125],
    fit: [0, 100],
    limits: [0, 100],
    bins: 0,
    names: [],
    runs: [],
    differences: [],
    complete: true,
    ...given,
  };
}

test("columns of differences become absolute times and rows", () => {
  const view = decodeView(sent({
    runs: [{
      run: "eager",
      lanes: [{
        kind: "gpu",
        owner: 0,
        track: 7,
        sub: 0,
        label: "stream 7",
        gap: [35, 5],
        dur: [10, 20],
        name: [0, 1],
        row: [40, 2],
        launch: [7, -8],
        node: undefined,
      }],
    }],
  }));
  const [decoded] = view.runs[0].lanes;
  assert.deepEqual([...decoded.start], [10, 25]);
  assert.deepEqual([...decoded.end], [20, 45]);
  assert.deepEqual([...decoded.row], [40, 42]);
  assert.deepEqual([...(decoded.launch ?? [])], [7, -1]);
  assert.equal(decoded.node, null);
  assert.equal(decoded.busy, null);
});

test("a busy lane has bytes and no slices", () => {
  const busy = btoa(String.fromCharCode(0, 128, 255));
  const base = { owner: 0, track: 1, sub: 0, label: "" };
  const view = decodeView(sent({
    level: "busy",
    runs: [{ run: "eager", lanes: [{ kind: "cpu", ...base, busy }] }],
  }));
  const [decoded] = view.runs[0].lanes;
  assert.deepEqual([...(decoded.busy ?? [])], [0, 128, 255]);
  assert.equal(decoded.count, 0);
});

test("fields that the server omits are empty", () => {
  const [decoded] = decodeView(sent({ runs: [{ run: "a", light: true }] })).runs;
  assert.deepEqual(decoded, run([], { run: "a", light: true }));
});

test("losses add up from what was lost before the window", () => {
  const [difference] = decodeView(sent({
    differences: [{ run: "graph", before: [5, -1], idle: [1, 2], busy: [0, 3] }],
  })).differences;
  assert.deepEqual([...difference.idleAt], [5, 6, 8]);
  assert.deepEqual([...difference.busyAt], [-1, -1, 2]);
  assert.equal(difference.bins, 2);
});

test("sums begin where they are told to", () => {
  assert.deepEqual([...accumulate([], 3)], [3]);
  assert.deepEqual([...decodeDeltas([4, -1, 2])], [4, 3, 5]);
});

test("a slice is found by its token, and its launch by the row of the call", () => {
  const calls = lane([[0, 2]], { kind: "cpu", row: Int32Array.of(7) });
  const work = lane([[3, 5], [6, 9]], {
    row: Int32Array.of(40, 42),
    launch: Int32Array.of(7, -1),
  });
  const eager = run([calls, work]);
  const slice = findSlice(eager, "g42");
  assert.deepEqual(slice, { run: eager, lane: work, i: 1 });
  assert.equal(getToken(work, 1), "g42");
  assert.equal(findSlice(eager, "c42"), null);
  assert.deepEqual(findLaunch({ run: eager, lane: work, i: 0 }), { run: eager, lane: calls, i: 0 });
  assert.equal(findLaunch({ run: eager, lane: work, i: 1 }), null);
});

test("a card's lane is that of its kind, owner, track and sub-lane", () => {
  const lanes = [lane([], { sub: 0 }), lane([], { sub: 1 })];
  const card = /** @type {any} */ ({ token: "g3", owner: 0, track: 7, sub: 1 });
  assert.equal(findLane(run(lanes), card), lanes[1]);
  assert.equal(findLane(run(lanes), { ...card, token: "c3" }), undefined);
});

test("a selection is a run and a token", () => {
  assert.deepEqual(parseSelection("graph/g12"), { run: "graph", token: "g12" });
  assert.deepEqual(parseSelection("graph/graph-0#17"), { run: "graph", token: "graph-0#17" });
  assert.equal(parseSelection("graph"), null);
  assert.equal(parseSelection(null), null);
});
