// Pointer and keyboard of the DAG.

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
  arrowright: (dag) => dag.beside(1),
  arrowleft: (dag) => dag.beside(-1),
  enter: (dag) => dag.act(dag.focusBox()),
  " ": (dag) => dag.act(dag.focusBox()),
  escape: (dag) => dag.clear(),
  "[": (dag) => dag.repeat.step(-1),
  "]": (dag) => dag.repeat.step(1),
  e: (dag) => dag.edges.next(),
  m: (dag) => dag.foldByModule(),
};

function listenDag(dag, signal) {
  const { canvas } = dag;
  const at = (event) => {
    const bounds = canvas.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  };
  let drag = null;
  canvas.addEventListener(
    "pointerdown",
    (event) => {
      if (event.button !== 0) return;
      canvas.focus({ preventScroll: true });
      canvas.setPointerCapture(event.pointerId);
      const [x, y] = at(event);
      const map = mapOf(dag);
      const inMap = map && x >= map.x && y >= map.y && x <= map.x + map.w && y <= map.y + map.h;
      drag = { x, y, startX: dag.x, startY: dag.y, moved: false, map: inMap };
      if (inMap) dag.lookAt((x - map.x) / map.scale, (y - map.y) / map.scale);
    },
    { signal },
  );
  canvas.addEventListener(
    "pointermove",
    (event) => {
      const [x, y] = at(event);
      if (!drag) return dag.hoverAt(x, y);
      if (drag.map) {
        const map = mapOf(dag);
        if (map) dag.lookAt((x - map.x) / map.scale, (y - map.y) / map.scale);
        return;
      }
      if (Math.hypot(x - drag.x, y - drag.y) > 4) drag.moved = true;
      if (!drag.moved) return;
      canvas.style.cursor = "grabbing";
      dag.x = drag.startX + x - drag.x;
      dag.y = drag.startY + y - drag.y;
      dag.move();
    },
    { signal },
  );
  canvas.addEventListener(
    "pointerup",
    (event) => {
      const [x, y] = at(event);
      const clicked = drag && !drag.moved && !drag.map;
      drag = null;
      canvas.style.cursor = "";
      if (clicked) dag.clickAt(x, y);
    },
    { signal },
  );
  canvas.addEventListener("pointercancel", () => (drag = null), { signal });
  canvas.addEventListener("pointerleave", () => dag.hide(), { signal });
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const [x, y] = at(event);
      const lines = event.deltaMode === 1 ? 16 : 1;
      dag.zoomBy(Math.exp(-event.deltaY * lines * 0.0016), x, y);
    },
    { signal, passive: false },
  );
  canvas.addEventListener(
    "keydown",
    (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const action = KEYS[event.key.toLowerCase()];
      if (!action) return;
      event.preventDefault();
      event.stopPropagation();
      action(dag);
    },
    { signal },
  );
  // The field says so itself: this key leads to it from wherever nobody is writing.
  window.addEventListener(
    "keydown",
    (event) => {
      const from = event.composedPath()[0];
      const writes = from.matches?.("input, textarea, select") || from.isContentEditable;
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || writes) return;
      event.preventDefault();
      dag.search.focus();
    },
    { signal },
  );
  dag.search.addEventListener("input", () => dag.type(), { signal });
  dag.search.addEventListener(
    "keydown",
    (event) => {
      event.stopPropagation();
      if (event.key === "Enter") dag.nextHit(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") {
        dag.search.value = "";
        dag.type();
        dag.canvas.focus();
      }
    },
    { signal },
  );
}
