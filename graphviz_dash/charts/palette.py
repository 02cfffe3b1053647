"""The one palette: safe for colour blindness (after Paul Tol's "bright" and "light" schemes).

Red is kept for idle time and for what is wrong. Colour never stands alone: each use has a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from graphviz_dash.analysis.baselines import ran_eagerly
from graphviz_dash.analysis.categories import Category
from graphviz_dash.analysis.graph_diff import Change
from graphviz_dash.analysis.memory import Part
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.run import ExecutionMode, Run


@dataclass(frozen=True)
class Shade:
    """A colour in the light and in the dark theme, as #rrggbb."""

    light: str
    dark: str


CATEGORY: Final = {
    Category.GEMM: Shade("#4477aa", "#6f9fd0"),
    Category.ATTENTION: Shade("#aa3377", "#d46ba3"),
    Category.ELEMENTWISE: Shade("#3f9fbf", "#66ccee"),
    Category.REDUCTION: Shade("#228833", "#4db35e"),
    Category.COMMUNICATION: Shade("#d9662b", "#ee8866"),
    Category.MEMORY: Shade("#a89418", "#d9c74f"),
    Category.OTHER: Shade("#8a8f98", "#a3a9b3"),
}

MODE: Final = {
    ExecutionMode.EAGER: Shade("#7d8794", "#98a2b0"),
    ExecutionMode.GRAPH: Shade("#2f5fd0", "#6f98ff"),
    ExecutionMode.CALLABLES: Shade("#228833", "#4db35e"),
    ExecutionMode.PARTIAL: Shade("#a89418", "#d9c74f"),
    ExecutionMode.COMPILE: Shade("#aa3377", "#d46ba3"),
    ExecutionMode.RECORDED: Shade("#0f7b8a", "#4fc3d1"),
}


def drawn_mode(run: Run) -> ExecutionMode:
    """The mode whose colour a run has: a recorded program without graphs ran eagerly."""
    return ExecutionMode.EAGER if ran_eagerly(run) else run.mode


IDLE: Final = Shade("#d64550", "#ff7b84")

WARNING: Final = Shade("#b7791f", "#e0b050")

ACCENT: Final = Shade("#2f5fd0", "#6f98ff")
"""What is chosen or can be clicked; primaryColor in .streamlit/config.toml."""

PAGE: Final = Shade("#fbfbfd", "#0f131a")
"""Behind everything; backgroundColor in .streamlit/config.toml."""

KIND: Final = {
    NodeKind.KERNEL: Shade("#4477aa", "#6f9fd0"),
    NodeKind.MEMCPY: Shade("#a89418", "#d9c74f"),
    NodeKind.MEMSET: Shade("#d9662b", "#ee8866"),
    NodeKind.HOST: Shade("#aa3377", "#d46ba3"),
    NodeKind.MEM_ALLOC: Shade("#228833", "#4db35e"),
    NodeKind.MEM_FREE: Shade("#228833", "#4db35e"),
    NodeKind.CHILD_GRAPH: Shade("#3f9fbf", "#66ccee"),
    NodeKind.CONDITIONAL: Shade("#6a5acd", "#a99cf5"),
    NodeKind.EMPTY: Shade("#8a8f98", "#a3a9b3"),
    NodeKind.EVENT_RECORD: Shade("#8a8f98", "#a3a9b3"),
    NodeKind.EVENT_WAIT: Shade("#8a8f98", "#a3a9b3"),
    NodeKind.SEMAPHORE_SIGNAL: Shade("#8c6d46", "#c9a97f"),
    NodeKind.SEMAPHORE_WAIT: Shade("#8c6d46", "#c9a97f"),
    NodeKind.BATCH_MEM_OP: Shade("#b5651d", "#e0a060"),
}

MEMORY: Final = {
    Part.WEIGHTS: Shade("#4477aa", "#6f9fd0"),
    Part.GRADIENTS: Shade("#3f9fbf", "#66ccee"),
    Part.OPTIMIZER: Shade("#228833", "#4db35e"),
    Part.TENSORS: Shade("#a89418", "#d9c74f"),
    Part.WORKSPACES: Shade("#d9662b", "#ee8866"),
    Part.ACTIVATIONS: Shade("#aa3377", "#d46ba3"),
    Part.EXCLUSIVE: Shade("#2f4fc0", "#6f8cff"),
    Part.SHARED: Shade("#8f7fe0", "#b9adff"),
    Part.UNUSED: Shade("#c3bdf0", "#55508a"),
    Part.CACHE: Shade("#b3b8c2", "#5b6472"),
    Part.OUTSIDE: Shade("#8a8f98", "#a3a9b3"),
}

CHANGE: Final = {
    Change.ADDED: Shade("#228833", "#4db35e"),
    Change.REMOVED: Shade("#aa3377", "#d46ba3"),
    Change.CHANGED: Shade("#d9662b", "#ee8866"),
    Change.MOVED: Shade("#4477aa", "#6f9fd0"),
    Change.SAME: Shade("#8a8f98", "#a3a9b3"),
}

PHASE: Final = {
    "forward": Shade("#4477aa", "#6f9fd0"),
    "backward": Shade("#aa3377", "#d46ba3"),
    "optimizer": Shade("#228833", "#4db35e"),
    "other": Shade("#8a8f98", "#a3a9b3"),
}

TIME: Final = (
    Shade("#cfdcef", "#2b3d5a"),
    Shade("#9fbce0", "#3b5f94"),
    Shade("#6c95cc", "#4d82c8"),
    Shade("#3b68ad", "#7aabea"),
    Shade("#1d3f7d", "#c2dcff"),
)
"""Short to long, in steps of one hue: the longest stands out in either theme."""

CRITICAL: Final = Shade("#d9662b", "#ee8866")
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
    Shade("#4477aa", "#6f9fd0"),
    Shade("#aa3377", "#d46ba3"),
    Shade("#228833", "#4db35e"),
    Shade("#3f9fbf", "#66ccee"),
    Shade("#d9662b", "#ee8866"),
    Shade("#a89418", "#d9c74f"),
    Shade("#6a5acd", "#a99cf5"),
)
"""For the largest modules of a graph; the others share a grey."""

SAVED: Final = Shade("#228833", "#4db35e")
ADDED: Final = Shade("#d64550", "#ff7b84")
REMAINDER: Final = Shade("#6b7280", "#a3a9b3")
"""Of a difference: time that went, time that came, and what is not explained."""
