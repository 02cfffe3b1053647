// What the reader does with pointer, wheel and keyboard, told to a timeline.

/** Pointer, wheel and keyboard of a timeline's canvas. */
function listen(t, signal) {
  const { canvas } = t;
  const on = (name, act, more) => canvas.addEventListener(name, act, { signal, ...more });
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  let drag = null;

  on(
    "wheel",
    (event) => {
      if (!t.view) return;
      const [x] = place(event);
      const overflow = t.layout.total > t.height;
      if (x < GUTTER) {
        if (!overflow) return;
        t.scroll += event.deltaY;
        t.relayout();
        t.paint();
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        const shift = (event.deltaX / t.plot) * (t.window[1] - t.window[0]);
        t.target = null;
        t.show([t.window[0] + shift, t.window[1] + shift]);
      } else {
        const lines = event.deltaMode === 1 ? 18 : 1;
        t.zoomAt(x, Math.exp((-event.deltaY * lines) / 420));
      }
      event.preventDefault();
    },
    { passive: false },
  );

  on("pointerdown", (event) => {
    if (event.button !== 0 || !t.view) return;
    const [x, y] = place(event);
    canvas.setPointerCapture(event.pointerId);
    t.target = null;
    drag = { x, y, window: t.window.slice(), scroll: t.scroll, moved: false };
    const end = t.ruler.endAt(x);
    if (end >= 0) drag.measure = t.ruler.span[1 - end];
    else if (event.shiftKey) drag.measure = t.ruler.snap(x, y);
  });

  on("pointermove", (event) => {
    if (!t.view) return;
    const [x, y] = place(event);
    t.pointer = [x, y];
    if (drag) {
      if (Math.hypot(x - drag.x, y - drag.y) > 3) drag.moved = true;
      if (drag.moved) dragTo(x, y);
      t.hover = null;
      t.tooltip.hidden = true;
      return;
    }
    t.look();
    const measures = event.shiftKey || t.ruler.endAt(x) >= 0;
    canvas.style.cursor = measures ? "col-resize" : t.hover && t.hover.i >= 0 ? "pointer" : "";
    t.paint();
  });

  const dragTo = (x, y) => {
    t.hover = null;
    if (drag.measure !== undefined) return t.ruler.lay(drag.measure, t.ruler.snap(x, y));
    const shift = ((drag.x - x) / t.plot) * (drag.window[1] - drag.window[0]);
    t.scroll = drag.scroll + drag.y - y;
    t.relayout();
    canvas.style.cursor = "grabbing";
    t.show([drag.window[0] + shift, drag.window[1] + shift]);
  };

  on("pointerup", (event) => {
    if (!drag) return;
    const [x, y] = place(event);
    const was = drag;
    drag = null;
    canvas.style.cursor = "";
    if (was.measure !== undefined) {
      if (was.moved) t.ruler.keep();
    } else if (!was.moved) {
      const found = t.hit(x, y);
      if (found && found.i >= 0) t.select(found.run.run, tokenOf(found.lane, found.i));
      else if (t.selected) t.select(null, null);
    }
    t.paint();
  });

  on("pointercancel", () => {
    drag = null;
    t.paint();
  });

  on("pointerleave", () => {
    t.pointer = null;
    t.look();
    t.paint();
  });

  on("dblclick", (event) => {
    const found = t.hit(...place(event));
    if (found && found.i >= 0) t.zoomTo(found.lane.start[found.i], found.lane.end[found.i]);
    else if (found) t.zoom(4);
  });

  const keys = {
    w: () => t.zoom(1.6),
    "+": () => t.zoom(1.6),
    "=": () => t.zoom(1.6),
    s: () => t.zoom(1 / 1.6),
    "-": () => t.zoom(1 / 1.6),
    a: () => t.pan(-0.2),
    d: () => t.pan(0.2),
    arrowleft: () => t.pan(-0.2),
    arrowright: () => t.pan(0.2),
    arrowup: () => t.stepLane(-1),
    arrowdown: () => t.stepLane(1),
    ".": () => t.step(1),
    ",": () => t.step(-1),
    f: () => t.fit(),
    0: () => t.fit(),
    home: () => t.fit(),
    enter: () => t.zoomToCard(),
    m: () => t.ruler.markHere(),
    z: () => t.ruler.zoomTo(),
    delete: () => t.ruler.remove(),
    backspace: () => t.ruler.remove(),
    escape: () => (t.selected ? t.select(null, null) : t.ruler.remove()),
  };
  const withShift = {
    arrowleft: () => t.ruler.nudge(-1),
    arrowright: () => t.ruler.nudge(1),
  };
  on("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !t.view) return;
    const name = event.key.toLowerCase();
    const act = (event.shiftKey && t.ruler.span && withShift[name]) || keys[name];
    if (!act) return;
    // The page has keys of its own; those pressed here are meant for the timeline.
    event.preventDefault();
    event.stopPropagation();
    act();
  });
}
