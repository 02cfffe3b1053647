// A view of a folded graph as the page knows it.

import { pluralize } from "../common/numbers.js";
import { readRow } from "../common/rows.js";
import { BOX_FIELDS, LINK_FIELDS } from "./wire.js";

/** @import { Box, DagView, Link } from "./wire.js" */

/**
 * A view with its boxes and links as records.
 * @typedef {Omit<DagView, "boxes" | "links"> & {boxes: Box[], links: Link[]}} View
 */

/**
 * Reads what the server sends.
 * @param {DagView} sent
 * @returns {View}
 */
export function decodeView(sent) {
  const boxes = sent.boxes.map((row) => readRow(BOX_FIELDS, row));
  for (const box of boxes) if (box.node >= 0 && !box.where) box.where = `node ${box.node}`;
  return { ...sent, boxes, links: sent.links.map((row) => readRow(LINK_FIELDS, row)) };
}

/**
 * What a tooltip says of a box, its name first.
 * @param {View} view
 * @param {Box} box
 */
export function describeBox(view, box) {
  const lines = [box.label];
  if (box.name >= 0) lines.push(view.names[box.name]);
  const facts = box.node >= 0 ? [box.where, box.note, box.time] : [box.note, box.time];
  lines.push(facts.filter(Boolean).join(" · "));
  if (box.differ) lines.push(`${box.differ} of ${box.repeats} differ from most`);
  return lines;
}

/**
 * What a tooltip says of a link.
 * @param {Link} link
 * @param {(id: string) => string} labelOf
 */
export function describeLink(link, labelOf) {
  const [from, to] = [labelOf(link.source), labelOf(link.target)];
  if (!link.count) return [`${from} holds ${to}`];
  const what = link.text || (link.dashed ? "programmatic" : "");
  const critical = link.critical ? "critical path" : "";
  const facts = [pluralize(link.count, "edge"), what, critical, "click for all"];
  return [`${from} → ${to}`, facts.filter(Boolean).join(" · ")];
}

/**
 * How much of the graph a view shows, in words.
 * @param {View} view
 */
export function describeView(view) {
  const { nodes, edges, full, note, complete } = view;
  const facts = [
    `${pluralize(nodes, "node")}, ${pluralize(edges, "edge")}`,
    formatBoxCount(view),
    full ? "more unfold when others are folded" : "",
    note,
    complete ? "" : "loading times…",
  ];
  return facts.filter(Boolean).join(" · ");
}

/**
 * How many boxes a view shows, unfolded groups not counted.
 * @param {View} view
 */
export function formatBoxCount(view) {
  const shown = view.boxes.filter((box) => !box.open).length;
  return shown === 1 ? "1 box" : `${shown} boxes`;
}

/**
 * The ids of unfolded groups once `box` is folded or unfolded; inside a folded one all fold.
 * @param {readonly string[]} expanded
 * @param {Box} box
 */
export function toggleGroup(expanded, box) {
  if (!box.open) return [...new Set([...expanded, box.id])];
  return expanded.filter((id) => id !== box.id && !id.startsWith(`${box.id}.`));
}

/**
 * The innermost unfolded repeat around a box; without one the only repeat that is unfolded.
 * @param {readonly Box[]} boxes outer ones first
 * @param {Box | undefined} inner
 * @param {Box | undefined} shown the repeat that is shown now
 * @returns {Box | null}
 */
export function findRepeat(boxes, inner, shown) {
  const open = boxes.filter((box) => box.open && box.repeats);
  const around = inner
    ? open.filter((box) =>
      box.first <= inner.first && inner.first + inner.count <= box.first + box.count
    )
    : [];
  if (around.length) return around[around.length - 1];
  if (open.length === 1 || !shown) return open[0] ?? null;
  return shown;
}
