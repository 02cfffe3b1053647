"""What tells the graphs of a run from each other: their names, what went in, how often they ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import column
from graphviz_dash.analysis.attribution.captured_launches import capture_windows

if TYPE_CHECKING:
    from graphviz_dash.model.graph import CapturedGraph
    from graphviz_dash.model.recording import Recording
    from graphviz_dash.model.trace import Trace

_NO_KEYS: Final[Mapping[str, str]] = MappingProxyType({})
_MOST_OPS: Final = 32
"""Operators looked at for one that takes a tensor."""


class GraphIdentity(Struct, frozen=True):
    """One graph that is launched by itself."""

    id: str
    """Its id in the run."""
    name: str | None
    """What the workload calls it, or its family and key; None where neither is known."""
    input_shape: tuple[int, ...] | None
    """The shape of the first tensor that the first operator of its capture takes (a matrix before
    a vector), which tells the captures of a server for several batch sizes apart; None where the
    trace shows none."""
    replays: int | None
    """Launches seen by the recorder; None for runs that were not recorded."""


def graph_identities(
    graphs: Sequence[CapturedGraph],
    recording: Recording | None,
    captures: Sequence[Trace],
    keys: Mapping[str, str] = _NO_KEYS,
) -> tuple[GraphIdentity, ...]:
    """The ``graphs`` of a run that are launched by themselves, the most replayed first; graphs of
    as many replays in the order of their captures. ``captures`` are the traces of these, none to
    leave the shapes of inputs out. ``keys`` are names of graphs by their ids, of those that the
    workload gives none."""
    graphs = [graph for graph in graphs if graph.parent is None]
    counts = {each.graph: each.replays for each in recording.graphs} if recording else {}
    identities = (
        GraphIdentity(graph.id, graph.name or keys.get(graph.id), shape, counts.get(graph.id))
        for graph in graphs
        # A graph that is alone needs nothing to be told from others by.
        for shape in (
            _input_shape(graph, captures) if len(graphs) > 1 and graph.id not in keys else None,
        )
    )
    return tuple(sorted(identities, key=lambda each: -(each.replays or 0)))


def _input_shape(graph: CapturedGraph, captures: Sequence[Trace]) -> tuple[int, ...] | None:
    if graph.captured_in >= len(captures):
        return None
    capture = captures[graph.captured_in]
    windows = capture_windows(graph.id, capture)
    if graph.captured_as is not None:
        windows = windows[graph.captured_as : graph.captured_as + 1]
    if len(windows) != 1:
        return None
    ops = capture.ops
    first, last = np.searchsorted(column(ops, "ts"), windows[0])
    dims = ops["input_dims"].slice(int(first), int(last - first)).drop_nulls()
    return next((shape for text in dims.head(_MOST_OPS) if (shape := _first_shape(text))), None)


def _first_shape(dims: str) -> tuple[int, ...] | None:
    """Of ``dims``, the operator's inputs as the trace has them, the first of two dimensions or
    more, for a vector is a bias mostly; else the first that is no scalar's."""
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
