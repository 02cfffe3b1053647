// State of the DAG: the folded graph, the selection, the focus and the hits of a search. No drawing
// and no requests.

import { findBox, findBoxToSide, findLink } from "./geometry.js";
import { SearchHits } from "./hits.js";
import { describeBox, describeLink, findRepeat, toggleGroup } from "./view.js";

/** @import { View } from "./view.js" */
/** @import { Viewport } from "./viewport.js" */
/** @import { Box, DagData, Link } from "./wire.js" */

/**
 * A request for a view, and how to show it.
 * @typedef {object} ViewRequest
 * @property {boolean} [fresh] let the server unfold as many groups as fit
 * @property {string[]} [expanded] ids of the groups to unfold; default: those unfolded now
 * @property {Record<string, number>} [shown] the blocks that repeats show; default: as now
 * @property {string} [first] a group to unfold even if others must fold
 * @property {string} [keep] the box that keeps its place on the screen
 * @property {number | null} [focus] a node to make visible
 * @property {boolean} [fit] show the entire graph
 */

export class DagState {
  /** Identity of the graph. */
  source = "";
  /** @type {Record<string, string>} the parameters that name the graph */
  graph = {};
  fold = "";
  colour = "";
  /** @type {View | null} */
  view = null;
  /** @type {Map<string, Box>} the boxes of the view */
  byId = new Map();
  /** @type {number | null} the selected node */
  selected = null;
  /** @type {string | null} id of the box with the keyboard focus */
  focus = null;
  /** @type {Box | null} */
  hover = null;
  /** @type {Link | null} */
  hoverLink = null;
  /** @type {Link | null} the link whose edges are listed */
  chosenLink = null;
  /** @type {Set<number>} nodes that differ from those of most blocks */
  differing = new Set();
  hits = new SearchHits();

  /**
   * Set the graph to show.
   * @param {DagData} data
   * @returns {boolean} whether it is another graph
   */
  setGraph({ experiment, run, graph, against }) {
    const source = JSON.stringify([experiment, run, graph, against]);
    if (source === this.source) return false;
    this.source = source;
    this.graph = { experiment, run, graph, ...against };
    return true;
  }

  /** @param {View} view */
  setView(view) {
    this.view = view;
    this.byId = new Map(view.boxes.map((box) => [box.id, box]));
    this.hover = this.hoverLink = this.chosenLink = null;
    if (this.focus && !this.byId.has(this.focus)) this.focus = null;
  }

  /**
   * Parameters of the graph and its fold.
   * @returns {Record<string, string>}
   */
  get query() {
    return { ...this.graph, fold: this.fold };
  }

  /**
   * Build the parameters of a view.
   * @param {Viewport} viewport
   * @param {readonly string[]} [expanded] ids of unfolded groups; default: as many as fit
   * @param {Record<string, number>} [shown] the blocks that repeats show
   */
  buildViewQuery(viewport, expanded, shown) {
    const query = new URLSearchParams({
      ...this.query,
      colour: this.colour,
      ratio: viewport.aspectRatio.toFixed(3),
    });
    if (viewport.width) query.set("width", String(Math.round(viewport.width)));
    if (expanded) query.set("expanded", expanded.join(","));
    const pairs = Object.entries(shown ?? {}).map(([id, block]) => `${id}:${block}`);
    if (pairs.length) query.set("shown", pairs.join(","));
    return query;
  }

  /**
   * Build the parameters of a requested view.
   * @param {Viewport} viewport
   * @param {ViewRequest} request
   */
  buildLoadQuery(viewport, request) {
    const before = request.fresh ? null : this.view;
    const query = this.buildViewQuery(
      viewport,
      request.expanded ?? before?.expanded,
      request.shown ?? before?.shown,
    );
    if (request.first) query.set("first", request.first);
    if (isNode(request.focus)) query.set("focus", String(request.focus));
    return query;
  }

