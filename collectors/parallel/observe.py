"""Observe a step: its operators and the cost of a plain capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import torch
from msgspec.structs import replace

from collectors.allocator.history import read_segments
from collectors.driver.operands import AllocationResolver, list_live_extents
from collectors.parallel.capture import RefusedError, StepGraph, time_replays
from collectors.parallel.hidden import (
    add_hidden_accesses,
    find_hidden_extents,
    may_access_hidden_memory,
)
from collectors.parallel.line import build_operator_pieces, measure_operator_ns
from collectors.parallel.observer import OperatorObserver
from collectors.parallel.state import ExternalState, wrap_memory
from collectors.parallel.streams import allocate_workspaces, get_streams
from collectors.parallel.workspace import (
    Kernels,
    find_changed_kernels,
    find_workspace_users,
    fit_workspace,
    split_kernels,
)
from collectors.workloads import Step
from graphviz_dash.model.memory import DEFAULT_POOL
from graphviz_dash.model.parallel import Operator, Storage
from graphviz_dash.planning.operations import Piece
from graphviz_dash.planning.proof import find_unjoined_operator, remove_bookkeeping


@dataclass(frozen=True)
class ObservedStep:
    """Observation of a step during captures on one stream."""

    step: Step
    operators: tuple[Operator, ...]
    storages: tuple[Storage, ...]
    pieces: tuple[tuple[Piece, ...], ...]
    state: ExternalState
    """External memory as it was before any replay."""
    hidden: frozenset[int]
    """External storages that no operator received but some may write."""
    serial_graph: StepGraph
    kernels: tuple[Kernels, ...]
    serial_bytes: int
    """Device memory of the plain capture, including workspaces."""
    stream_workspace_bytes: int
    fitted_bytes: int | None
    """Reduced workspace of a wide stream, or None for the full size."""
    wide_bytes: int
    narrow_bytes: int
    serial_ns: float
    """Replay time from launch to completion."""
    fixed_ns: float
    """Time for launch and return, common to all graphs."""
    narrow_serial_ns: float | None
    """Replay time on a narrow stream, or None if the kernels are the same."""

    def check_kernels(self, captured: StepGraph, sizes: Sequence[int]) -> None:
        """Check that a capture runs the kernels of the fitted workspace, before it is replayed.

        Raises:
            RefusedError: An operator that needs workspace runs other kernels.
        """
        if self.fitted_bytes is None:
            return
        for index in sorted(
            find_changed_kernels(self.kernels, split_kernels(captured.read_graph(), sizes))
        ):
            if self.operators[index].needs_wide_stream:
                raise RefusedError(
                    f"{self.operators[index].name} runs other kernels in a capture on several "
                    "streams, and their workspace size is unknown",
                    self.operators[index].source,
                )


def observe_step(step: Step) -> ObservedStep:
    """Capture ``step`` on one stream: unchanged, observed, with events, and with less workspace.

    Raises:
        RefusedError: The step cannot run in parallel.
    """
    stream, narrow = get_streams([True, False])
    whole_bytes, narrow_bytes = allocate_workspaces([stream]), allocate_workspaces([narrow])
    line = StepGraph(step, stream)
    line.drop_result()
    observer = OperatorObserver()
    watched = StepGraph(step, stream, observer)
    watched.drop_result()
    operators, storages, hidden = _add_hidden_memory(observer, watched)
    graph = watched.read_graph()
    kernels = split_kernels(graph, [operator.nodes for operator in operators])
    unordered_index = find_unjoined_operator(*remove_bookkeeping(operators, graph))
    if unordered_index is not None:
        raise RefusedError(
            f"work launched by {_get_name(operators[unordered_index])} is not ordered on the "
            "step's "
            "stream",
            operators[unordered_index].source,
        )
    del watched
    state = ExternalState(operators, storages, observer.outside, observer.mixed)
    try:
        line_ns = median(time_replays([line])[0])
        fixed_ns = min(_measure_launch_ns(stream), line_ns)
        durations = measure_operator_ns(step, operators, storages, stream, line_ns - fixed_ns)
        wide, narrow_line = find_workspace_users(step, operators, storages, kernels, narrow)
        narrow_line_ns = median(time_replays([line, narrow_line])[1]) if wide else None
        del narrow_line
        fitted_bytes = None
        # Ranks that replay a collective a different number of times would deadlock.
        if wide and not any(operator.is_collective for operator in operators):
            fitted_bytes = fit_workspace(step, operators, storages, kernels, line, stream)
        wide_bytes = allocate_workspaces(get_streams([True], fitted_bytes))
    finally:
        # Restore the state even if the step is refused.
        state.restore()
    large = _find_large_allocators(observer)
    pieces = build_operator_pieces(operators, graph, durations)
    described = tuple(
        replace(
            operator,
            needs_wide_stream=index in wide,
            large_blocks=index in large,
            device_ns=durations.get(index),
            demand=max((piece.share for piece in pieces[index]), default=0.0) or None,
        )
        for index, operator in enumerate(operators)
    )
    return ObservedStep(
        step,
        described,
        storages,
        pieces,
        state,
        hidden,
        line,
        kernels,
        line.memory_bytes + whole_bytes,
        whole_bytes,
        fitted_bytes,
        wide_bytes,
        narrow_bytes,
        line_ns,
        fixed_ns,
        narrow_line_ns,
    )


def _add_hidden_memory(
    observer: OperatorObserver, watched: StepGraph
) -> tuple[list[Operator], tuple[Storage, ...], frozenset[int]]:
    """Return operators, storages including hidden ones, and those that no operator received."""
    operators, storages = _assign_foreign_memory(observer, watched)
    if not any(map(may_access_hidden_memory, operators)):
        return operators, tuple(storages), frozenset()
    default_segments = [segment for segment in read_segments() if segment.pool == DEFAULT_POOL]
    blocks = list_live_extents(default_segments, ())
    reach = AllocationResolver(default_segments, blocks, lambda _address: None)
    accessed = find_hidden_extents(
        operators, watched.read_graphs_with_operands(reach), reach, set(blocks)
    )
    operators, storages, unknown = add_hidden_accesses(
        operators, storages, observer.outside, accessed
    )
    observer.outside |= {number: wrap_memory(*extent) for number, extent in unknown.items()}
    return operators, tuple(storages), frozenset(unknown)


def _assign_foreign_memory(
    observer: OperatorObserver, watched: StepGraph
) -> tuple[list[Operator], list[Storage]]:
    """Assign memory allocated outside operators to its first user, which keeps its order."""
    operators, storages = list(observer.operators), list(observer.storages)
    for number in watched.find_storages_inside(observer.outside):
        del observer.outside[number]
        first = next(
            index
            for index, operator in enumerate(operators)
            if any(access.storage == number for access in operator.accesses)
        )
        operators[first] = replace(operators[first], opaque=True)
        storages[number] = replace(storages[number], creator=first)
    return operators, storages


def _get_name(operator: Operator) -> str:
    return operator.name or "code that calls no operator"


def _find_large_allocators(observer: OperatorObserver) -> set[int]:
    """Return operators that allocate large blocks, or first use those of operators without
    nodes."""
    large = set(observer.large)
    for index, operator in enumerate(observer.operators):
        for access in operator.accesses if operator.nodes else ():
            maker = observer.storages[access.storage].creator
            if maker in observer.large and not observer.operators[maker].nodes:
                large.add(index)
    return large


def _measure_launch_ns(stream: torch.cuda.Stream) -> float:
    value = torch.zeros(1, device="cuda")
    return median(time_replays([StepGraph(lambda: value.add_(1), stream)])[0])
