"""Measure each operator in a graph of one stream, and its use of the GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, Final

import torch

from collectors.parallel.capture import StepGraph
from collectors.parallel.follow import Follower
from collectors.workloads import Step
from graphviz_dash.model.graph import CapturedGraph, GraphNode, KernelParams
from graphviz_dash.model.parallel import Operator, Storage
from graphviz_dash.planning.operations import Piece
from graphviz_dash.planning.proof import compute_node_ranges
from graphviz_dash.planning.share import KernelLaunch, split_into_pieces

_REPLAYS: Final = 15
_MIN_OWN_SHARE: Final = 0.3
"""Minimum share of the time between two events that belongs to the operator."""


class _OperatorTimer(Follower):
    def __init__(self, operators: Sequence[Operator], storages: Sequence[Storage]) -> None:
        super().__init__(operators, storages)
        self.events: list[tuple[int, torch.cuda.Event]] = []

    def start(self) -> None:
        self._record_event(-1)
        self._record_event(-1)
        super().start()

    def run_operator(self, index: int, function: Callable[[], Any]) -> Any:
        result = function()
        if self.operators[index].nodes:
            self._record_event(index)
        return result

    def on_unnamed_end(self, index: int) -> None:
        if self.events[-1][0] < index:
            self._record_event(index)

    def _record_event(self, index: int) -> None:
        event = torch.cuda.Event(enable_timing=True, external=True)
        event.record()
        self.events.append((index, event))


def measure_operator_ns(
    step: Step,
    operators: Sequence[Operator],
    storages: Sequence[Storage],
    stream: torch.cuda.Stream,
    line_ns: float,
) -> dict[int, int]:
    """Measure each operator with nodes in ns between events in a graph of one stream.

    Event costs are subtracted, and the sum is scaled to ``line_ns``.
    """
    timed = _OperatorTimer(operators, storages)
    graph = StepGraph(step, stream, timed)
    rows = []
    for _ in range(_REPLAYS):
        graph.graph.replay()
        torch.cuda.synchronize()
        events = [event for _, event in timed.events]
        rows.append([a.elapsed_time(b) * 1e6 for a, b in pairwise(events)])
    event_ns, *spans = [statistics.median(column) for column in zip(*rows, strict=True)]
    durations = [max(0.0, span - event_ns) for span in spans]
    # An event also delays preparation of the next operator while the previous one runs.
    excess = max(0.0, (sum(durations) - line_ns) / max(1, len(durations)))
    return {
        index: round(max(span - excess, _MIN_OWN_SHARE * span))
        for (index, _), span in zip(timed.events[2:], durations, strict=True)
    }


def build_operator_pieces(
    operators: Sequence[Operator], graph: CapturedGraph, durations_ns: Mapping[int, int]
) -> tuple[tuple[Piece, ...], ...]:
    """Return the nodes of each operator with their share of the multiprocessors."""
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    capability = (device.major, device.minor)
    return tuple(
        split_into_pieces(
            [_to_kernel_launch(node) for node in graph.nodes[nodes.start : nodes.stop]],
            durations_ns.get(index, 0),
            device.multi_processor_count,
            capability,
        )
        for index, nodes in enumerate(compute_node_ranges(operators))
    )


def _to_kernel_launch(node: GraphNode) -> KernelLaunch | None:
    params = node.params
    if not isinstance(params, KernelParams) or params.grid is None or params.block is None:
        return None
    return KernelLaunch(
        params.demangled,
        prod(params.grid),
        prod(params.block),
        params.registers or 0,
        (params.static_shared or 0) + (params.dynamic_shared or 0),
    )
