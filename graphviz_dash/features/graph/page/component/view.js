// Views of a folded graph, and their descriptions in words.

import { pluralize } from "../../../../ui/components/common/numbers.js";
import { readRow } from "../../../../ui/components/common/rows.js";
import { BOX_FIELDS, LINK_FIELDS } from "./wire.js";

/** @import { Box, DagView, Link } from "./wire.js" */

/**
 * A view with its boxes and links as records.
 * @typedef {Omit<DagView, "boxes" | "links"> & {boxes: Box[], links: Link[]}} View
 */

/**
 * Decode a view from the server.
 * @param {DagView} sent
 * @returns {View}
 */
export function decodeView(sent) {
  const boxes = sent.boxes.map((row) => readRow(BOX_FIELDS, row));
  for (const box of boxes) if (box.node >= 0 && !box.where) box.where = `node ${box.node}`;
  return { ...sent, boxes, links: sent.links.map((row) => readRow(LINK_FIELDS, row)) };
}

/**
 * Describe a box for its tooltip, name first.
 * @param {View} view
 * @param {Box} box
 */
export function describeBox(view, box) {
  const lines = [box.label];
  if (box.name >= 0) lines.push(view.names[box.name]);
  const facts = box.node >= 0 ? [box.where, box.note, box.time] : [box.note, box.time];
  lines.push(facts.filter(Boolean).join(" · "));
  if (box.differ) lines.push(`${box.differ} of ${box.repeats} differ from the others`);
  return lines;
}

/**
 * Describe a link for its tooltip.
 * @param {Link} link
 * @param {(id: string) => string} labelOf
 */
export function describeLink(link, labelOf) {
  const [from, to] = [labelOf(link.source), labelOf(link.target)];
  if (!link.count) return [`${from} contains ${to}`];
  const kind = link.text || (link.dashed ? "programmatic" : "");
  const critical = link.critical ? "critical path" : "";
  const facts = [pluralize(link.count, "edge"), kind, critical, "click to list"];
  return [`${from} → ${to}`, facts.filter(Boolean).join(" · ")];
}

/**
 * Describe the size of a graph and the extent of its view.
 * @param {View} view
 */
export function describeView(view) {
  const { nodes, edges, full, note, complete } = view;
  const facts = [
    `${pluralize(nodes, "node")}, ${pluralize(edges, "edge")}`,
    formatBoxCount(view),
    full ? "fold groups to unfold more" : "",
    note,
    complete ? "" : "loading times…",
  ];
  return facts.filter(Boolean).join(" · ");
}

/**
 * Format the number of boxes in a view, without unfolded groups.
 * @param {View} view
 */
export function formatBoxCount(view) {
  const count = view.boxes.filter((box) => !box.open).length;
  return count === 1 ? "1 box" : `${count} boxes`;
}

/**
 * Fold or unfold a group. Folding it folds all groups inside it.
 * @param {readonly string[]} expanded
 * @param {Box} box
 * @returns {string[]} ids of the unfolded groups
 */
export function toggleGroup(expanded, box) {
  if (!box.open) return [...new Set([...expanded, box.id])];
  return expanded.filter((id) => id !== box.id && !id.startsWith(`${box.id}.`));
}

/**
 * Find the innermost unfolded repeat around a box, else the only unfolded repeat.
 * @param {readonly Box[]} boxes outer ones first
 * @param {Box | undefined} inner
 * @param {Box | undefined} shown the repeat in the bar now
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
