// Content around the canvas: the legend, the card of a slice, the tooltip.

import { makeButton, makeElement } from "../../../../ui/components/common/elements.js";
import { formatTime } from "../../../../ui/components/common/numbers.js";
import { describeDifference, getLossColours, LOSSES } from "./difference.js";
import { isGpuToken } from "./model.js";
import { getSliceColour } from "./runs.js";

/** @import { Look } from "./draw.js" */
/** @import { Hover } from "./hover.js" */
/** @import { Run, View } from "./model.js" */
/** @import { Timeline } from "./timeline.js" */
/** @import { SliceCard } from "./wire.js" */

const KEYS = [
  ["Ctrl + wheel, W S, + −", "zoom at the pointer"],
  ["drag, A D, ← →", "pan"],
  ["shift + drag, M M", "measure a range"],
  ["shift + ← →, Z, Del", "move its end, zoom to the range, remove it"],
  ["double click, Enter", "zoom to a slice"],
  ["click", "select a slice"],
  ["/", "search; Enter, shift + Enter: next, previous hit"],
  [". ,", "next, previous slice"],
  ["↑ ↓", "lane above, below"],
  ["F, Esc", "fit the step, clear"],
  ["?", "show or hide these keys"],
];

/** Maximum number of entries of the legend, with that of idle time. */
const MAX_ENTRIES = 8;

/**
 * List the entries of the legend: GPU categories, then one entry each for CPU calls, compiled steps
 * and differences. Entries without room are listed in the last one's tooltip.
 * @param {Look} look
 * @param {View} view
 * @returns {[text: string, colour: string, title?: string][]}
 */
export function listLegend(look, view) {
  const entries = [...listLosses(look, view), ...listCategories(look, view)];
  const room = MAX_ENTRIES - 1;
  if (entries.length <= room) return entries;
  const rest = entries.slice(room - 1).map(([text]) => text);
  return [...entries.slice(0, room - 1), [`${rest.length} more`, "", rest.join(", ")]];
}

/**
 * @param {Look} look
 * @param {View} view
 * @returns {[text: string, colour: string, title?: string][]}
 */
function listCategories(look, view) {
  /** @type {Set<number>} */
  const used = new Set();
  for (const { lanes } of view.runs) {
    for (const { name, category, busy } of lanes) {
      for (const index of name) used.add(view.names[index][1]);
      category?.forEach((value, bin) => busy?.[bin] && used.add(value));
    }
  }
  /** @type {Map<string, {colour: string, titles: string[]}>} */
  const groups = new Map();
  look.palette.categories.forEach((entry, category) => {
    if (!used.has(category)) return;
    const [group, detail] = entry.label.split(": ");
    const known = groups.get(group);
    if (known) known.titles.push(detail ?? "");
    else groups.set(group, { colour: getSliceColour(look, category), titles: [detail ?? ""] });
  });
  return [...groups].map(([text, { colour, titles }]) => [text, colour, titles.join(", ")]);
}

/**
 * @param {Look} look
 * @param {View} view
 * @returns {[text: string, colour: string, title?: string][]}
 */
function listLosses(look, view) {
  if (!view.differences.some(({ problem }) => !problem)) return [];
  const colours = getLossColours(look);
  const slower = LOSSES.map((text, i) => [text, i]).filter(([text]) =>
    `${text}`.startsWith("slower")
  );
  const titles = slower.map(([text]) => `${text}`.replace("slower: ", "")).join(", ");
  return [["slower", colours[0], titles], ["faster", colours[LOSSES.indexOf("faster")]]];
}

/**
 * Show the card of the selected slice; hide the panel if nothing is selected.
 * @param {Timeline} t
 */
export function renderPanel(t) {
  const { panel } = t.chrome;
  const { card, cardProblem } = t.state;
  if (cardProblem) panel.replaceChildren(makeElement("p", "hint", cardProblem));
  else if (card) panel.replaceChildren(makeCardHead(t, card), makeList("fields", card.fields));
  panel.hidden = !cardProblem && !card;
}

/**
 * Add the list of keys over the drawing, hidden.
 * @param {HTMLElement} stage
 */
export function addKeySheet(stage) {
  stage.querySelector(".keys")?.remove();
  const sheet = makeList("keys", KEYS);
  sheet.hidden = true;
  stage.append(sheet);
  return sheet;
}

