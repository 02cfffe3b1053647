// Where runs and lanes of the timeline lie.

import assert from "node:assert/strict";
import { test } from "node:test";

import { layOut } from "../../../../graphviz_dash/features/timeline/page/component/layout.js";
import { lane, run, timelineView } from "./builders.js";

/** @import { DecodedDifference, Run } from "../../../../graphviz_dash/features/timeline/page/component/model.js" */

/**
 * @param {Run[]} runs
 * @param {DecodedDifference[]} [differences]
 */
function view(runs, differences = []) {
  return timelineView({ runs, differences });
}

/** @type {DecodedDifference} */
const LOST = {
  run: "graph",
  problem: "",
  idleAt: Float64Array.of(0, 0),
  busyAt: Float64Array.of(0, 0),
  bins: 1,
  total: [0, 0],
  most: 0,
  text: "",
  cause: "",
  work: 0,
};

test("nothing overlaps: every row begins below the one before", () => {
  const cpu = lane([], { kind: "cpu" });
  const runs = [run([cpu, lane([]), lane([], { sub: 1 })]), run([lane([])], { run: "graph" })];
  const { blocks, axis, total } = layOut(view(runs, [LOST]), 600);
  const rows = blocks.flatMap((block) => [...block.lanes, ...block.differences]);
  let bottom = axis;
  for (const { y, h } of rows) {
    assert.ok(y >= bottom, `${y} is above ${bottom}`);
    bottom = y + h;
  }
  assert.ok(total >= bottom);
});

test("GPU lanes grow until all the height is used", () => {
  const runs = [run([lane([]), lane([], { sub: 1 })]), run([lane([])])];
  const { blocks, total } = layOut(view(runs), 280);
  assert.equal(blocks[0].lanes[0].h, blocks[1].lanes[0].h);
  assert.ok(Math.abs(total - 280) < 1e-9);
});

test("lanes have a least and a most height", () => {
  const many = Array.from({ length: 40 }, () => lane([]));
  assert.equal(layOut(view([run(many)]), 300).blocks[0].lanes[0].h, 22);
  assert.equal(layOut(view([run([lane([])])]), 3000).blocks[0].lanes[0].h, 320);
});

test("one run alone fills the canvas: its other lanes become taller too", () => {
  const cpu = lane([], { kind: "cpu" });
  const alone = [lane([], { kind: "range" }), cpu, cpu, lane([])];
  const { blocks, total } = layOut(view([run(alone)]), 400);
  assert.ok(Math.abs(total - 400) < 1e-9);
  const [range, first, , gpu] = blocks[0].lanes;
  assert.deepEqual([range.h, first.h], [42, 42]);
  assert.ok(gpu.h > 92);
});

test("lanes of the CPU keep their least height until those of the GPU are tall", () => {
  const both = [lane([], { kind: "cpu" }), lane([])];
  const heights = (/** @type {number} */ height) =>
    layOut(view([run(both)]), height).blocks[0].lanes.map(({ h }) => h);
  assert.deepEqual(heights(150), [14, 49]);
  assert.deepEqual(heights(200), [21, 92]);
});

test("difference lanes lie below the first run, an uncompared one as a line", () => {
  const runs = [run([lane([])]), run([lane([])])];
  const { blocks } = layOut(view(runs, [LOST, { ...LOST, problem: "no step" }]), 600);
  assert.deepEqual(blocks.map(({ differences }) => differences.length), [2, 0]);
  assert.deepEqual(blocks[0].differences.map(({ h }) => h), [52, 20]);
});

test("a run without lanes keeps room for the reason", () => {
  const [block] = layOut(view([run([])]), 600).blocks;
  assert.equal(block.lanesBottom - block.lanesTop, 40);
  assert.equal(block.gpuTop, block.lanesBottom);
});
