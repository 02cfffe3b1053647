// deno-fmt-ignore-file
// What the server answers and the page hands over, as the component's scripts know it. Written by
// `make docs` from the structs of routes and components: change those.

/**
 * A box of the drawing: a node (``node`` >= 0) or a group of nodes. Lengths are in pixels at full
 *   zoom; colours index the view's legend.
 * @typedef {object} Box
 * @property {string} id - Of a node "n" and its index, of a group its path in the fold, such as
 *   "g.0.2".
 * @property {number} x - Left edge.
 * @property {number} y - Upper edge.
 * @property {number} width - From left to right.
 * @property {number} height - From top to bottom.
 * @property {number} node - Index of the node in the whole graph; -1 for a group.
 * @property {boolean} open - Whether the group is unfolded.
 * @property {string} label - First line: of a node its operator or module, where one is known.
 * @property {string} note - Second line: of a node its kernel, of a group what it is.
 * @property {string} time - GPU time in a replay; empty where none was measured.
 * @property {number} colour - Colour of the node, or of most of the group.
 * @property {number[]} strip - Colours of a folded group's nodes, in order.
 * @property {number} repeats - How many blocks a repeat has; 0 for other boxes.
 * @property {number} name - Index of the whole name in the view's ``names``; -1 where the label
 *   says all.
 * @property {boolean} body - Whether it is a graph inside a node.
 * @property {string} where - How the node is spoken of, "node 3 of graph-0.7"; empty for "node" and
 *   its index.
 * @property {boolean} disabled - The node does not run: its executable has it disabled, or a
 *   comparison says it is gone.
 * @property {boolean} critical - Whether something in it is on the critical path, and something of
 *   the graph is not.
 * @property {number} first - Number of its first node in the order of the fold.
 * @property {number} count - How many nodes it holds.
 * @property {number} block - Number of the block that an unfolded repeat shows for all; -1 where it
 *   shows all or is none.
 * @property {number} differ - How many blocks of a repeat are not like most.
 */

/** The order in which the fields of a Box travel. */
export const BOX_FIELDS = /** @type {const} */ ([
  "id", "x", "y", "width", "height", "node", "open", "label", "note", "time", "colour", "strip",
  "repeats", "name", "body", "where", "disabled", "critical", "first", "count", "block", "differ",
]);

/**
 * A dependency between two boxes.
 * @typedef {object} Link
 * @property {string} source - Id of the box that it leaves.
 * @property {string} target - Id of the box that it enters.
 * @property {number[]} points - A polyline as x, y, x, y, ... in pixels at full zoom.
 * @property {boolean} dashed - Whether all its edges are programmatic.
 * @property {string} text - The edges' data where it is not the default; empty otherwise.
 * @property {number} count - Edges that run in it; 0 in the link from a node to a graph inside it.
 * @property {boolean} critical - Whether an edge is on the critical path, and some node is not.
 */

/** The order in which the fields of a Link travel. */
export const LINK_FIELDS = /** @type {const} */ ([
  "source", "target", "points", "dashed", "text", "count", "critical",
]);

/**
 * A colour and what it means.
 * @typedef {object} LegendEntry
 * @property {string} label - What it means.
 * @property {string} light - The colour on a light page, "#rrggbb".
 * @property {string} dark - The colour on a dark page.
 */

/**
 * All that is drawn of a folded graph.
 * @typedef {object} DagView
 * @property {number} nodes - Nodes of the graph.
 * @property {number} edges - Edges of the graph.
 * @property {number} width - Of the drawing, in pixels at full zoom.
 * @property {number} height - Of the drawing, in pixels at full zoom.
 * @property {import('../common/rows.js').Row<Box>[]} boxes - Outer boxes before those inside them.
 * @property {string[]} names - Whole names of nodes whose label is cut.
 * @property {import('../common/rows.js').Row<Link>[]} links - The dependencies between boxes.
 * @property {LegendEntry[]} legend - The colours in use.
 * @property {string[]} expanded - Ids of the unfolded groups.
 * @property {Record<string, number>} shown - By id of a repeat the block that stands for all (-1:
 *   none does), where it is not the first.
 * @property {string | null} focus - Id of the box that was asked to be seen.
 * @property {boolean} full - Whether groups stay folded for want of room.
 * @property {string} note - How the graph is folded; empty where there is nothing to say.
 * @property {boolean} complete - Whether what follows from times is in it.
 */

