"""Colour palette, safe for colour blindness.

Based on Paul Tol's "bright" and "light" schemes, with minimal changes; tests/charts/test_palette.py
checks them for three simulated colour blindnesses, and the contrast with the page. Red is reserved
for idle time and errors. Colour never carries meaning alone: each use has a label.
"""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.ledger.memory import LedgerPart
from graphviz_dash.analysis.ledger.startup import TimePart
from graphviz_dash.analysis.memory.report import MemoryPart
from graphviz_dash.analysis.metrics.run_selection import is_eager_recording
from graphviz_dash.analysis.nodes.replay_faults import FaultState
from graphviz_dash.analysis.step_comparison.eager_change import EagerChange
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.shades import (
    BLUE,
    CYAN,
    GREEN,
    GREY,
    IDLE,
    MAGENTA,
    ORANGE,
    VIOLET,
    YELLOW,
    Shade,
)
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.run import BASELINE_MODE, Run

CATEGORY_SHADES: Final = {
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
"""Runs have no hues, which are reserved for kinds of work. Runs without graphs are lighter."""

_TAUPES: Final = (
    Shade("#5a4a3c", "#d9c6b2"),
    Shade("#8b7765", "#b09a84"),
    Shade("#b9aa9b", "#84725f"),
    Shade("#ded6cd", "#584b3e"),
)
STEP_PART_SHADES: Final = {
    StepPart.REPLAY: _TAUPES[0],
    StepPart.COPIES: _TAUPES[1],
    StepPart.COMPILED: _TAUPES[1],
    StepPart.EAGER: _TAUPES[1],
    StepPart.GUARDS: _TAUPES[2],
    StepPart.DISPATCH: _TAUPES[2],
    StepPart.LAUNCH: _TAUPES[2],
    StepPart.PYTHON: _TAUPES[2],
    StepPart.WAIT: _TAUPES[3],
}
"""None is the colour of a kernel."""

GRAPH_LAUNCH: Final = VIOLET


def is_light(run: Run) -> bool:
    """Return whether a run uses the lighter colour: it ran without graphs."""
    return run.mode is BASELINE_MODE or is_eager_recording(run)


def get_run_shade(run: Run) -> Shade:
    """Return the colour of a run."""
    return BASELINE if is_light(run) else RUN


KIND_SHADES: Final = {
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
"""Nodes that only order others are grey."""

MEMORY_SHADES: Final = {
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
"""Reserved but unused memory is hatched in the colour of its purpose."""

LEDGER_SHADES: Final = {
    LedgerPart.OTHER_PROCESSES: GREY,
    LedgerPart.CONTEXT: RUN,
    LedgerPart.KERNELS: ORANGE,
    LedgerPart.NCCL: GREEN,
    LedgerPart.EXECUTABLES: MAGENTA,
    LedgerPart.WEIGHTS: BLUE,
    LedgerPart.GRADIENTS: CYAN,
    LedgerPart.OPTIMIZER: GREEN,
    LedgerPart.CACHES: CYAN,
    LedgerPart.TENSORS: YELLOW,
    LedgerPart.WORKSPACES: ORANGE,
    LedgerPart.ALLOCATIONS: BLUE,
    LedgerPart.FRAGMENTATION: GREY,
    LedgerPart.FREE: GREY,
    LedgerPart.POOLS: VIOLET,
    LedgerPart.FAILED_POOLS: VIOLET,
    LedgerPart.REMAINDER: GREY,
}
"""Parts of equal colour differ in hatching."""

STARTUP_SHADES: Final = {
    TimePart.INTERPRETER: GREY,
    TimePart.IMPORT: GREY,
    TimePart.CHILD: CYAN,
    TimePart.BEFORE_CONTEXT: GREY,
    TimePart.CONTEXT: RUN,
    TimePart.WEIGHTS: BLUE,
    TimePart.NCCL: GREEN,
    TimePart.CACHE: YELLOW,
    TimePart.BEFORE_CAPTURES: GREY,
    TimePart.WARM_UP: YELLOW,
    TimePart.DYNAMO: CYAN,
    TimePart.INDUCTOR: GREEN,
    TimePart.TRITON: ORANGE,
    TimePart.AUTOTUNE: YELLOW,
    TimePart.CAPTURE: VIOLET,
    TimePart.DRIVER: MAGENTA,
    TimePart.BETWEEN_CAPTURES: GREY,
    TimePart.GC: ORANGE,
    TimePart.LAUNCH: GRAPH_LAUNCH,
    TimePart.BEFORE_REPLAY: GREY,
    TimePart.RECORDER: GREY,
}
"""Labels distinguish parts of equal colour."""

CHANGE_SHADES: Final = {
    Change.ADDED: GREEN,
    Change.REMOVED: MAGENTA,
    Change.CHANGED: ORANGE,
    Change.MOVED: BLUE,
    Change.SAME: GREY,
}

FAULT_SHADES: Final = {
    FaultState.FAULT: IDLE,
    FaultState.AFTER: Shade("#c9ced6", "#454d5a"),
    FaultState.INDEPENDENT: BLUE,
}
"""Colours of a node by its relation to a wrong, crashed or hanging replay."""

EAGER_SHADES: Final = {
    EagerChange.FASTER: GREEN,
    EagerChange.SIMILAR: GREY,
    EagerChange.SLOWER: ORANGE,
    EagerChange.OTHER: MAGENTA,
    EagerChange.ADDED: BLUE,
    EagerChange.UNKNOWN: Shade("#c9ced6", "#454d5a"),
}
"""Colours of a node compared with the corresponding eager work."""

PHASE_SHADES: Final = {
    "forward": BLUE,
    "backward": MAGENTA,
    "optimizer": GREEN,
    "other": GREY,
}

TIME_SHADES: Final = (
    Shade("#cfdcef", "#2b3d5a"),
    Shade("#9fbce0", "#3b5f94"),
    Shade("#6c95cc", "#4d82c8"),
    Shade("#3b68ad", "#7aabea"),
    Shade("#1d3f7d", "#c2dcff"),
)
"""Short to long times in shades of one hue."""

CRITICAL: Final = ORANGE

SLACK_SHADES: Final = (
    CRITICAL,
    Shade("#1d3f7d", "#c2dcff"),
    Shade("#3b68ad", "#7aabea"),
    Shade("#8fb0d9", "#3f6aa6"),
    Shade("#c9d6e6", "#2b3d5a"),
)
"""No slack to large slack: nodes that can wait fade."""

MODULE_SHADES: Final = (
    BLUE,
    MAGENTA,
    GREEN,
    CYAN,
    ORANGE,
    YELLOW,
    VIOLET,
)
"""Colours of the largest modules of a graph; the others share a grey."""

SAVED: Final = Shade("#184818", "#187830")
ADDED: Final = Shade("#d64550", "#ff7b84")
REMAINDER: Final = Shade("#6b7280", "#a3a9b3")
"""Colours of a difference: saved time, added time, and the unexplained remainder."""
