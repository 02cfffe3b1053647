// Records for tests: what a test does not name has a plain value.

/** @import { View } from "../../../../graphviz_dash/features/graph/page/component/view.js" */
/** @import { Box, DagData, Link } from "../../../../graphviz_dash/features/graph/page/component/wire.js" */
/** @import { Lane, Run, View as TimelineView } from "../../../../graphviz_dash/features/timeline/page/component/model.js" */

/**
 * @param {Partial<Box>} given
 * @returns {Box}
 */
export function box(given) {
  return {
    id: "g.0",
    x: 0,
    y: 0,
    width: 100,
    height: 36,
    node: -1,
    open: false,
    label: "a box",
    note: "",
    time: "",
    colour: 0,
    strip: [],
    repeats: 0,
    name: -1,
    body: false,
    where: "",
    disabled: false,
    critical: false,
    first: 0,
    count: 1,
    block: -1,
    differ: 0,
    ...given,
  };
}

/**
 * @param {Partial<Link>} given
 * @returns {Link}
 */
export function link(given) {
  return {
    source: "n0",
    target: "n1",
    points: [0, 0, 0, 10],
    dashed: false,
    text: "",
    count: 1,
    critical: false,
    ...given,
  };
}

/**
 * A view of a graph.
 * @param {Partial<View>} given
 * @returns {View}
 */
export function dagView(given) {
  return {
    nodes: 2,
    edges: 1,
    width: 100,
    height: 100,
    boxes: [],
    names: [],
    links: [],
    legend: [],
    expanded: [],
    shown: {},
    focus: null,
    full: false,
    note: "",
    complete: true,
    ...given,
  };
}

/**
 * @param {Partial<DagData>} given
 * @returns {DagData}
 */
export function dagData(given) {
  return {
    experiment: "e",
    run: "graph",
    graph: "graph-0",
    against: {},
    colour: "kind",
    selected: null,
    find: "",
    fold: "order",
    ready: true,
    palette: { categories: [], idle: ["#888888", "#888888"] },
    ...given,
  };
}

/**
 * A lane with slices from and to the given times.
 * @param {[begin: number, end: number][]} slices
 * @param {Partial<Lane>} [given]
 * @returns {Lane}
 */
export function lane(slices, given) {
  return {
    kind: "gpu",
    owner: 0,
    track: 7,
    sub: 0,
    label: "stream 7",
    count: slices.length,
    start: Float64Array.from(slices, ([begin]) => begin),
    end: Float64Array.from(slices, ([, end]) => end),
    name: slices.map(() => 0),
    row: Int32Array.from(slices, (_, i) => i),
    launch: null,
    node: null,
    busy: null,
    ...given,
  };
}

/**
 * @param {Lane[]} lanes
 * @param {Partial<Run>} [given]
 * @returns {Run}
 */
export function run(lanes, given) {
  return {
    run: "eager",
    light: false,
    problem: "",
    step: null,
    boundaries: [],
    lanes,
    hiddenLanes: 0,
    idle: {},
    deviceBusy: {},
    summary: "",
    length: "",
    delta: "",
    ...given,
  };
}

/**
 * A view of a timeline.
 * @param {Partial<TimelineView>} given
 * @returns {TimelineView}
 */
export function timelineView(given) {
  return {
    level: "slices",
    window: [0, 100],
    loaded: [0, 100],
    fit: [0, 100],
    limits: [0, 100],
    bins: 0,
    names: [],
    complete: true,
    runs: [],
    differences: [],
    ...given,
  };
}
