// The selected slice: its card, and the way from one slice to the next.

import { formatTime } from "../common/numbers.js";
import { fetchJson, getMessage } from "../common/server.js";
import { Echoes } from "./echoes.js";
import { getToken, parseSelection } from "./model.js";
import { renderPanel } from "./panel.js";

/** @import { Slice } from "./model.js" */
/** @import { Timeline } from "./timeline.js" */
/** @import { SliceCard } from "./wire.js" */

const REPORT_MS = 120;

export class Selection {
  /** @type {string | null | undefined} what Python asks for */
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
   * Takes the selection that Python asks for, when that has changed.
   * @param {string | null} selected
   */
  sync(selected) {
    if (selected === this.pythonSelected) return;
    this.pythonSelected = selected;
    const echo = this.echoes.has(selected);
    if (!echo && selected !== this.timeline.state.selected) this.setFromPython(selected);
  }

  /**
   * Selects a slice, or clears; tells Python, and moves there if it is unseen.
   * @param {string | null} run
   * @param {string | null} token
   */
  async select(run, token, reveal = false) {
    const { state } = this.timeline;
    const next = run && token ? `${run}/${token}` : null;
    const changed = next !== state.selected;
    state.selected = next;
    await this.loadCard(run, token, reveal);
    // Only then: the script of the page that this starts would keep the card waiting.
    if (changed && next === state.selected) this.reportLater();
  }

  /**
   * @param {Slice | null} slice
   * @param {boolean} [reveal]
   */
  selectSlice(slice, reveal) {
    if (slice) this.select(slice.run.run, getToken(slice.lane, slice.i), reveal);
  }

  /** Tells Python what is selected once a row of selections has come to its end. */
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
   * Follows a selection that comes from Python, which needs to hear nothing of it.
   * @param {string | null} selected
   */
  setFromPython(selected) {
    this.timeline.state.selected = selected;
    const name = parseSelection(selected);
    if (name) this.loadCard(name.run, name.token, true);
    else this.loadCard(null, null);
  }

  /**
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
        state.cardProblem = `This slice could not be shown: ${getMessage(error)}`;
      }
      performance.mark("timeline:card");
    }
    renderPanel(timeline);
    timeline.setHeight();
    timeline.renderer.paint();
    timeline.canvas.dataset.card = state.cardName ?? "";
  }

  /** Loads the card again, once the server knows more. */
  reload() {
    const { card } = this.timeline.state;
    if (card) this.loadCard(card.run, card.token);
  }

  /**
   * Brings a slice into view, at the present zoom unless it would be too thin or too wide. Before
   * the first view there is nowhere to go yet; the slice waits for it.
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
   * Selects the slice `by` places further on the selected one's lane (the first in view if none).
   * @param {number} by
   */
  step(by) {
    const { state } = this.timeline;
    const now = state.selectedSlice;
    if (!now) return this.selectFirst();
    this.selectSlice(state.findSliceAfter(now, by), true);
  }

  selectFirst() {
    const { chrome, state, viewport } = this.timeline;
    if (state.view?.level === "busy") chrome.announce("Zoom in to select slices");
    this.selectSlice(state.findFirstSlice(viewport.window));
  }

  /**
   * Selects the slice at the same time on the lane above (-1) or below (1).
   * @param {1 | -1} by
   */
  stepLane(by) {
    const { state } = this.timeline;
    const now = state.selectedSlice;
    if (!now || !state.layout) return this.selectFirst();
    this.selectSlice(state.findSliceOnLane(now, by), true);
  }
}
