// A view of a folded graph as the page knows it.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  decodeView,
  describeBox,
  describeLink,
  describeView,
  findRepeat,
  toggleGroup,
} from "../../../../graphviz_dash/features/graph/page/component/view.js";
import {
  BOX_FIELDS,
  LINK_FIELDS,
} from "../../../../graphviz_dash/features/graph/page/component/wire.js";
import { box, dagView as view, link } from "./builders.js";

test("boxes and links come back from the arrays that they travel as", () => {
  const [leaf, group] = [box({ id: "n3", node: 3 }), box({ id: "g.1", where: "" })];
  const edge = link({ points: [1, 2, 3, 4] });
  const decoded = decodeView({
    ...view({}),
    boxes: [leaf, group].map((each) => BOX_FIELDS.map((field) => each[field])),
    links: [LINK_FIELDS.map((field) => edge[field])],
  });
  assert.deepEqual(decoded.boxes, [{ ...leaf, where: "node 3" }, group]);
  assert.deepEqual(decoded.links, [edge]);
});

test("a tooltip says the whole name, where the node is, and its time", () => {
  const leaf = box({ node: 3, label: "gemm…", name: 0, where: "node 3", note: "mm", time: "2 µs" });
  assert.deepEqual(describeBox(view({ names: ["gemm_f16_128x128"] }), leaf), [
    "gemm…",
    "gemm_f16_128x128",
    "node 3 · mm · 2 µs",
  ]);
  const repeat = box({ label: "layers", note: "8 nodes", repeats: 4, differ: 1 });
  assert.deepEqual(describeBox(view({}), repeat), [
    "layers",
    "8 nodes",
    "1 of 4 differ from the others",
  ]);
});

test("a link says how many edges it is, and of which kind", () => {
  /** @type {(id: string) => string} */
  const labelOf = (id) => id.toUpperCase();
  assert.deepEqual(describeLink(link({ count: 0 }), labelOf), ["N0 contains N1"]);
  assert.deepEqual(describeLink(link({ count: 3, dashed: true, critical: true }), labelOf), [
    "N0 → N1",
    "3 edges · programmatic · critical path · click to list",
  ]);
});

test("the state counts what is shown and says what is still loading", () => {
  const boxes = [box({ open: true }), box({ id: "n0" })];
  assert.equal(describeView(view({ boxes })), "2 nodes, 1 edge · 1 box");
  assert.equal(
    describeView(view({ boxes, full: true, note: "by module", complete: false })),
    "2 nodes, 1 edge · 1 box · fold groups to unfold more · by module · loading times…",
  );
});

test("folding a group folds all inside it, and nothing beside it", () => {
  const expanded = ["g", "g.1", "g.1.0", "g.10"];
  assert.deepEqual(toggleGroup(expanded, box({ id: "g.1", open: true })), ["g", "g.10"]);
  assert.deepEqual(toggleGroup(expanded, box({ id: "g.2" })), [...expanded, "g.2"]);
});

test("the bar follows the innermost repeat around what has the focus", () => {
  const outer = box({ id: "g.0", open: true, repeats: 4, first: 0, count: 40 });
  const inner = box({ id: "g.0.1", open: true, repeats: 2, first: 4, count: 6 });
  const other = box({ id: "g.1", open: true, repeats: 3, first: 40, count: 9 });
  const boxes = [outer, inner, other];
  assert.equal(findRepeat(boxes, box({ first: 5 }), undefined), inner);
  assert.equal(findRepeat(boxes, box({ first: 20 }), undefined), outer);
  assert.equal(findRepeat(boxes, box({ first: 90 }), other), other);
  assert.equal(findRepeat(boxes, undefined, undefined), outer);
  assert.equal(findRepeat([box({})], undefined, undefined), null);
});
