// The selected slice: its card, and navigation from slice to slice.

import { formatTime } from "../../../../ui/components/common/numbers.js";
import { fetchJson, getMessage } from "../../../../ui/components/common/server.js";
import { Echoes } from "./echoes.js";
import { getToken, parseSelection } from "./model.js";
import { renderPanel } from "./panel.js";

/** @import { Slice } from "./model.js" */
/** @import { Timeline } from "./timeline.js" */
/** @import { SliceCard } from "./wire.js" */

const REPORT_MS = 120;

export class Selection {
  /** @type {string | null | undefined} the selection according to Python */
  pythonSelected = undefined;
  echoes = new Echoes();
  reportTimer = 0;
  cardRequest = new AbortController();

  /** @param {Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
  }

  dispose() {
    clearTimeout(this.reportTimer);
  }

  /**
   * Apply the selection from Python if it has changed.
   * @param {string | null} selected
   */
  sync(selected) {
    if (selected === this.pythonSelected) return;
    this.pythonSelected = selected;
    const echo = this.echoes.has(selected);
    if (!echo && selected !== this.timeline.state.selected) this.setFromPython(selected);
  }

  /**
   * Select a slice, or clear the selection, and report it to Python.
   * @param {string | null} run
   * @param {string | null} token
   * @param {boolean} [reveal] make the slice visible
   */
  async select(run, token, reveal = false) {
    const { state } = this.timeline;
    const next = run && token ? `${run}/${token}` : null;
    const changed = next !== state.selected;
    state.selected = next;
    await this.loadCard(run, token, reveal);
    // The report runs the script of the page, which would delay the card.
    if (changed && next === state.selected) this.reportLater();
  }

  /**
   * @param {Slice | null} slice
   * @param {boolean} [reveal]
   */
  selectSlice(slice, reveal) {
    if (slice) this.select(slice.run.run, getToken(slice.lane, slice.i), reveal);
  }

  /** Report the selection to Python after the last of several quick selections. */
  reportLater() {
    const { timeline } = this;
    clearTimeout(this.reportTimer);
    const at = Date.now();
    this.reportTimer = window.setTimeout(() => {
      const { selected } = timeline.state;
      this.echoes.add(selected, this.pythonSelected);
      timeline.setStateValue("selected", { slice: selected, at });
    }, REPORT_MS);
  }

  /**
   * Apply a selection from Python without reporting it back.
   * @param {string | null} selected
   */
  setFromPython(selected) {
    this.timeline.state.selected = selected;
    const name = parseSelection(selected);
    if (name) this.loadCard(name.run, name.token, true);
    else this.loadCard(null, null);
  }

  /**
   * Load and show the card of a slice, or clear it.
   * @param {string | null} run
   * @param {string | null} token
   */
  async loadCard(run, token, reveal = false) {
    const { timeline } = this;
    const { state } = timeline;
    this.cardRequest.abort();
    const { signal } = this.cardRequest = new AbortController();
    state.cardProblem = "";
    if (!run || !token) {
      state.card = null;
    } else {
      try {
        /** @type {SliceCard} */
        const card = await fetchJson(`/api/timeline/slice?${state.buildCardQuery(run, token)}`, {
          signal,
        });
        if (signal.aborted) return;
        state.card = card;
        timeline.chrome.announce(`${card.title}, ${formatTime(card.dur)}, in ${card.run}`);
        if (reveal) this.reveal(card);
      } catch (error) {
        if (signal.aborted) return;
        state.card = null;
        state.cardProblem = `Could not load the slice: ${getMessage(error)}`;
      }
      performance.mark("timeline:card");
    }
    renderPanel(timeline);
    timeline.setHeight();
    timeline.renderer.paint();
    timeline.canvas.dataset.card = state.cardName ?? "";
  }

  /** Load the card again when the server knows more. */
  reload() {
    const { card } = this.timeline.state;
    if (card) this.loadCard(card.run, card.token);
  }

  /**
   * Make a slice visible at the current zoom, unless it would be too narrow or too wide. Before the
   * first view the slice waits for it.
   * @param {SliceCard} card
   */
  reveal(card) {
    const { state, viewport } = this.timeline;
    state.pendingReveal = state.view ? null : card;
    if (!state.view) return;
    const span = viewport.computeReveal(card);
    if (span) this.timeline.glideTo(span);
  }

  /**
   * Select the slice `by` places after the selected one on its lane, or the first visible one.
   * @param {number} by
   */
  step(by) {
    const { state } = this.timeline;
    const selected = state.selectedSlice;
    if (!selected) return this.selectFirst();
    this.selectSlice(state.findSliceAfter(selected, by), true);
  }

  selectFirst() {
    const { chrome, state, viewport } = this.timeline;
    if (state.view?.level === "busy") chrome.announce("Zoom in to select slices");
    this.selectSlice(state.findFirstSlice(viewport.window));
  }

  /**
   * Select the slice at the same time on the next lane.
   * @param {1 | -1} by 1: below, -1: above
   */
  stepLane(by) {
    const { state } = this.timeline;
    const selected = state.selectedSlice;
    if (!selected || !state.layout) return this.selectFirst();
    this.selectSlice(state.findSliceOnLane(selected, by), true);
  }
}
