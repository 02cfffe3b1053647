// Small helpers of the DAG: rows by name, buttons, distances, and what is said of boxes and links.

/** Whether the reader has asked for no motion. */
function calm() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** How many of ascending numbers are below one. */
function below(numbers, limit) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How far a place is from a polyline. */
function distanceTo(p, x, y) {
  let least = Infinity;
  for (let i = 0; i + 3 < p.length; i += 2) {
    const [ax, ay, bx, by] = [p[i], p[i + 1], p[i + 2], p[i + 3]];
    const length = (bx - ax) ** 2 + (by - ay) ** 2;
    const along = length ? Math.max(0, Math.min(1, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length)) : 0;
    least = Math.min(least, Math.hypot(x - ax - along * (bx - ax), y - ay - along * (by - ay)));
  }
  return least;
}

function boxLines(dag, box) {
  const lines = [box.label];
  if (box.name >= 0) lines.push(dag.view.names[box.name]);
  const facts = box.node >= 0 ? [box.where, box.note, box.time] : [box.note, box.time];
  lines.push(facts.filter(Boolean).join(" · "));
  if (box.differ) lines.push(`${box.differ} of ${box.repeats} differ from most`);
  return lines;
}

function linkLines(dag, link) {
  const [from, to] = [link.source, link.target].map((id) => dag.byId.get(id).label);
  if (!link.count) return [`${from} holds ${to}`];
  const what = link.text || (link.dashed ? "programmatic" : "");
  return [`${from} → ${to}`, [counted(link.count, "edge"), what, link.critical ? "critical path" : "", "click for all"].filter(Boolean).join(" · ")];
}

/** A count with its noun: "1 node", "1,204 nodes". */
function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

function named(fields, row) {
  return Object.fromEntries(fields.map((field, i) => [field, row[i]]));
}

function dagButton(text, label, action) {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = text;
  element.title = label;
  element.setAttribute("aria-label", label);
  element.addEventListener("click", action);
  return element;
}
