"""The one palette, safe for colour blindness.

It started as Paul Tol's "bright" and "light" schemes, moved as little as makes any two of its
colours differ for everybody: tests/charts/test_palette.py measures that under three simulated
colour blindnesses, and the contrast with the page. Red is kept for idle time and for what is wrong.
Colour never stands alone: each use has a label.
"""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.memory.report import MemoryPart
from graphviz_dash.analysis.metrics.run_selection import ran_eagerly
from graphviz_dash.analysis.step_comparison.eager_change import EagerChange
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.shades import (
    BLUE,
    CYAN,
    GREEN,
    GREY,
    MAGENTA,
    ORANGE,
    VIOLET,
    YELLOW,
    Shade,
)
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.run import BASELINE_MODE, Run

CATEGORY: Final = {
    Category.GEMM: BLUE,
    Category.ATTENTION: MAGENTA,
    Category.ELEMENTWISE: CYAN,
    Category.REDUCTION: GREEN,
    Category.COMMUNICATION: ORANGE,
    Category.MEMORY: YELLOW,
    Category.OTHER: GREY,
}

BASELINE: Final = Shade("#7b8592", "#9ea8b6")
RUN: Final = Shade("#232b3a", "#eceff5")
"""Runs have no hues, which are for kinds of work: what ran without graphs is a lighter ink than
what ran with them, and names, outlines and the shapes of marks tell runs apart."""

STEP_PART: Final = {
    StepPart.REPLAY: BLUE,
    StepPart.COPIES: YELLOW,
    StepPart.COMPILED: CYAN,
    StepPart.EAGER: ORANGE,
    StepPart.GUARDS: MAGENTA,
    StepPart.DISPATCH: GREEN,
    StepPart.LAUNCH: VIOLET,
    StepPart.PYTHON: GREY,
    StepPart.WAIT: GREY,
}
"""What the stretches of a compiled step are for."""

GRAPH_LAUNCH: Final = VIOLET
"""A call that launches a graph."""


def is_light(run: Run) -> bool:
    """Whether a run is drawn in the lighter ink: it ran without graphs, as a baseline does."""
    return run.mode is BASELINE_MODE or ran_eagerly(run)


def run_shade(run: Run) -> Shade:
    """The ink of a run."""
    return BASELINE if is_light(run) else RUN


KIND: Final = {
    NodeKind.KERNEL: BLUE,
    NodeKind.MEMCPY: YELLOW,
    NodeKind.MEMSET: ORANGE,
    NodeKind.HOST: MAGENTA,
    NodeKind.MEM_ALLOC: GREEN,
    NodeKind.MEM_FREE: GREEN,
    NodeKind.CHILD_GRAPH: CYAN,
    NodeKind.CONDITIONAL: VIOLET,
    NodeKind.EMPTY: GREY,
    NodeKind.EVENT_RECORD: GREY,
    NodeKind.EVENT_WAIT: GREY,
    NodeKind.SEMAPHORE_SIGNAL: GREY,
    NodeKind.SEMAPHORE_WAIT: GREY,
    NodeKind.BATCH_MEM_OP: GREY,
}
"""Nodes that only order others share the grey; their boxes say which they are."""

MEMORY: Final = {
    MemoryPart.WEIGHTS: BLUE,
    MemoryPart.GRADIENTS: CYAN,
    MemoryPart.OPTIMIZER: GREEN,
    MemoryPart.TENSORS: YELLOW,
    MemoryPart.WORKSPACES: ORANGE,
    MemoryPart.ACTIVATIONS: MAGENTA,
    MemoryPart.EXCLUSIVE: VIOLET,
    MemoryPart.SHARED: Shade("#b3a3ec", "#6355b8"),
    MemoryPart.UNUSED: VIOLET,
    MemoryPart.CACHE: GREY,
    MemoryPart.OUTSIDE: GREY,
}
"""What is set aside without being used is hatched in the colour of what it is set aside for."""

CHANGE: Final = {
    Change.ADDED: GREEN,
    Change.REMOVED: MAGENTA,
    Change.CHANGED: ORANGE,
    Change.MOVED: BLUE,
    Change.SAME: GREY,
}

EAGER: Final = {
    EagerChange.FASTER: GREEN,
    EagerChange.ALIKE: GREY,
    EagerChange.SLOWER: ORANGE,
    EagerChange.OTHER: MAGENTA,
    EagerChange.ADDED: BLUE,
    EagerChange.UNKNOWN: Shade("#c9ced6", "#454d5a"),
}
"""A node beside the eager work in its place."""

PHASE: Final = {
    "forward": BLUE,
    "backward": MAGENTA,
    "optimizer": GREEN,
    "other": GREY,
}

TIME: Final = (
    Shade("#cfdcef", "#2b3d5a"),
    Shade("#9fbce0", "#3b5f94"),
    Shade("#6c95cc", "#4d82c8"),
    Shade("#3b68ad", "#7aabea"),
    Shade("#1d3f7d", "#c2dcff"),
)
"""Short to long, in steps of one hue: the longest stands out in either theme."""

CRITICAL: Final = ORANGE
"""The critical path of a graph, wherever it is drawn."""

SLACK: Final = (
    CRITICAL,
    Shade("#1d3f7d", "#c2dcff"),
    Shade("#3b68ad", "#7aabea"),
    Shade("#8fb0d9", "#3f6aa6"),
    Shade("#c9d6e6", "#2b3d5a"),
)
"""No slack to much: what can wait fades."""

MODULES: Final = (
    BLUE,
    MAGENTA,
    GREEN,
    CYAN,
    ORANGE,
    YELLOW,
    VIOLET,
)
"""For the largest modules of a graph; the others share a grey."""

SAVED: Final = Shade("#184818", "#187830")
ADDED: Final = Shade("#d64550", "#ff7b84")
REMAINDER: Final = Shade("#6b7280", "#a3a9b3")
"""Of a difference: time that went, time that came, and what is not explained."""
