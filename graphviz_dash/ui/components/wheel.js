// Whom a turn of the wheel is meant for: the page, which it scrolls, or the drawing, which it zooms.

const HINT_MS = 1400;

/**
 * Whether a turn of the wheel is the drawing's: with Ctrl, which is also how browsers tell of two
 * fingers that part, or once the reader has clicked into it; as in maps.
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
   * @param {HTMLElement} canvas is entered by a click, and left where the focus goes elsewhere
   * @param {HTMLElement} hint says how to zoom while the page scrolls over the drawing
   * @param {string} what the drawing is of
   */
  constructor(canvas, hint, what) {
    this.hint = hint;
    hint.textContent = `Ctrl + wheel zooms; so does the wheel after a click into the ${what}`;
    canvas.addEventListener("pointerdown", () => {
      this.entered = true;
      hint.hidden = true;
    });
    canvas.addEventListener("blur", () => (this.entered = false));
  }

  /**
   * Whether the drawing takes a turn of the wheel; tells how to where it does not.
   * @param {WheelEvent} event
   */
  accept(event) {
    const takes = isForDrawing(event, this.entered);
    this.hint.hidden = takes;
    clearTimeout(this.timer);
    if (!takes) this.timer = window.setTimeout(() => (this.hint.hidden = true), HINT_MS);
    return takes;
  }
}
