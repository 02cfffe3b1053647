// Decides whether the wheel scrolls the page or zooms the drawing.

const HINT_MS = 1400;

/**
 * Whether a wheel event zooms the drawing: with Ctrl, which browsers also set for pinch gestures, or
 * after a click into the drawing, as in maps.
 * @param {{ctrlKey: boolean, metaKey: boolean}} event
 * @param {boolean} entered
 */
export function isForDrawing({ ctrlKey, metaKey }, entered) {
  return ctrlKey || metaKey || entered;
}

export class WheelGate {
  entered = false;
  timer = 0;

  /**
   * @param {HTMLElement} canvas entered by a click, left when it loses the focus
   * @param {HTMLElement} hint explains how to zoom while the page scrolls
   * @param {string} noun for the drawing
   */
  constructor(canvas, hint, noun) {
    this.hint = hint;
    hint.textContent = `Ctrl + wheel zooms. Click the ${noun} to zoom with the wheel alone.`;
    canvas.addEventListener("pointerdown", () => {
      this.entered = true;
      hint.hidden = true;
    });
    canvas.addEventListener("blur", () => (this.entered = false));
  }

  /**
   * Decide whether a wheel event zooms the drawing; if not, show the hint.
   * @param {WheelEvent} event
   */
  accept(event) {
    const accepted = isForDrawing(event, this.entered);
    this.hint.hidden = accepted;
    clearTimeout(this.timer);
    if (!accepted) this.timer = window.setTimeout(() => (this.hint.hidden = true), HINT_MS);
    return accepted;
  }
}
