// Pointer, wheel and keyboard input.

import { getPoint } from "../../../../ui/components/common/canvas.js";
import { contains } from "./geometry.js";

/** @import { Dag } from "./dag.js" */

export const BY_MODULE = "module";
export const BY_DATA = "data";

const CLICK_REACH_PX = 4;
const LINE_PX = 16;

/** @type {Record<string, (dag: Dag) => void>} */
const KEYS = {
  f: (dag) => dag.fit(),
  "+": (dag) => dag.zoomBy(1.3),
  "=": (dag) => dag.zoomBy(1.3),
  "-": (dag) => dag.zoomBy(1 / 1.3),
  w: (dag) => dag.pan(0, 60),
  s: (dag) => dag.pan(0, -60),
  a: (dag) => dag.pan(60, 0),
  d: (dag) => dag.pan(-60, 0),
  arrowdown: (dag) => dag.walk("target"),
  arrowup: (dag) => dag.walk("source"),
  arrowright: (dag) => dag.moveToSide(1),
  arrowleft: (dag) => dag.moveToSide(-1),
  enter: (dag) => dag.activate(dag.state.focusBox),
  " ": (dag) => dag.activate(dag.state.focusBox),
  escape: (dag) => dag.clearSelection(),
  "[": (dag) => dag.repeatBar.step(-1),
  "]": (dag) => dag.repeatBar.step(1),
  e: (dag) => dag.edgeCard.openNext(),
  m: (dag) => dag.foldBy(BY_MODULE),
  n: (dag) => dag.foldBy(BY_DATA),
  x: (dag) => dag.toggleFullScreen(),
};

/**
 * Connect input to a DAG until `signal` aborts.
 * @param {Dag} dag
 * @param {AbortSignal} signal
 */
export function listen(dag, signal) {
  listenToPointer(dag, signal);
  listenToWheel(dag, signal);
  listenToKeys(dag, signal);
  listenToSearch(dag, signal);
}

/**
 * Get the zoom factor of a wheel event.
 * @param {{deltaY: number, deltaMode: number}} event
 */
export function getWheelFactor({ deltaY, deltaMode }) {
  return Math.exp(-deltaY * (deltaMode === 1 ? LINE_PX : 1) * 0.0016);
}

/**
 * @param {Dag} dag
 * @param {AbortSignal} signal
 */
function listenToPointer(dag, signal) {
  const { canvas } = dag;
  /** @type {{x: number, y: number, cameraX: number, cameraY: number, moved: boolean, map: boolean} | null} */
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    const { x, y } = getPoint(canvas, event);
    const { state, viewport } = dag;
    const map = state.view && viewport.placeMap(state.view);
    const onMap = map !== null && contains(map, x, y);
    drag = { x, y, cameraX: viewport.x, cameraY: viewport.y, moved: false, map: onMap };
    if (onMap) dag.panToMapPoint(x, y);
  }, { signal });
  canvas.addEventListener("pointermove", (event) => {
    const { x, y } = getPoint(canvas, event);
    if (!drag) return dag.hoverAt(x, y);
    if (drag.map) return dag.panToMapPoint(x, y);
    if (Math.hypot(x - drag.x, y - drag.y) > CLICK_REACH_PX) drag.moved = true;
    if (!drag.moved) return;
    canvas.style.cursor = "grabbing";
    dag.viewport.x = drag.cameraX + x - drag.x;
    dag.viewport.y = drag.cameraY + y - drag.y;
    dag.drawMotion();
  }, { signal });
  canvas.addEventListener("pointerup", (event) => {
    const { x, y } = getPoint(canvas, event);
    const clicked = drag && !drag.moved && !drag.map;
    drag = null;
    canvas.style.cursor = "";
    if (clicked) dag.clickAt(x, y);
  }, { signal });
  canvas.addEventListener("pointercancel", () => (drag = null), { signal });
  canvas.addEventListener("pointerleave", () => dag.clearHover(), { signal });
}

/**
 * @param {Dag} dag
 * @param {AbortSignal} signal
 */
function listenToWheel(dag, signal) {
  dag.canvas.addEventListener("wheel", (event) => {
    if (!dag.wheel.accept(event)) return;
    event.preventDefault();
    const { x, y } = getPoint(dag.canvas, event);
    dag.zoomBy(getWheelFactor(event), x, y);
  }, { signal, passive: false });
}

/**
 * @param {Dag} dag
 * @param {AbortSignal} signal
 */
function listenToKeys(dag, signal) {
  dag.canvas.addEventListener("keydown", (event) => {
    const action = hasModifier(event) ? undefined : KEYS[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action(dag);
  }, { signal });
  // The placeholder of the search field names this key. It works unless an input has the focus.
  window.addEventListener("keydown", (event) => {
    const target = event.composedPath()[0];
    const isInput = target instanceof HTMLElement &&
      (target.matches("input, textarea, select") || target.isContentEditable);
    if (event.key !== "/" || hasModifier(event) || isInput) return;
    event.preventDefault();
    dag.finder.field.focus();
  }, { signal });
}

/**
 * @param {Dag} dag
 * @param {AbortSignal} signal
 */
function listenToSearch(dag, signal) {
  const { finder } = dag;
  finder.field.addEventListener("input", () => finder.searchLater(), { signal });
  finder.field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") finder.visitNext(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") finder.reset();
  }, { signal });
}

/** @param {KeyboardEvent} event */
function hasModifier(event) {
  return event.ctrlKey || event.metaKey || event.altKey;
}
