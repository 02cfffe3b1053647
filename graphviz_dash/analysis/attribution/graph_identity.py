"""Distinguishing features of a run's graphs: names, input shapes, replay counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import get_column
from graphviz_dash.analysis.attribution.attribution import find_capture_windows
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.trace import Trace

_NO_KEYS: Final[Mapping[str, str]] = MappingProxyType({})
_MAX_OPERATORS: Final = 32
"""Maximum number of operators searched for one with a tensor input."""


class GraphIdentity(Struct, frozen=True):
    """A graph that is launched directly."""

    id: str
    name: str | None
    """Name from the workload, or family and key; None if unknown."""
    input_shape: tuple[int, ...] | None
    """Shape of the first tensor input in the capture, preferably a matrix; None if not traced."""
    replays: int | None
    """Launches counted by the recorder; None for runs that were not recorded."""


def list_graph_identities(
    graphs: Sequence[CapturedGraph],
    recording: Recording | None,
    captures: Sequence[Trace],
    keys: Mapping[str, str] = _NO_KEYS,
) -> tuple[GraphIdentity, ...]:
    """List the directly launched ``graphs`` of a run, most replays first, then in capture order.

    Without ``captures``, input shapes are omitted. ``keys`` are fallback names by graph id.
    """
    graphs = [graph for graph in graphs if graph.parent is None]
    counts = {entry.graph: entry.replays for entry in recording.graphs} if recording else {}
    identities = (
        GraphIdentity(graph.id, graph.name or keys.get(graph.id), shape, counts.get(graph.id))
        for graph in graphs
        # A single graph needs no distinguishing features.
        for shape in (
            _find_input_shape(graph, captures)
            if len(graphs) > 1 and graph.id not in keys
            else None,
        )
    )
    return tuple(sorted(identities, key=lambda entry: -(entry.replays or 0)))


def _find_input_shape(graph: CapturedGraph, captures: Sequence[Trace]) -> tuple[int, ...] | None:
    if graph.capture_trace_index >= len(captures):
        return None
    capture = captures[graph.capture_trace_index]
    windows = find_capture_windows(graph.id, capture)
    if graph.capture_index is not None:
        windows = windows[graph.capture_index : graph.capture_index + 1]
    if len(windows) != 1:
        return None
    ops = capture.ops
    first, last = np.searchsorted(get_column(ops, "ts"), windows[0])
    dims = ops["input_dims"].slice(int(first), int(last - first)).drop_nulls()
    return next(
        (shape for text in dims.head(_MAX_OPERATORS) if (shape := _parse_first_shape(text))), None
    )


def _parse_first_shape(dims: str) -> tuple[int, ...] | None:
    """Return the first matrix shape in ``dims``, else the first non-scalar, mostly a bias."""
    try:
        inputs: list[Any] = msgspec.json.decode(dims, type=list[Any])
    except msgspec.DecodeError:
        return None
    shapes = [
        tuple(shape)
        for shape in inputs
        if isinstance(shape, list) and shape and all(isinstance(size, int) for size in shape)
    ]
    return next((shape for shape in shapes if len(shape) > 1), shapes[0] if shapes else None)
