// Pointer, wheel and keyboard input.

import { getPoint } from "../../../../ui/components/common/canvas.js";
import { GUTTER } from "./layout.js";
import { getToken } from "./model.js";
import { shiftSpan } from "./span.js";

/** @import { Span } from "./span.js" */
/** @import { Timeline } from "./timeline.js" */

/** @typedef {{x: number, y: number}} Point */

/**
 * A drag: its start, and the fixed end of the ruler if the drag moves it.
 * @typedef {{from: Point, window: Span, scroll: number, moved: boolean, ruler: number | null}} Drag
 */

const CLICK_REACH_PX = 3;
const LINE_PX = 18;
const PIXELS_PER_E = 420;

/** @type {Record<string, (t: Timeline) => void>} */
const KEYS = {
  w: (t) => t.zoom(1.6),
  "+": (t) => t.zoom(1.6),
  "=": (t) => t.zoom(1.6),
  s: (t) => t.zoom(1 / 1.6),
  "-": (t) => t.zoom(1 / 1.6),
  a: (t) => t.pan(-0.2),
  d: (t) => t.pan(0.2),
  arrowleft: (t) => t.pan(-0.2),
  arrowright: (t) => t.pan(0.2),
  arrowup: (t) => t.selection.stepLane(-1),
  arrowdown: (t) => t.selection.stepLane(1),
  ".": (t) => t.selection.step(1),
  ",": (t) => t.selection.step(-1),
  f: (t) => t.fit(),
  0: (t) => t.fit(),
  home: (t) => t.fit(),
  enter: (t) => t.zoomToCard(),
  m: (t) => t.ruler.markHere(),
  "?": (t) => t.chrome.toggleKeys(),
  "/": (t) => t.finder.field.focus(),
  z: (t) => t.ruler.zoomTo(),
  delete: (t) => t.ruler.remove(),
  backspace: (t) => t.ruler.remove(),
  escape: (t) => {
    if (!t.chrome.keys.hidden) t.chrome.toggleKeys();
    else if (t.state.selected) t.selection.select(null, null);
    else t.ruler.remove();
  },
};

/** @type {Record<string, (t: Timeline) => void>} keys with Shift if there is a ruler */
const RULER_KEYS = {
  arrowleft: (t) => t.ruler.nudge(-1),
  arrowright: (t) => t.ruler.nudge(1),
};

/**
 * Connect input to a timeline until `signal` aborts.
 * @param {Timeline} t
 * @param {AbortSignal} signal
 */
export function listen(t, signal) {
  listenToPointer(t, signal);
  listenToWheel(t, signal);
  listenToKeys(t, signal);
}

/**
 * Get the zoom factor of a wheel event.
 * @param {{deltaY: number, deltaMode: number}} event
 */
export function getWheelFactor({ deltaY, deltaMode }) {
  return Math.exp((-deltaY * (deltaMode === 1 ? LINE_PX : 1)) / PIXELS_PER_E);
}

/**
 * @param {Timeline} t
 * @param {AbortSignal} signal
 */
function listenToWheel(t, signal) {
  t.canvas.addEventListener("wheel", (event) => {
    if (!t.state.view || !t.wheel.accept(event)) return;
    const { x } = getPoint(t.canvas, event);
    if (x < GUTTER) {
      if (!t.state.overflows(t.viewport.height)) return;
      t.scrollBy(event.deltaY);
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      t.jumpTo(shiftSpan(t.viewport.window, event.deltaX / t.viewport.plot));
    } else t.zoomAt(x, getWheelFactor(event));
    event.preventDefault();
  }, { signal, passive: false });
}

/**
 * @param {Timeline} t
 * @param {AbortSignal} signal
 */
function listenToPointer(t, signal) {
  const { canvas } = t;
  /** @type {Drag | null} */
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !t.state.view) return;
    canvas.setPointerCapture(event.pointerId);
    t.viewport.target = null;
    drag = startDrag(t, getPoint(canvas, event), event.shiftKey);
  }, { signal });
  canvas.addEventListener("pointermove", (event) => {
    if (!t.state.view) return;
    const point = t.viewport.pointer = getPoint(canvas, event);
    if (drag) return dragTo(t, drag, point);
    t.updateHover();
    const measures = event.shiftKey || t.ruler.findEnd(point.x) >= 0;
    canvas.style.cursor = measures
      ? "col-resize"
      : t.state.hover?.kind === "slice"
      ? "pointer"
      : "";
    t.renderer.paint();
  }, { signal });
  canvas.addEventListener("pointerup", (event) => {
    if (drag) endDrag(t, drag, getPoint(canvas, event));
    drag = null;
  }, { signal });
  canvas.addEventListener("pointercancel", () => {
    drag = null;
    t.renderer.paint();
  }, { signal });
  canvas.addEventListener("pointerleave", () => {
    t.viewport.pointer = null;
    t.updateHover();
    t.renderer.paint();
  }, { signal });
  canvas.addEventListener("dblclick", (event) => {
    const { x, y } = getPoint(canvas, event);
    const hover = t.state.findHover(t.viewport, x, y);
    if (hover?.kind === "slice") {
      t.zoomTo([hover.lane.start[hover.i], hover.lane.end[hover.i]]);
    } else if (hover) t.zoom(4);
  }, { signal });
}

/**
 * @param {Timeline} t
 * @param {Point} from
 * @param {boolean} shift
 * @returns {Drag}
 */
function startDrag(t, from, shift) {
  const end = t.ruler.findEnd(from.x);
  const other = t.state.ruler && end >= 0 ? t.state.ruler[1 - end] : null;
  const ruler = other ?? (shift ? t.ruler.snap(from.x, from.y) : null);
  const { window, scroll } = t.viewport;
  return { from, window, scroll, moved: false, ruler };
}

/**
 * @param {Timeline} t
 * @param {Drag} drag
 * @param {Point} point
 */
function dragTo(t, drag, point) {
  const { from } = drag;
  if (Math.hypot(point.x - from.x, point.y - from.y) > CLICK_REACH_PX) drag.moved = true;
  t.clearHover();
  if (!drag.moved) return;
  if (drag.ruler !== null) return t.ruler.place(drag.ruler, t.ruler.snap(point.x, point.y));
  t.scrollBy(drag.scroll + from.y - point.y - t.viewport.scroll);
  t.canvas.style.cursor = "grabbing";
  t.setWindow(shiftSpan(drag.window, (from.x - point.x) / t.viewport.plot));
}

/**
 * @param {Timeline} t
 * @param {Drag} drag
 * @param {Point} point
 */
function endDrag(t, drag, point) {
  t.canvas.style.cursor = "";
  if (drag.ruler !== null) {
    if (drag.moved) t.ruler.save();
  } else if (!drag.moved) {
    const hover = t.state.findHover(t.viewport, point.x, point.y);
    if (hover?.kind === "slice" && hover.lane.kind !== "range") {
      t.selection.select(hover.run.run, getToken(hover.lane, hover.i));
    } else if (t.state.selected) t.selection.select(null, null);
  }
  t.renderer.paint();
}

/**
 * @param {Timeline} t
 * @param {AbortSignal} signal
 */
function listenToKeys(t, signal) {
  t.canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !t.state.view) return;
    const name = event.key.toLowerCase();
    const rulerAction = event.shiftKey && t.state.ruler ? RULER_KEYS[name] : undefined;
    const action = rulerAction ?? KEYS[name];
    if (!action) return;
    // The page has shortcuts too. Keys pressed here are for the timeline only.
    event.preventDefault();
    event.stopPropagation();
    action(t);
  }, { signal });
}
