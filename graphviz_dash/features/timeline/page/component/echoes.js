// Values sent to Python that it has not sent back yet.

/** Python sends a value back late. It must not undo later actions of the reader. */
export class Echoes {
  /** @type {(string | null)[]} */
  pending = [];

  /**
   * Record a value sent to Python.
   * @param {string | null} text
   * @param {string | null | undefined} current the value according to Python
   */
  add(text, current) {
    if (text !== current) this.pending.push(text);
  }

  /**
   * Whether Python only sends a value back. Earlier values are then no longer expected; any other
   * value drops all.
   * @param {string | null} text
   */
  has(text) {
    const at = this.pending.indexOf(text);
    this.pending = at < 0 ? [] : this.pending.slice(at + 1);
    return at >= 0;
  }
}
