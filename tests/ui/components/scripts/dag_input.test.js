// What the reader's keys and wheel do to the DAG.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  getWheelFactor,
  listen,
} from "../../../../graphviz_dash/features/graph/page/component/input.js";
import { isForDrawing, WheelGate } from "../../../../graphviz_dash/ui/components/wheel.js";

/** @import { Dag } from "../../../../graphviz_dash/features/graph/page/component/dag.js" */

/**
 * An event with the fields that a browser would give it.
 * @param {string} type
 * @param {object} [fields]
 */
function happening(type, fields = {}) {
  return Object.assign(new Event(type, { cancelable: true }), fields);
}

/** A DAG that only writes down what is asked of it, and its canvas. */
function listening() {
  /** @type {string[]} */
  const calls = [];
  const canvas = Object.assign(new EventTarget(), {
    style: {},
    focus: () => {},
    setPointerCapture: () => {},
    getBoundingClientRect: () => ({ left: 0, top: 0 }),
  });
  Object.assign(globalThis, { window: Object.assign(new EventTarget(), { setTimeout: () => 0 }) });
  const hint = { hidden: true, textContent: "" };
  const field = new EventTarget();
  const wheel = new WheelGate(
    /** @type {HTMLElement} */ (/** @type {unknown} */ (canvas)),
    /** @type {HTMLElement} */ (/** @type {unknown} */ (hint)),
    "graph",
  );
  const given = { canvas, wheel, finder: { field }, view: null };
  const dag = new Proxy(given, {
    get: (target, name) =>
      name in target ? Reflect.get(target, name) : (/** @type {unknown[]} */ ...values) => {
        calls.push([String(name), ...values.filter((value) => value !== undefined)].join(" "));
      },
  });
  listen(/** @type {Dag} */ (/** @type {unknown} */ (dag)), new AbortController().signal);
  return { calls, canvas, hint };
}

test("keys mean what their buttons say, and not with Ctrl", () => {
  const { calls, canvas } = listening();
  for (const key of ["f", "F", "+", "-", "m", "n", "x"]) {
    canvas.dispatchEvent(happening("keydown", { key, ctrlKey: false }));
  }
  canvas.dispatchEvent(happening("keydown", { key: "f", ctrlKey: true }));
  canvas.dispatchEvent(happening("keydown", { key: "q" }));
  assert.deepEqual(calls, [
    "fit",
    "fit",
    "zoomBy 1.3",
    `zoomBy ${1 / 1.3}`,
    "foldBy module",
    "foldBy data",
    "toggleFullScreen",
  ]);
});

test("the wheel scrolls the page until the reader has clicked into the graph", () => {
  const { calls, canvas, hint } = listening();
  const turn = () =>
    happening("wheel", {
      deltaY: -100,
      deltaMode: 0,
      clientX: 5,
      clientY: 6,
      ctrlKey: false,
      metaKey: false,
    });
  const first = turn();
  canvas.dispatchEvent(first);
  assert.deepEqual([first.defaultPrevented, calls, hint.hidden], [false, [], false]);
  canvas.dispatchEvent(happening("pointerdown", { button: 2 }));
  const second = turn();
  canvas.dispatchEvent(second);
  assert.deepEqual([second.defaultPrevented, hint.hidden], [true, true]);
  assert.equal(calls.pop(), `zoomBy ${getWheelFactor({ deltaY: -100, deltaMode: 0 })} 5 6`);
  canvas.dispatchEvent(happening("blur"));
  const third = turn();
  canvas.dispatchEvent(third);
  assert.equal(third.defaultPrevented, false);
});

test("with Ctrl, or fingers that part, the wheel zooms at once", () => {
  assert.ok(isForDrawing({ ctrlKey: true, metaKey: false }, false));
  assert.ok(isForDrawing({ ctrlKey: false, metaKey: true }, false));
  assert.ok(!isForDrawing({ ctrlKey: false, metaKey: false }, false));
});