/**
 * One edge of a link.
 * @typedef {object} EdgeRow
 * @property {number} source - Index of the node that it leaves.
 * @property {number} target - Index of the node that it enters.
 * @property {string} before - What the source is called.
 * @property {string} after - What the target is called.
 * @property {string} what - Its type and ports, in words.
 * @property {boolean} critical - Whether it is on the critical path.
 */

/**
 * The edges of a link.
 * @typedef {object} EdgeList
 * @property {number} total - How many there are.
 * @property {string[]} kinds - What they are, in words.
 * @property {EdgeRow[]} rows - The first of them.
 */

/**
 * Some blocks of a repeat as one bar of its chart.
 * @typedef {object} RepeatBar
 * @property {number} first - Number of the first block.
 * @property {number} last - Number of the last block.
 * @property {number} height - The longest time of them over the longest of all, 0 to 1; 0 where
 *   none was measured.
 * @property {boolean} differs - Whether one of them is unlike most.
 */

/** The order in which the fields of a RepeatBar travel. */
export const REPEAT_BAR_FIELDS = /** @type {const} */ ([
  "first", "last", "height", "differs",
]);

/**
 * An unfolded repeat.
 * @typedef {object} RepeatCard
 * @property {string} id - Id of its box.
 * @property {string} title - Of the repeat.
 * @property {number} repeats - How many blocks it has.
 * @property {number} block - The block that is shown; -1: all.
 * @property {string} block_title - Of that block; empty where it has none.
 * @property {string} block_time - GPU time of that block; empty where none was measured.
 * @property {string} summary - Of the times of all blocks, in words.
 * @property {string[]} differences - In what blocks differ, in words.
 * @property {import('../common/rows.js').Row<RepeatBar>[]} bars - The times of all blocks.
 * @property {number[]} unlike - Indices of nodes of the shown block that most blocks do not have
 *   so.
 * @property {number} next_unlike - The next block that is unlike most; -1 for none.
 */

/**
 * Nodes that match a search.
 * @typedef {object} Hits
 * @property {number} total - Number of matches.
 * @property {number[]} nodes - Indices of the first matches.
 * @property {string[]} around - Ids of the groups to unfold to show them.
 * @property {number[]} leaves - Positions of ``nodes`` in the order of the fold, ascending.
 */

/**
 * A file to save.
 * @typedef {object} Drawing
 * @property {string} name - File name.
 * @property {string} type - Media type.
 * @property {string} text - Content.
 */

/**
 * A category of slices.
 * @typedef {object} PaletteEntry
 * @property {string} label - Label in the legend.
 * @property {[string, string]} shade - Colour in the light and in the dark theme.
 * @property {string | null} [call] - Class of CPU call; None for GPU work.
 */

/**
 * Colours of a drawing, each in the light and in the dark theme.
 * @typedef {object} Palette
 * @property {PaletteEntry[]} categories - Categories in the order of their index in slices.
 * @property {[string, string]} idle - Idle time.
 * @property {[string, string] | null} [critical] - Critical path.
 * @property {[string, string] | null} [run] - Runs with graphs.
 * @property {[string, string] | null} [light] - Runs without graphs.
 * @property {[string, string] | null} [saved] - Saved time.
 */

/**
 * Data of the DAG component.
 * @typedef {object} DagData
 * @property {string} experiment - Key of the experiment.
 * @property {string} run - Name of the run.
 * @property {string} graph - Id of the graph.
 * @property {Record<string, string>} against - Parameters of the earlier graph; empty if there is
 *   none.
 * @property {string} colour - Colouring, a ColourBy value.
 * @property {number | null} selected - Node selected by the page.
 * @property {string} find - Search text.
 * @property {string} fold - Initial way to fold.
 * @property {boolean} ready - Whether the graph is prepared.
 * @property {Palette} palette - Colours that are not part of a view.
 */
