// The timeline's data on the page: views decoded into typed arrays, and where a time or a slice is.

/** Decodes a view of the server: delta columns become absolute times and rows. */
function decodeView(view) {
  const loadedBegin = view.loaded[0];
  for (const run of view.runs) {
    run.lanes = run.lanes || [];
    run.idle = run.idle || {};
    run.boundaries = run.boundaries || [];
    for (const lane of run.lanes) {
      lane.label = lane.label || "";
      if (lane.busy !== undefined) {
        lane.busy = Uint8Array.from(atob(lane.busy), (c) => c.charCodeAt(0));
        lane.count = 0;
        continue;
      }
      const n = lane.gap.length;
      const start = new Float64Array(n);
      const end = new Float64Array(n);
      let at = loadedBegin;
      for (let i = 0; i < n; i++) {
        start[i] = at + lane.gap[i];
        end[i] = at = start[i] + lane.dur[i];
      }
      lane.start = start;
      lane.end = end;
      lane.count = n;
      lane.row = undelta(lane.row);
      lane.launch = lane.launch ? undelta(lane.launch) : null;
      lane.node = lane.node ? undelta(lane.node) : null;
    }
  }
  for (const one of (view.differences = view.differences || [])) decodeDifference(one);
  return view;
}

/** What was lost up to each edge between bins, from what was lost in each bin. */
function decodeDifference(one) {
  const [idle, busy] = one.before || [0, 0];
  one.idleAt = summed(one.idle || [], idle);
  one.busyAt = summed(one.busy || [], busy);
  one.bins = one.idleAt.length - 1;
  one.total = one.total || [0, 0];
}

function summed(values, begin) {
  const out = new Float64Array(values.length + 1);
  out[0] = begin;
  for (let i = 0; i < values.length; i++) out[i + 1] = out[i] + values[i];
  return out;
}

function undelta(values) {
  const out = new Int32Array(values.length);
  let sum = 0;
  for (let i = 0; i < values.length; i++) out[i] = sum += values[i];
  return out;
}

/** How many of ascending `values` are at most `x`. */
function countUpTo(values, x) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}

const tokenOf = (lane, i) => (lane.kind === "gpu" ? "g" : "c") + lane.row[i];

/** The slice of `token` in a run of a decoded view, or null where it is not loaded one by one. */
function findSlice(run, token) {
  const kind = token[0] === "g" ? "gpu" : "cpu";
  const row = Number(token.slice(1));
  for (const lane of run.lanes) {
    if (lane.kind !== kind || !lane.count) continue;
    const i = lane.row.indexOf(row);
    if (i >= 0) return { run, lane, i };
  }
  return null;
}

/** The lane that a card names, or null. */
function findLane(run, card) {
  const kind = card.token[0] === "g" ? "gpu" : "cpu";
  return (
    run.lanes.find(
      (lane) =>
        lane.kind === kind &&
        lane.owner === card.owner &&
        lane.track === card.track &&
        lane.sub === card.sub,
    ) || null
  );
}

/** A time in ns as text with its unit; `digits` after the point follow the size. */
function formatTime(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return trim(ns / 1e9) + " s";
  if (size >= 1e6) return trim(ns / 1e6) + " ms";
  if (size >= 1e3) return trim(ns / 1e3) + " us";
  return Math.round(ns) + " ns";
}

function trim(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

/** Distance between ticks in ns: 1, 2 or 5 times a power of ten, at least `minimum` ns. */
function niceStep(minimum) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, minimum)));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= minimum) return factor * power;
  return 10 * power;
}

const differenceHeight = (one) => (one.problem ? 20 : 52);

/** Where runs and lanes lie, top to bottom; heights grow into `height` as far as that helps. */
function layOut(view, height) {
  const axis = 26;
  const header = 24;
  const footer = 20;
  const between = 10;
  let rest = height - axis;
  let flexible = 0;
  for (const one of view.differences) rest -= differenceHeight(one) + 4;
  for (const run of view.runs) {
    rest -= header + footer + between;
    for (const lane of run.lanes) {
      if (lane.kind === "cpu") rest -= lane.sub ? 10 : 17;
      else if (lane.sub) rest -= 16;
      else flexible++;
    }
    if (!run.lanes.length) rest -= 40;
  }
  const lane = Math.max(22, Math.min(92, rest / Math.max(1, flexible) - 4));
  const rows = [];
  let y = axis;
  for (const run of view.runs) {
    const block = { run, top: y, lanes: [] };
    y += header;
    block.lanesTop = y;
    for (const one of run.lanes) {
      const h = one.kind === "cpu" ? (one.sub ? 8 : 14) : one.sub ? 14 : lane;
      if (one.kind === "gpu" && block.gpuTop === undefined) block.gpuTop = y;
      block.lanes.push({ lane: one, y, h });
      y += h + (one.kind === "cpu" ? 3 : 4);
    }
    if (!run.lanes.length) y += 40;
    block.lanesBottom = y;
    y += footer;
    // The lanes that hold the first run against the others lie on its own time.
    block.differences = [];
    for (const one of run === view.runs[0] ? view.differences : []) {
      const h = differenceHeight(one);
      block.differences.push({ difference: one, y, h });
      y += h + 4;
    }
    block.bottom = y;
    y += between;
    rows.push(block);
  }
  return { blocks: rows, axis, total: y };
}