  /**
   * Request a view with a group folded or unfolded.
   * @param {Box} box
   * @returns {ViewRequest}
   */
  requestToggle(box) {
    const expanded = toggleGroup(this.view?.expanded ?? [], box);
    return { expanded, first: box.open ? undefined : box.id, keep: box.id };
  }

  /**
   * Request a view with another block of an unfolded repeat.
   * @param {Box} box
   * @param {number} block -1: all
   * @returns {ViewRequest}
   */
  requestBlock(box, block) {
    return { shown: { ...this.view?.shown, [box.id]: block }, first: box.id, keep: box.id };
  }

  get selectedId() {
    return this.selected === null ? null : `n${this.selected}`;
  }

  /** Id of the box with the focus, or of the selected node. */
  get currentId() {
    return this.focus ?? this.selectedId;
  }

  get focusBox() {
    return (this.focus && this.byId.get(this.focus)) || null;
  }

  /**
   * Get the box of a node; undefined if it is inside a folded group.
   * @param {number} node
   */
  getNodeBox(node) {
    return this.byId.get(`n${node}`);
  }

  /** @param {string} id of a box */
  getLabel(id) {
    return this.byId.get(id)?.label ?? "";
  }

  /**
   * Find the box at a point of the graph, or the link if no box is there.
   * @param {[x: number, y: number]} point
   * @param {number} zoom
   * @returns {{box: Box | null, link: Link | null}}
   */
  findAt([x, y], zoom) {
    if (!this.view) return { box: null, link: null };
    const box = findBox(this.view.boxes, x, y);
    return { box, link: box ? null : findLink(this.view.links, x, y, zoom) };
  }

  /**
   * Set the box or link under the pointer.
   * @param {Box | null} box
   * @param {Link | null} link
   * @returns {boolean} whether it has changed
   */
  setHover(box, link) {
    const changed = box !== this.hover || link !== this.hoverLink;
    this.hover = box;
    this.hoverLink = link;
    return changed;
  }

  /** Describe the box or link under the pointer; empty if none. */
  describeHover() {
    if (this.hover && this.view) return describeBox(this.view, this.hover);
    return this.hoverLink ? describeLink(this.hoverLink, (id) => this.getLabel(id)) : [];
  }

  /**
   * Find the box at the other end of an edge of the current one; the first box if none is current.
   * @param {"source" | "target"} end
   * @returns {Box | undefined}
   */
  findNeighbour(end) {
    if (!this.view) return undefined;
    const other = end === "target" ? "source" : "target";
    const current = this.currentId;
    const link = this.view.links.find((candidate) => candidate[other] === current);
    if (link) return this.byId.get(link[end]);
    return current ? undefined : this.view.boxes.find((box) => !box.open);
  }

  /**
   * Find the box next to the one with the focus.
   * @param {number} by 1: to the right, -1: to the left
   * @returns {Box | undefined}
   */
  findBoxToSide(by) {
    const box = this.focusBox;
    if (!box || !this.view) return this.findNeighbour("target");
    return findBoxToSide(this.view.boxes, box, by);
  }

  /**
   * Find the link after the chosen one among those of the current box.
   * @returns {Link | null}
   */
  findNextLink() {
    const id = this.currentId;
    if (!this.view || !id) return null;
    const links = this.view.links.filter((link) =>
      link.count && (link.source === id || link.target === id)
    );
    const at = this.chosenLink ? links.indexOf(this.chosenLink) : -1;
    return links[(at + 1) % links.length] ?? null;
  }

  /**
   * Find the innermost unfolded repeat around the current box, else the only unfolded one.
   * @param {string} [shownId] id of the repeat that is shown now
   */
  findCurrentRepeat(shownId) {
    if (!this.view) return null;
    const inner = this.byId.get(this.currentId ?? "");
    return findRepeat(this.view.boxes, inner, shownId ? this.byId.get(shownId) : undefined);
  }
}

/**
 * @param {number | null | undefined} node
 * @returns {node is number}
 */
export function isNode(node) {
  return node !== null && node !== undefined;
}
