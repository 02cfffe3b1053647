// What stands around the canvas: legend and buttons above, the slice card below, the tooltip.
// Every text from a trace goes through textContent.

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function button(text, title, action, className) {
  const made = element("button", className, text);
  made.type = "button";
  made.title = title;
  made.setAttribute("aria-label", title);
  made.addEventListener("click", action);
  return made;
}

/** The colours in use, or what the area of a busy view means. */
function renderLegend(t) {
  const used = new Set();
  const names = [];
  for (const run of t.view.runs)
    for (const lane of run.lanes) {
      if (lane.busy) used.add("busy");
      else for (let i = 0; i < lane.count; i++) used.add(t.view.names[lane.name[i]][1]);
    }
  t.palette.categories.forEach((entry, index) => {
    if (!used.has(index)) return;
    const kind = entry.call ? "cpu" : "gpu";
    names.push([entry.label, sliceColour(t, kind, index, t.theme.primary)]);
  });
  if (used.has("busy"))
    for (const run of t.view.runs)
      if (run.lanes.length)
        names.push([`${run.run}: busy share of each pixel`, t.theme.modes[run.mode]]);
  if (t.view.differences.some((one) => !one.problem))
    lossColours(t, t.view.differences[0]).forEach((fill, i) => names.push([LOSS[i], fill]));
  const key = JSON.stringify(names);
  if (key === t.legendKey) return;
  t.legendKey = key;
  const chips = names.map(([text, fill]) => {
    const chip = element("span", "chip", text);
    const swatch = element("i");
    swatch.style.background = fill;
    chip.prepend(swatch);
    return chip;
  });
  const idle = element("span", "chip", "GPU idle");
  const swatch = element("i", "idle");
  swatch.style.setProperty("--idle", t.theme.idle);
  idle.prepend(swatch);
  t.legend.replaceChildren(...chips, idle);
}

const KEYS = [
  ["wheel, W S, + −", "zoom at the pointer"],
  ["drag, A D, ← →", "pan"],
  ["shift + drag, M M", "measure: lay the ruler"],
  ["shift + ← →, Z, Del", "move its end, zoom to it, remove it"],
  ["double click, Enter", "zoom to a slice"],
  ["click", "select a slice"],
  [". ,", "next, previous slice"],
  ["↑ ↓", "lane above, below"],
  ["F, Esc", "fit the step, clear"],
];

/** The card of the selected slice, or the keys when nothing is selected. */
function renderPanel(t) {
  const { card, panel } = t;
  if (t.cardProblem) {
    panel.replaceChildren(element("p", "hint", t.cardProblem));
    return;
  }
  if (!card) {
    const list = element("dl", "keys");
    for (const [keys, what] of KEYS) {
      const pair = element("div");
      pair.append(element("dt", "", keys), element("dd", "", what));
      list.append(pair);
    }
    panel.replaceChildren(list);
    return;
  }
  const head = element("div", "head");
  const title = element("h4", "", card.title);
  const swatch = element("i");
  const run = t.view && t.view.runs.find((one) => one.run === card.run);
  const shade = t.theme.modes[run ? run.mode : ""] || t.theme.primary;
  swatch.style.background = sliceColour(
    t,
    card.token[0] === "g" ? "gpu" : "cpu",
    card.category,
    shade,
  );
  title.prepend(swatch);
  const name = element("p", "name", card.name);
  name.tabIndex = 0;
  const actions = element("div", "actions");
  actions.append(button("Zoom to it", "Zoom to the slice (Enter)", () => t.zoomToCard()));
  if (card.link) {
    const text = card.token[0] === "g" ? "Its launch" : "Its first kernel";
    actions.append(
      button(text, `Select ${text.toLowerCase()}`, () => t.select(card.run, card.link.token, true)),
    );
  }
  for (const other of card.pairs || [])
    if (other.token) actions.append(
      button(`In ${other.run}`, `Select the same work in ${other.run}`, () =>
        t.select(other.run, other.token, true),
      ),
    );
  actions.append(button("Clear", "Clear the selection (Esc)", () => t.select(null, null)));
  head.append(
    title,
    element("p", "sub", `${card.run} · measured in the ${card.measured} pass, under the profiler`),
    name,
    actions,
  );
  const fields = element("dl", "fields");
  for (const [what, text] of card.fields) {
    const pair = element("div");
    pair.append(element("dt", "", what), element("dd", "", text));
    fields.append(pair);
  }
  panel.replaceChildren(head, fields);
}

/** Shows the tooltip for what is under the pointer at (x, y) of the canvas. */
function renderTooltip(t, x, y) {
  const lines = t.hover ? tooltipLines(t, t.hover) : null;
  if (!lines) {
    t.tooltip.hidden = true;
    return;
  }
  const [title, ...rest] = lines;
  t.tooltip.replaceChildren(element("b", "", title), ...rest.map((text) => element("span", "", text)));
  t.tooltip.hidden = false;
  const width = t.tooltip.offsetWidth;
  const height = t.tooltip.offsetHeight;
  const left = x + 16 + width > t.width ? x - width - 12 : x + 16;
  const top = y + 18 + height > t.height ? y - height - 10 : y + 18;
  t.tooltip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(2, top)}px)`;
}

function tooltipLines(t, hover) {
  if (hover.difference) return differenceLines(t, hover);
  const { run, lane, i } = hover;
  if (hover.busy !== undefined) {
    const share = hover.busy === 0 ? "idle" : `${((hover.busy / 255) * 100).toFixed(0)}% busy`;
    return [share, `of ${formatTime(hover.span)} around the pointer`, "zoom in to see slices"];
  }
  if (i >= 0) {
    const lines = [
      t.view.names[lane.name[i]][0],
      `${formatTime(lane.end[i] - lane.start[i])} long`,
      `starts at ${formatTime(lane.start[i])}`,
    ];
    if (i > 0) lines.push(`${formatTime(lane.start[i] - lane.end[i - 1])} after the previous one`);
    if (lane.node && lane.node[i] >= 0) lines.push(`graph node #${lane.node[i]}`);
    return lines;
  }
  if (!hover.gap) return null;
  const where = lane.kind === "gpu" ? `stream ${lane.track}` : `CPU thread ${lane.track}`;
  const text = lane.kind === "gpu" ? "idle" : "no call shown";
  const lines = [
    hover.gap.open ? `${text}, for longer than the view` : `${text} for ${formatTime(hover.gap.length)}`,
    where,
  ];
  const device = run.idle[lane.owner] || [];
  for (let k = 0; lane.kind === "gpu" && k < device.length; k += 2)
    if (device[k] <= hover.at && hover.at <= device[k + 1])
      lines.push(`the whole GPU idles ${formatTime(device[k + 1] - device[k])} here`);
  return lines;
}
