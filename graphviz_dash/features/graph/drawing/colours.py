"""Colours of a folded graph's nodes: one code per node in fold order, so that a group is a slice of
the array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.replay_faults import FaultState
from graphviz_dash.analysis.step_comparison.eager_change import EagerChange, EagerCounterpart
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.palette import (
    CATEGORY_SHADES,
    CHANGE_SHADES,
    EAGER_SHADES,
    FAULT_SHADES,
    KIND_SHADES,
    MODULE_SHADES,
    PHASE_SHADES,
    SAVED,
    SLACK_SHADES,
    TIME_SHADES,
)
from graphviz_dash.charts.shades import Shade
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.diff.graph_union import GraphUnion
from graphviz_dash.features.graph.drawing.path import NOT_MEASURED_LABEL, SLACK_LABELS, PathMarks
from graphviz_dash.model.graph import NodeKind

_STRIP_LENGTH: Final = 28
_NO_MODULE_LABEL: Final = "other or no module"
_NO_OPERATOR_LABEL: Final = "other or no operator"
_UNTIMED_LABEL: Final = "not timed"
_NO_STREAM_LABEL: Final = "no planned stream"
_STREAM_SHADES: Final = (*MODULE_SHADES, SAVED)
_NO_LIMIT_LABEL: Final = "unknown limit"
_LIMIT_SHARES: Final = (
    ("80% of limit and more", 0.8),
    ("60 to 80%", 0.6),
    ("40 to 60%", 0.4),
    ("20 to 40%", 0.2),
    ("under 20%", 0.0),
)
"""Labels and smallest shares of the hardware limit, nearest to the limit first."""
_TIME_LIMITS: Final = (
    ("under 2 µs", 2_000.0),
    ("2 to 5 µs", 5_000.0),
    ("5 to 20 µs", 20_000.0),
    ("20 to 100 µs", 100_000.0),
    ("100 µs and more", float("inf")),
)


class ColourBy(StrEnum):
    """Meaning of a box's colour."""

    CATEGORY = "category"
    KIND = "kind"
    TIME = "time"
    MODULE = "module"
    PHASE = "phase"
    SLACK = "slack"
    CHANGE = "change"
    OP = "op"
    EAGER = "eager"
    STREAM = "stream"
    LIMIT = "limit"
    FAULT = "fault"


class LegendEntry(msgspec.Struct, frozen=True):
    """Colour and its meaning."""

    label: str
    """Meaning."""
    light: str
    """Colour in the light theme, "#rrggbb"."""
    dark: str
    """Colour in the dark theme, "#rrggbb"."""


