// deno-fmt-ignore-file
// What the server answers and the page hands over, as the component's scripts know it. Written by
// `make docs` from the structs of routes and components: change those.

/**
 * A step of a run.
 * @typedef {object} StepMark
 * @property {number} index - Its number.
 * @property {number} begin - In ns since the run's origin.
 * @property {number} end - In ns since the run's origin.
 */

/**
 * One lane. At level ``slices`` it has the columns from ``gap`` to ``node``, an entry a slice; at
 *   level ``busy`` it has ``busy``; one of ranges always has columns.
 * @typedef {object} Lane
 * @property {"gpu" | "cpu" | "range"} kind - What runs on it: GPU work, API calls of a CPU thread,
 *   or what that thread is in.
 * @property {number} owner - The device of a GPU lane, the process of a CPU lane.
 * @property {number} track - The stream of a GPU lane, the thread of a CPU lane.
 * @property {number} sub - Number among the lanes of one track, whose slices overlap.
 * @property {string} label - Empty on sub-lanes.
 * @property {number[] | null} [gap] - ns from the end of the slice before (first: from the loaded
 *   window's begin).
 * @property {number[] | null} [dur] - Length in ns.
 * @property {number[] | null} [name] - Index into the view's names.
 * @property {number[] | null} [row] - Row of the trace, less that of the slice before (first:
 *   itself).
 * @property {number[] | null} [launch] - Row of the launching call, -1 where unknown; less the one
 *   before, as ``row``.
 * @property {number[] | null} [node] - Index of the graph's node, -1 where unknown; less the one
 *   before, as ``row``.
 * @property {string | null} [busy] - Base64 of a byte a bin: the busy share, 0 only if idle and 255
 *   only if full.
 */

/**
 * One run of the view.
 * @typedef {object} RunView
 * @property {string} run - Its name.
 * @property {boolean} [light] - Whether it is drawn in the lighter ink: it ran without graphs.
 * @property {string | null} [problem] - Why there is nothing to draw.
 * @property {StepMark | null} [step] - The chosen step; None where the trace marks none.
 * @property {StepMark[]} [boundaries] - The steps that touch the loaded window.
 * @property {Lane[]} [lanes] - CPU lanes before GPU lanes.
 * @property {number} [hidden_lanes] - Lanes left out, which are less busy than those shown.
 * @property {Record<number, number[]>} [idle] - By device its long idle periods as begin, end,
 *   begin, end, ... in ns since the origin.
 * @property {Record<number, string>} [device_busy] - By device, at level ``busy``, the busy share
 *   of each bin as a lane's ``busy`` has it.
 * @property {string} [summary] - The visible window, in words.
 * @property {string} [length] - Of the chosen step.
 * @property {string} [delta] - The step's length against the first run's, in words.
 */

/**
 * Where the view's first run loses time against another, over its chosen step. Losses are in ns of
 *   idle and of busy time that the first run has more of, negative where it gains.
 * @typedef {object} Difference
 * @property {string} run - Name of the other run.
 * @property {string | null} [problem] - Why there is nothing to show.
 * @property {[number, number]} [before] - Idle and busy loss before the loaded window.
 * @property {number[]} [idle] - Idle loss in each of as many even bins of the loaded window.
 * @property {number[]} [busy] - Busy loss in each bin.
 * @property {[number, number]} [total] - Idle and busy loss in the whole step.
 * @property {number[]} [waiting] - What is lost in each bin by waiting for other ranks; empty where
 *   neither run waits.
 * @property {number} [waiting_before] - The same before the loaded window.
 * @property {number} [waiting_total] - The same in the whole step.
 * @property {number} [most] - The largest difference at any instant.
 * @property {string} [text] - How the work was paired, in words.
 */

/**
 * A view of one window of several runs. Windows are begin and end in ns since the origins.
 * @typedef {object} TimelineView
 * @property {"slices" | "busy"} level - How lanes are drawn.
 * @property {[number, number]} window - The visible part.
 * @property {[number, number]} loaded - What was sent.
 * @property {[number, number]} fit - The window that shows the longest chosen step.
 * @property {[number, number]} limits - The earliest and the latest time of all runs.
 * @property {number} bins - Bins of a lane at level ``busy``; 0 at level ``slices``.
 * @property {[string, number][]} names - Short name and category of slices; categories index the
 *   palette's, then the call classes.
 * @property {RunView[]} runs - From top to bottom.
 * @property {Difference[]} differences - Of the first run against each other one, as far as they
 *   were computed.
 * @property {boolean} complete - Whether nothing is left to be computed about these runs (nodes of
 *   slices, differences).
 */

/**
 * The other end of a launch: for a kernel the call, for a call the kernels that it launched.
 * @typedef {object} Linked
 * @property {string} token - Of the call, or of the first kernel.
 * @property {number} count - Kernels of the call.
 * @property {number} begin - In ns since the run's origin.
 * @property {number} end - In ns since the run's origin; of a call's kernels the end of the last.
 */

/**
 * The same work in another run's chosen step.
 * @typedef {object} Counterpart
 * @property {string} run - Name of that run.
 * @property {string} token - Its slice there; of several the last to end.
 * @property {number} begin - In ns since that step's origin.
 * @property {number} dur - In ns.
 * @property {string} text - How long it took there and how the two were paired.
 */

/**
 * What is known of a slice.
 * @typedef {object} SliceCard
 * @property {string} run - Name of its run.
 * @property {string} token - Kind and row, such as "g12".
 * @property {string} title - Short name.
 * @property {string} name - As in the trace.
 * @property {number} category - Index into the palette's categories.
 * @property {number} begin - In ns since the run's origin.
 * @property {number} dur - In ns.
 * @property {number} owner - As of its lane.
 * @property {number} track - As of its lane.
 * @property {number} sub - As of its lane.
 * @property {[string, string][]} fields - Pairs of what and how much, formatted.
 * @property {"traced"} measured - The pass that the times come from.
 * @property {Linked | null} link - The other end of its launch; None where the trace has none.
 * @property {string | null} graph - The graph that launched it; None for what no graph launched.
 * @property {number | null} node - Index of its node; None where it was matched to none.
 * @property {Counterpart[]} pairs - The same work in the other runs shown.
 */

/**
 * What lies between two instants.
 * @typedef {object} Measured
 * @property {[string, string][]} lines - Pairs of what and how much, one for each run and each
 *   difference lane.
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
 * Data of the timeline component.
 * @typedef {object} TimelineData
 * @property {string} experiment - Key of the experiment.
 * @property {string[]} runs - Names of the runs.
 * @property {(number | null)[]} steps - Steps of the runs; None for the typical step.
 * @property {string | null} selected - Selection of the page.
 * @property {string | null} ruler - Ruler as "begin,end" in ns; None if there is none.
 * @property {number} height - Height in pixels.
 * @property {Palette} palette - Colours.
 */
