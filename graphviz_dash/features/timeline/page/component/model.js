// Views of the timeline, decoded into typed arrays, and the slices in them.

/** @import { Difference, Lane as SentLane, RunView, SliceCard, TimelineView } from "./wire.js" */

/**
 * A lane. At level "slices" the columns have an entry per slice, in ns since the origin of the run.
 * At level "busy" they are empty, and `busy` has the share of each bin, 0 to 255.
 * @typedef {object} Lane
 * @property {"gpu" | "cpu" | "range"} kind
 * @property {number} owner
 * @property {number} track
 * @property {number} sub
 * @property {string} label
 * @property {number} count number of slices
 * @property {Float64Array} start
 * @property {Float64Array} end
 * @property {number[]} name index into the view's names
 * @property {Int32Array} row row of the trace
 * @property {Int32Array | null} launch row of the launching call, -1 if unknown
 * @property {Int32Array | null} node index of the graph node, -1 if unknown
 * @property {Uint8Array | null} busy
 * @property {Uint8Array | null} [category] dominant category of each bin, at level "busy"
 */

/**
 * A run of a view, with defaults for omitted fields.
 * @typedef {object} Run
 * @property {string} run
 * @property {boolean} light whether it is drawn in the lighter colour
 * @property {string} problem empty if none
 * @property {RunView["step"] & {} | null} step
 * @property {NonNullable<RunView["boundaries"]>} boundaries
 * @property {Lane[]} lanes
 * @property {number} hiddenLanes
 * @property {Record<number, number[]>} idle
 * @property {Record<number, Uint8Array>} deviceBusy by device, at level "busy"
 * @property {string} summary
 * @property {string} length
 * @property {string} delta
 */

/**
 * Time that the first run loses against another one, accumulated up to each edge between bins.
 * @typedef {object} DecodedDifference
 * @property {string} run
 * @property {string} problem empty if none
 * @property {Float64Array} idleAt ns
 * @property {Float64Array} busyAt ns
 * @property {Float64Array | null} [waitingAt] ns lost by waiting for other ranks; null if neither run waits
 * @property {number} bins
 * @property {[idle: number, busy: number]} total ns
 * @property {number} [waitingTotal] ns
 * @property {number} most ns
 * @property {string} text
 * @property {string} cause
 * @property {number} work
 */

/**
 * @typedef {Omit<TimelineView, "runs" | "differences"> &
 *   {runs: Run[], differences: DecodedDifference[]}} View
 */

/** A slice among the loaded ones. @typedef {{run: Run, lane: Lane, i: number}} Slice */

/**
 * Decode a view: delta columns become absolute times and rows.
 * @param {TimelineView} sent
 * @returns {View}
 */
export function decodeView(sent) {
  return {
    ...sent,
    runs: sent.runs.map((run) => decodeRun(run, sent.loaded[0])),
    differences: sent.differences.map(decodeDifference),
  };
}

/**
 * @param {RunView} sent
 * @param {number} begin of the loaded window
 * @returns {Run}
 */
function decodeRun(sent, begin) {
  return {
    run: sent.run,
    light: sent.light ?? false,
    problem: sent.problem ?? "",
    step: sent.step ?? null,
    boundaries: sent.boundaries ?? [],
    lanes: (sent.lanes ?? []).map((lane) => decodeLane(lane, begin)),
    hiddenLanes: sent.hidden_lanes ?? 0,
    idle: sent.idle ?? {},
    deviceBusy: decodeDeviceShares(sent.device_busy ?? {}),
    summary: sent.summary ?? "",
    length: sent.length ?? "",
    delta: sent.delta ?? "",
  };
}

/**
 * @param {SentLane} sent
 * @param {number} begin of the loaded window
 * @returns {Lane}
 */
function decodeLane(sent, begin) {
  const gap = sent.gap ?? [];
  const dur = sent.dur ?? [];
  const start = new Float64Array(gap.length);
  const end = new Float64Array(gap.length);
  let at = begin;
  for (let i = 0; i < gap.length; i++) {
    start[i] = at + gap[i];
    end[i] = at = start[i] + dur[i];
  }
  return {
    kind: sent.kind,
    owner: sent.owner,
    track: sent.track,
    sub: sent.sub,
    label: sent.label,
    count: gap.length,
    start,
    end,
    name: sent.name ?? [],
    row: decodeDeltas(sent.row ?? []),
    launch: sent.launch ? decodeDeltas(sent.launch) : null,
    node: sent.node ? decodeDeltas(sent.node) : null,
    busy: sent.busy ? decodeShares(sent.busy) : null,
    category: sent.category ? decodeShares(sent.category) : null,
  };
}

