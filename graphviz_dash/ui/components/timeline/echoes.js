// What Python was told and has not sent back yet.

/** Python's answer comes after the reader's next act, which it must not undo. */
export class Echoes {
  /** @type {(string | null)[]} */
  pending = [];

  /**
   * Notes what Python is told.
   * @param {string | null} text
   * @param {string | null | undefined} asked what Python asks for now
   */
  add(text, asked) {
    if (text !== asked) this.pending.push(text);
  }

  /**
   * Whether `text` is only what Python was told; what was told before it comes no more, nor does
   * anything once Python asks for something else.
   * @param {string | null} text
   */
  has(text) {
    const at = this.pending.indexOf(text);
    this.pending = at < 0 ? [] : this.pending.slice(at + 1);
    return at >= 0;
  }
}