class NodeColours:
    """Colours of all nodes; ``codes`` (nodes,) has the ``legend`` index of each node in fold
    order."""

    def __init__(self, shades: dict[str, Shade], keys: Sequence[str], order: Ints) -> None:
        """Colour nodes by ``keys``: a key of ``shades`` for each node, by position."""
        present = set(keys)
        used_shades = {label: shade for label, shade in shades.items() if label in present}
        self.legend = [
            LegendEntry(escape_control_characters(label), shade.light, shade.dark)
            for label, shade in used_shades.items()
        ]
        code = {label: index for index, label in enumerate(used_shades)}
        self.codes: Ints = np.fromiter((code[key] for key in keys), np.int64, len(keys))[order]
        self._same = code.get(Change.SAME.value, -1)
        self._fault = code.get(FaultState.FAULT.value, -1)

    def get_leaf_colour(self, at: int) -> int:
        """Return the colour of leaf number ``at``."""
        return int(self.codes[at])

    def get_group_colour(self, first: int, count: int) -> int:
        """Return the most frequent colour among leaves; the first of equals."""
        codes = self.codes[first : first + count]
        if self._fault in codes:
            return self._fault
        # A group with a change is not grey, even if most of its nodes are the same.
        changed = codes[codes != self._same]
        codes = changed if len(changed) else codes
        frequencies = np.bincount(codes)
        return int(codes[np.argmax(frequencies[codes] == frequencies.max())])

    def sample_colours(self, first: int, count: int) -> list[int]:
        """Return colours of evenly sampled leaves."""
        samples = min(_STRIP_LENGTH, count)
        codes: list[int] = self.codes[first + np.arange(samples) * count // samples].tolist()
        return codes


def compute_node_colours(
    by: ColourBy,
    rows: tuple[NodeRow, ...],
    path: PathMarks,
    union: GraphUnion | None,
    order: Ints,
    eager: Mapping[int, EagerCounterpart],
    streams: Mapping[int, int],
    limit_shares: Mapping[int, float],
    fault_states: Mapping[int, FaultState],
) -> NodeColours:
    """Compute the colours of ``rows`` in fold order.

    Maps of nodes: ``eager`` to counterparts, ``streams`` to planned streams, ``limit_shares`` to
    shares of the hardware limit, ``fault_states`` to results of a replay check.
    """
    match by:
        case ColourBy.CATEGORY:
            shades: dict[str, Shade] = {
                member.value: CATEGORY_SHADES[member] for member in Category
            }
            keys: list[str] = [row.category for row in rows]
        case ColourBy.KIND:
            shades = {member.value: KIND_SHADES[member] for member in NodeKind}
            keys = [row.node.kind for row in rows]
        case ColourBy.PHASE:
            shades = dict(PHASE_SHADES)
            keys = [row.origin.phase for row in rows]
        case ColourBy.MODULE:
            shades, keys = _assign_shades(
                _compute_module_keys(rows), [1.0] * len(rows), _NO_MODULE_LABEL
            )
        case ColourBy.OP:
            # The operators with the longest times, or without times those with the most nodes.
            weights = [row.times.median_ns or 1.0 for row in rows]
            shades, keys = _assign_shades(
                [row.origin.op or _NO_OPERATOR_LABEL for row in rows], weights, _NO_OPERATOR_LABEL
            )
        case ColourBy.EAGER:
            shades = {change.value: EAGER_SHADES[change] for change in EagerChange}
            keys = [
                eager[node].change.value if node in eager else EagerChange.UNKNOWN.value
                for node in range(len(rows))
            ]
        case ColourBy.STREAM:
            names = {stream: f"stream {stream}" for stream in sorted(set(streams.values()))}
            shades = {
                name: _STREAM_SHADES[stream % len(_STREAM_SHADES)] for stream, name in names.items()
            }
            shades[_NO_STREAM_LABEL] = CATEGORY_SHADES[Category.OTHER]
            keys = [
                names[streams[node]] if node in streams else _NO_STREAM_LABEL
                for node in range(len(rows))
            ]
        case ColourBy.LIMIT:
            shades = {
                label: shade for (label, _), shade in zip(_LIMIT_SHARES, TIME_SHADES, strict=True)
            }
            shades[_NO_LIMIT_LABEL] = CATEGORY_SHADES[Category.OTHER]
            keys = [_get_limit_label(limit_shares.get(node)) for node in range(len(rows))]
        case ColourBy.FAULT:
            shades = {state.value: shade for state, shade in FAULT_SHADES.items()}
            keys = [
                fault_states.get(node, FaultState.INDEPENDENT).value for node in range(len(rows))
            ]
        case ColourBy.TIME:
            shades = {
                label: shade for (label, _), shade in zip(_TIME_LIMITS, TIME_SHADES, strict=True)
            }
            shades[_UNTIMED_LABEL] = CATEGORY_SHADES[Category.OTHER]
            keys = [_get_time_label(row) for row in rows]
        case ColourBy.CHANGE:
            shades = {change.value: shade for change, shade in CHANGE_SHADES.items()}
            nodes = union.nodes if union else ()
            keys = [node.change for node in nodes] or [Change.SAME.value] * len(rows)
        case ColourBy.SLACK:
            labels = [label for label, _ in SLACK_LABELS]
            shades = dict(zip(labels, SLACK_SHADES, strict=True))
            shades[NOT_MEASURED_LABEL] = CATEGORY_SHADES[Category.OTHER]
            keys = [path.get_label(node) for node in range(len(rows))]
    return NodeColours(shades, keys, order)


def _assign_shades(
    keys: list[str], weights: list[float], other: str
) -> tuple[dict[str, Shade], list[str]]:
    """Assign shades to the keys of largest weight, ``other`` to the rest."""
    sums: dict[str, float] = {}
    for key, weight in zip(keys, weights, strict=True):
        sums[key] = sums.get(key, 0.0) + weight
    heaviest = sorted((key for key in sums if key != other), key=lambda key: -sums[key])
    shades = dict(zip(heaviest, MODULE_SHADES, strict=False)) | {
        other: CATEGORY_SHADES[Category.OTHER]
    }
    return shades, [key if key in shades else other for key in keys]


def _get_limit_label(share: float | None) -> str:
    if share is None:
        return _NO_LIMIT_LABEL
    return next(label for label, lowest in _LIMIT_SHARES if share >= lowest)


def _get_time_label(row: NodeRow) -> str:
    median = row.times.median_ns
    if median is None:
        return _UNTIMED_LABEL
    return next(label for label, limit in _TIME_LIMITS if median < limit)


def _compute_module_keys(rows: tuple[NodeRow, ...]) -> list[str]:
    """Return the shortest module prefixes that distinguish modules."""
    paths = {row.origin.module: (row.origin.module or "").split(".") for row in rows}
    depth = 2
    while depth < 4 and len({tuple(p[:depth]) for p in paths.values() if p != [""]}) < 3:
        depth += 1
    keys = {module: ".".join(path[:depth]) or _NO_MODULE_LABEL for module, path in paths.items()}
    return [keys[row.origin.module] for row in rows]
