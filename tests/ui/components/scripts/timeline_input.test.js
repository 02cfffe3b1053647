// What the reader's keys and wheel do to the timeline.

import assert from "node:assert/strict";
import { test } from "node:test";

import { listen } from "../../../../graphviz_dash/features/timeline/page/component/input.js";
import { GUTTER } from "../../../../graphviz_dash/features/timeline/page/component/layout.js";

/** @import { TimelineState } from "../../../../graphviz_dash/features/timeline/page/component/state.js" */
/** @import { Timeline } from "../../../../graphviz_dash/features/timeline/page/component/timeline.js" */

/**
 * A timeline that only writes down what is asked of it.
 * @param {object} given what it has
 * @param {Partial<TimelineState>} [state]
 */
function listening(given, state) {
  /** @type {string[]} */
  const calls = [];
  /** @type {(prefix: string, known: object) => object} */
  const noting = (prefix, known) =>
    new Proxy(known, {
      get: (target, name) =>
        name in target ? Reflect.get(target, name) : (/** @type {unknown[]} */ ...values) => {
          calls.push([prefix + String(name), ...values].join(" "));
        },
    });
  const canvas = Object.assign(new EventTarget(), {
    style: {},
    getBoundingClientRect: () => ({ left: 0, top: 0 }),
  });
  const viewport = { window: [0, 1000], plot: 500, height: 300 };
  const timeline = noting("", {
    canvas,
    viewport,
    state: { view: {}, selected: null, ruler: null, overflows: () => true, ...state },
    ruler: noting("ruler.", {}),
    selection: noting("selection.", {}),
    chrome: noting("chrome.", { keys: { hidden: true } }),
    ...given,
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
  const { calls, send } = listening({});
  for (const key of ["w", "ArrowRight", ".", "F", "?", "Escape"]) send("keydown", { key });
  assert.deepEqual(calls, [
    "zoom 1.6",
    "pan 0.2",
    "selection.step 1",
    "fit",
    "chrome.toggleKeys",
    "ruler.remove",
  ]);
});

test("Escape first takes away the list of keys, then the selection", () => {
  const calls = ["a", "b"].map((selected) => {
    const chrome = { keys: { hidden: selected === "b" }, toggleKeys: () => undone.push("keys") };
    /** @type {string[]} */
    const undone = [];
    const shown = listening({ chrome }, { selected });
    shown.send("keydown", { key: "Escape" });
    return [...undone, ...shown.calls].join();
  });
  assert.deepEqual(calls, ["keys", "selection.select  "]);
});

test("with Shift the arrows move the ruler while one lies", () => {
  const { calls, send } = listening({}, { ruler: [1, 2] });
  send("keydown", { key: "ArrowLeft", shiftKey: true });
  assert.deepEqual(calls, ["ruler.nudge -1"]);
  const none = listening({});
  none.send("keydown", { key: "ArrowLeft", shiftKey: true });
  assert.deepEqual(none.calls, ["pan -0.2"]);
});

test("a turn of the wheel that is the timeline's zooms, pans, or scrolls the lanes", () => {
  const { calls, send } = listening({ wheel: { accept: () => true } });
  const turn = { deltaX: 0, deltaY: 90, deltaMode: 0, clientY: 0 };
  send("wheel", { ...turn, clientX: GUTTER - 1 });
  send("wheel", { ...turn, clientX: GUTTER + 5, deltaX: 100 });
  const zoomed = send("wheel", { ...turn, clientX: GUTTER + 5 });
  assert.ok(zoomed.defaultPrevented);
  assert.deepEqual(calls.slice(0, 2), ["scrollBy 90", "jumpTo 200,1200"]);
  assert.match(calls[2], /^zoomAt /);
});

test("a turn of the wheel that is the page's changes nothing", () => {
  const { calls, send } = listening({ wheel: { accept: () => false } });
  const event = send("wheel", { deltaX: 0, deltaY: 90, deltaMode: 0, clientX: 500, clientY: 0 });
  assert.ok(!event.defaultPrevented);
  assert.deepEqual(calls, []);
});
