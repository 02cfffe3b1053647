// What the reader's keys and wheel do to the timeline.

import assert from "node:assert/strict";
import { test } from "node:test";

import { listen } from "../../../../graphviz_dash/features/timeline/page/component/input.js";
import { GUTTER } from "../../../../graphviz_dash/features/timeline/page/component/layout.js";

/** @import { Timeline } from "../../../../graphviz_dash/features/timeline/page/component/timeline.js" */

/**
 * A timeline that only writes down what is asked of it.
 * @param {object} given what it has
 */
function listening(given) {
  /** @type {string[]} */
  const calls = [];
  const canvas = Object.assign(new EventTarget(), {
    style: {},
    getBoundingClientRect: () => ({ left: 0, top: 0 }),
  });
  const known = { canvas, view: {}, window: [0, 1000], plot: 500, overflows: true, ...given };
  /** @type {(name: string) => (...values: unknown[]) => void} */
  const writing = (name) => (...values) => calls.push([name, ...values].join(" "));
  const ruler = new Proxy({ span: null, ...Reflect.get(given, "ruler") }, {
    get: (target, name) =>
      name in target ? Reflect.get(target, name) : writing(`ruler.${String(name)}`),
  });
  const timeline = new Proxy({ ...known, ruler }, {
    get: (target, name) => name in target ? Reflect.get(target, name) : writing(String(name)),
  });
  listen(
    /** @type {Timeline} */ (/** @type {unknown} */ (timeline)),
    new AbortController().signal,
  );
  /** @type {(type: string, fields: object) => Event} */
  const send = (type, fields) => {
    const event = Object.assign(new Event(type, { cancelable: true }), fields);
    canvas.dispatchEvent(event);
    return event;
  };
  return { calls, send };
}

test("keys zoom, pan, step and show their own list", () => {
  const { calls, send } = listening({ selected: null, keys: { hidden: true } });
  for (const key of ["w", "ArrowRight", ".", "F", "?", "Escape"]) send("keydown", { key });
  assert.deepEqual(calls, ["zoom 1.6", "pan 0.2", "step 1", "fit", "showKeys", "ruler.remove"]);
});

test("Escape first takes away the list of keys", () => {
  const { calls, send } = listening({ selected: "a", keys: { hidden: false } });
  send("keydown", { key: "Escape" });
  assert.deepEqual(calls, ["showKeys"]);
});

test("with Shift the arrows move the ruler while one lies", () => {
  const { calls, send } = listening({ ruler: { span: [1, 2] } });
  send("keydown", { key: "ArrowLeft", shiftKey: true });
  assert.deepEqual(calls, ["ruler.nudge -1"]);
  const none = listening({});
  none.send("keydown", { key: "ArrowLeft", shiftKey: true });
  assert.deepEqual(none.calls, ["pan -0.2"]);
});

test("a turn of the wheel that is the timeline's zooms, pans, or scrolls the lanes", () => {
  const { calls, send } = listening({ wheel: { takes: () => true } });
  const turn = { deltaX: 0, deltaY: 90, deltaMode: 0, clientY: 0 };
  send("wheel", { ...turn, clientX: GUTTER - 1 });
  send("wheel", { ...turn, clientX: GUTTER + 5, deltaX: 100 });
  const zoomed = send("wheel", { ...turn, clientX: GUTTER + 5 });
  assert.ok(zoomed.defaultPrevented);
  assert.deepEqual(calls.slice(0, 2), ["scrollBy 90", "moveTo 200,1200"]);
  assert.match(calls[2], /^zoomAt /);
});

test("a turn of the wheel that is the page's changes nothing", () => {
  const { calls, send } = listening({ wheel: { takes: () => false } });
  const event = send("wheel", { deltaX: 0, deltaY: 90, deltaMode: 0, clientX: 500, clientY: 0 });
  assert.ok(!event.defaultPrevented);
  assert.deepEqual(calls, []);
});