/**
 * Decode the share of each bin, 0 to 255.
 * @param {string} bytes in base64
 */
function decodeShares(bytes) {
  return Uint8Array.from(atob(bytes), (char) => char.charCodeAt(0));
}

/**
 * @param {Record<number, string>} sent
 * @returns {Record<number, Uint8Array>}
 */
function decodeDeviceShares(sent) {
  const entries = Object.entries(sent).map(([device, bytes]) => [device, decodeShares(bytes)]);
  return Object.fromEntries(entries);
}

/**
 * @param {Difference} sent
 * @returns {DecodedDifference}
 */
function decodeDifference(sent) {
  const [idle, busy] = sent.before ?? [0, 0];
  const idleAt = accumulate(sent.idle ?? [], idle);
  return {
    run: sent.run,
    problem: sent.problem ?? "",
    idleAt,
    busyAt: accumulate(sent.busy ?? [], busy),
    waitingAt: sent.waiting?.length ? accumulate(sent.waiting, sent.waiting_before ?? 0) : null,
    bins: idleAt.length - 1,
    total: sent.total ?? [0, 0],
    waitingTotal: sent.waiting_total ?? 0,
    most: sent.most ?? 0,
    text: sent.text ?? "",
    cause: sent.cause ?? "",
    work: sent.work ?? 0,
  };
}

/**
 * Accumulate values from a start value.
 * @param {readonly number[]} values
 * @param {number} start
 * @returns {Float64Array} one more than the values
 */
export function accumulate(values, start) {
  const sums = new Float64Array(values.length + 1);
  sums[0] = start;
  for (let i = 0; i < values.length; i++) sums[i + 1] = sums[i] + values[i];
  return sums;
}

/**
 * Decode values from the differences between them.
 * @param {readonly number[]} deltas
 */
export function decodeDeltas(deltas) {
  const values = new Int32Array(deltas.length);
  let sum = 0;
  for (let i = 0; i < deltas.length; i++) values[i] = sum += deltas[i];
  return values;
}

/**
 * Get the token of a slice: its kind and row, such as "g12".
 * @param {Lane} lane
 * @param {number} i
 */
export function getToken(lane, i) {
  return (lane.kind === "gpu" ? "g" : "c") + lane.row[i];
}

/**
 * Whether a token names GPU work.
 * @param {string} token
 */
export function isGpuToken(token) {
  return token[0] === "g";
}

/**
 * Parse the name of a selection, "run/g12"; null for anything else.
 * @param {string | null} name
 * @returns {{run: string, token: string} | null}
 */
export function parseSelection(name) {
  const cut = name ? name.indexOf("/") : -1;
  return name && cut >= 0 ? { run: name.slice(0, cut), token: name.slice(cut + 1) } : null;
}

/**
 * Find the slice of a token in a run; null if it is not loaded.
 * @param {Run} run
 * @param {string} token
 * @returns {Slice | null}
 */
export function findSlice(run, token) {
  const kind = isGpuToken(token) ? "gpu" : "cpu";
  const row = Number(token.slice(1));
  for (const lane of run.lanes) {
    const i = lane.kind === kind ? lane.row.indexOf(row) : -1;
    if (i >= 0) return { run, lane, i };
  }
  return null;
}

/**
 * Find the lane of a card.
 * @param {Run} run
 * @param {SliceCard} card
 */
export function findLane(run, card) {
  const kind = isGpuToken(card.token) ? "gpu" : "cpu";
  return run.lanes.find((lane) =>
    lane.kind === kind && lane.owner === card.owner && lane.track === card.track &&
    lane.sub === card.sub
  );
}

/**
 * Find the call that launched a slice; null if it is not loaded.
 * @param {Slice} slice
 */
export function findLaunch({ run, lane, i }) {
  const row = lane.launch ? lane.launch[i] : -1;
  return row < 0 ? null : findSlice(run, `c${row}`);
}
