// The ruler: a length between two instants, which stays until it is removed.

const SNAP_PX = 6;
const GRASP_PX = 5;

/** What Python was told and has not sent back yet: its answer comes after the reader's next act, which
 * it must not undo. */
class Told {
  constructor() {
    this.waiting = [];
  }

  say(text, asked) {
    if (text !== asked) this.waiting.push(text);
  }

  /** Whether ``text`` is only what Python was told; what was told before it comes no more, nor does
   * anything once Python asks for something else. */
  echoes(text) {
    const at = this.waiting.indexOf(text);
    this.waiting = at < 0 ? [] : this.waiting.slice(at + 1);
    return at >= 0;
  }
}

class Ruler {
  constructor(t, box) {
    this.t = t;
    this.box = box;
    this.span = null;
    this.mark = null;
    this.lines = [];
    this.asked = undefined;
    this.told = new Told();
  }

  /** Takes the ruler that Python asks for, when that has changed. */
  follow(text) {
    if (text === this.asked) return;
    this.asked = text;
    if (this.told.echoes(text) || text === this.text) return;
    const ends = text ? text.split(",").map(Number) : [];
    this.span = ends.length === 2 && ends.every(Number.isFinite) ? ends : null;
    this.lines = [];
    this.shown();
  }

  get text() {
    return this.span ? this.span.join(",") : null;
  }

  /** The time at (x, y), or the nearest edge of a slice of that lane if one is close. */
  snap(x, y) {
    const { t } = this;
    const at = t.time(Math.max(GUTTER, x));
    const found = t.hit(x, y);
    if (!found || !found.lane || !found.lane.count) return at;
    const { lane } = found;
    const next = countUpTo(lane.start, at);
    let [best, distance] = [at, (SNAP_PX * (t.window[1] - t.window[0])) / t.plot];
    for (const i of [next - 1, next]) {
      if (i < 0 || i >= lane.count) continue;
      for (const edge of [lane.start[i], lane.end[i]])
        if (Math.abs(edge - at) < distance) [best, distance] = [edge, Math.abs(edge - at)];
    }
    return best;
  }

  /** Which end lies under x: 0, 1, or -1 for none. */
  endAt(x) {
    if (!this.span || x < GUTTER) return -1;
    const away = this.span.map((at) => Math.abs(this.t.x(at) - x));
    const end = away[0] < away[1] ? 0 : 1;
    return away[end] <= GRASP_PX ? end : -1;
  }

  /** Lays it between two instants, while it is still being moved. */
  lay(a, b) {
    this.span = [Math.round(Math.min(a, b)), Math.round(Math.max(a, b))];
    this.lines = [];
    this.t.canvas.dataset.ruler = this.text;
    this.render();
    this.t.paint();
  }

  /** Tells Python of it, so that the address has it. */
  keep() {
    const { t, span } = this;
    this.told.say(this.text, this.asked);
    t.setStateValue("ruler", { span, at: Date.now() });
    t.live.textContent = span ? `Ruler of ${formatTime(span[1] - span[0])}` : "Ruler removed";
    this.shown();
  }

  shown() {
    const { t } = this;
    t.canvas.dataset.ruler = this.text || "";
    this.render();
    if (t.view) t.paint();
    this.measure();
  }

  remove() {
    if (!this.span) return;
    this.span = this.mark = null;
    this.keep();
  }

  zoomTo() {
    if (!this.span || this.span[1] <= this.span[0]) return;
    const air = (this.span[1] - this.span[0]) * 0.04;
    this.t.glide([this.span[0] - air, this.span[1] + air]);
  }

  /** Moves its end by a pixel. */
  nudge(by) {
    const { t, span } = this;
    const pixel = Math.max(1, Math.round((t.window[1] - t.window[0]) / t.plot));
    this.lay(span[0], Math.max(span[0], span[1] + by * pixel));
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => this.keep(), 400);
  }

  /** Lays it by keys: over the selected slice or from the pointer, then on to where that is next. */
  markHere() {
    const { t } = this;
    const here = t.cursor === null ? (t.window[0] + t.window[1]) / 2 : t.cursor;
    const [begin, end] = t.selectedSpan() || [here, here];
    if (this.mark === null) {
      this.mark = begin;
      this.lay(begin, end);
    } else {
      this.lay(Math.min(this.mark, begin), Math.max(this.mark, end));
      this.mark = null;
    }
    this.keep();
  }

  /** Asks what runs between its ends. */
  async measure() {
    const { t, text } = this;
    if (!this.span) return;
    const query = new URLSearchParams(t.query);
    query.set("t0", String(this.span[0]));
    query.set("t1", String(this.span[1]));
    try {
      const answer = await fetch(`/api/timeline/measure?${query}`);
      const body = await answer.json();
      if (text !== this.text) return;
      this.lines = answer.ok ? body.lines : [["", body.error ? body.error.message : ""]];
    } catch (problem) {
      this.lines = [["", `What runs there could not be asked: ${problem.message}`]];
    }
    this.render();
  }

  render() {
    const { box, span } = this;
    box.hidden = !span;
    if (!span) return;
    const head = element("div", "length");
    head.append(
      element("b", "", formatTime(span[1] - span[0])),
      element("span", "", `from ${formatTime(span[0])} to ${formatTime(span[1])}`),
    );
    const list = element("dl");
    for (const [what, text] of this.lines)
      list.append(element("dt", "", what), element("dd", "", text));
    const actions = element("div", "actions");
    actions.append(
      button("Zoom to it", "Zoom to the ruler (Z)", () => this.zoomTo()),
      button("Remove", "Remove the ruler (Del)", () => this.remove()),
    );
    box.replaceChildren(head, list, actions);
  }
}
