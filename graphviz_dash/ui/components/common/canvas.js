// Size of a canvas, and points on it.

/** Size of a canvas in CSS pixels. */
export class CanvasSize {
  width = 0;
  height = 0;
  /** Pixels of the screen per CSS pixel. */
  dpr = 1;

  /**
   * @param {number} width
   * @param {number} height
   * @param {number} dpr
   */
  hasSize(width, height, dpr) {
    return width === this.width && height === this.height && dpr === this.dpr;
  }
}

/**
 * Get the point of an event on the canvas, in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {MouseEvent} event
 * @returns {{x: number, y: number}}
 */
export function getPoint(canvas, event) {
  const bounds = canvas.getBoundingClientRect();
  return { x: event.clientX - bounds.left, y: event.clientY - bounds.top };
}