/**
 * Make a list of labels and values.
 * @param {string} className
 * @param {string[][]} rows
 */
function makeList(className, rows) {
  return makeElement(
    "dl",
    className,
    rows.map(([label, text]) =>
      makeElement("div", "", [makeElement("dt", "", label), makeElement("dd", "", text)])
    ),
  );
}

/**
 * @param {Timeline} t
 * @param {SliceCard} card
 */
function makeCardHead(t, card) {
  const swatch = makeElement("i");
  swatch.style.background = getSliceColour(t.renderer, card.category);
  const name = makeElement("p", "name", card.name);
  name.tabIndex = 0;
  const measured = `${card.run} · measured in the ${card.measured} pass, under the profiler`;
  return makeElement("div", "head", [
    makeElement("h4", "", [swatch, document.createTextNode(card.title)]),
    makeElement("p", "sub", measured),
    name,
    makeElement("div", "actions", makeCardActions(t, card)),
  ]);
}

/**
 * @param {Timeline} t
 * @param {SliceCard} card
 */
function makeCardActions(t, card) {
  const actions = [makeButton("Zoom to slice", "Zoom to the slice (Enter)", () => t.zoomToCard())];
  const { link } = card;
  if (link) {
    const text = isGpuToken(card.token) ? "Launch call" : "First kernel";
    const label = `Select ${text.toLowerCase()}`;
    actions.push(makeButton(text, label, () => t.selection.select(card.run, link.token, true)));
  }
  for (const { run, token } of card.pairs) {
    if (!token) continue;
    const label = `Select the same work in ${run}`;
    actions.push(makeButton(`In ${run}`, label, () => t.selection.select(run, token, true)));
  }
  actions.push(
    makeButton("Clear", "Clear the selection (Esc)", () => t.selection.select(null, null)),
  );
  return actions;
}

/**
 * Describe the target of the pointer, title first.
 * @param {View} view
 * @param {Hover} hover
 * @returns {string[] | null}
 */
export function describeHover(view, hover) {
  switch (hover.kind) {
    case "difference":
      return describeDifference(hover.difference, hover.at, view.loaded, view.runs[0].run);
    case "busy": {
      const share = hover.busy === 0 ? "idle" : `${((hover.busy / 255) * 100).toFixed(0)}% busy`;
      return [share, `in ${formatTime(hover.span)} under the cursor`, "zoom in to see slices"];
    }
    case "slice":
      return describeSlice(view, hover);
    case "gap":
      return describeGap(hover);
  }
}

/**
 * @param {View} view
 * @param {Hover & {kind: "slice"}} hover
 */
function describeSlice(view, { lane, i }) {
  const lines = [
    view.names[lane.name[i]][0],
    `${formatTime(lane.end[i] - lane.start[i])} long`,
    `starts at ${formatTime(lane.start[i])}`,
  ];
  if (i > 0) lines.push(`${formatTime(lane.start[i] - lane.end[i - 1])} after the previous slice`);
  if (lane.node && lane.node[i] >= 0) lines.push(`graph node #${lane.node[i]}`);
  return lines;
}

/** @param {Hover & {kind: "gap"}} hover */
function describeGap({ run, lane, at, open, length }) {
  const isGpu = lane.kind === "gpu";
  const text = isGpu ? "idle" : lane.kind === "cpu" ? "no call shown" : "no operator shown";
  const lines = [
    open ? `${text}, for longer than the view` : `${text} for ${formatTime(length)}`,
    isGpu ? `stream ${lane.track}` : `CPU thread ${lane.track}`,
  ];
  const idle = isGpu ? findIdlePeriod(run, lane.owner, at) : null;
  if (idle) lines.push(`entire GPU idle for ${formatTime(idle)} here`);
  return lines;
}

/**
 * Find the length of the idle period of a device at a time; null if there is none.
 * @param {Run} run
 * @param {number} device
 * @param {number} at
 */
function findIdlePeriod(run, device, at) {
  const periods = run.idle[device] ?? [];
  for (let i = 0; i < periods.length; i += 2) {
    if (periods[i] <= at && at <= periods[i + 1]) return periods[i + 1] - periods[i];
  }
  return null;
}
