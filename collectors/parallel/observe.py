"""Observes a step: its operators, what each takes and asks for, and what a plain capture takes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from msgspec.structs import replace

from collectors.parallel.capture import StepGraph, median_ns, time_replays
from collectors.parallel.line import need_workspace, operator_ns, operator_pieces
from collectors.parallel.observer import Observer
from collectors.parallel.refusal import RefusedError
from collectors.parallel.state import OutsideState
from collectors.parallel.streams import MIDDLE_KIB, NARROW_KIB, make_workspaces, streams_of
from collectors.workloads import Step
from graphviz_dash.model.parallel import Operator, Storage
from graphviz_dash.planning.operations import Piece
from graphviz_dash.planning.proof import not_joined, without_bookkeeping


@dataclass(frozen=True)
class ObservedStep:
    """A step as it was observed while it was captured on one stream."""

    step: Step
    """The step."""
    operators: tuple[Operator, ...]
    """Its operators, in the order of the program."""
    storages: tuple[Storage, ...]
    """The memory that they reach."""
    pieces: tuple[tuple[Piece, ...], ...]
    """For each operator its nodes, and what each asks of the GPU."""
    state: OutsideState
    """The memory from outside that it reaches, as it was before any replay."""
    line: StepGraph
    """Its plain capture."""
    line_bytes: int
    """What that took from the device, workspaces included."""
    line_workspace_bytes: int
    """The workspaces of that."""
    wide_kib: int | None
    """The workspace that a wide stream needs, in KiB; None: what any other stream has."""
    wide_bytes: int
    """The workspaces of a wide stream."""
    narrow_bytes: int
    """The workspaces of a narrow stream."""
    line_ns: float
    """What a replay of it takes, from launch to completion."""
    fixed_ns: float
    """What of that is launch and return, which any graph has."""


def observe(step: Step) -> ObservedStep:
    """Captures ``step`` on one stream several times: as it is, watched, with events between its
    operators, and with less workspace.

    Raises:
        RefusedError: it cannot be run in parallel.
    """
    stream, narrow = streams_of([None, NARROW_KIB])
    line_workspace_bytes, narrow_bytes = make_workspaces([stream]), make_workspaces([narrow])
    line = StepGraph(step, stream)
    observer = Observer()
    watched = StepGraph(step, stream, observer)
    operators, storages = _with_foreign(observer, watched)
    graph = watched.read()
    apart = not_joined(*without_bookkeeping(operators, graph))
    if apart is not None:
        raise RefusedError(
            f"what {_name(operators[apart])} launches is not ordered on the stream of the step",
            operators[apart].source,
        )
    del watched
    state = OutsideState(operators, storages, observer.outside, observer.mixed)
    line_ns = median_ns(time_replays([line])[0])
    fixed_ns = min(_launch_ns(stream), line_ns)
    took = operator_ns(step, operators, storages, stream, line_ns - fixed_ns)
    wide = need_workspace(step, operators, storages, graph, narrow)
    wide_kib, wide_bytes = None, line_workspace_bytes
    if wide:
        middle = streams_of([MIDDLE_KIB])
        middle_bytes = make_workspaces(middle)
        if not need_workspace(step, operators, storages, graph, middle[0]):
            wide_kib, wide_bytes = MIDDLE_KIB, middle_bytes
    large = _with_large_blocks(observer)
    pieces = operator_pieces(operators, graph, took)
    described = tuple(
        replace(
            operator,
            wide=index in wide,
            large=index in large,
            device_ns=took.get(index),
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
        line,
        line.memory_bytes + line_workspace_bytes,
        line_workspace_bytes,
        wide_kib,
        wide_bytes,
        narrow_bytes,
        line_ns,
        fixed_ns,
    )


def _with_foreign(
    observer: Observer, watched: StepGraph
) -> tuple[list[Operator], tuple[Storage, ...]]:
    """The operators and storages; memory that the step took without an operator is made by the
    first that uses it, which keeps its order to all other work."""
    operators, storages = list(observer.operators), list(observer.storages)
    for number in watched.numbers_inside(observer.outside):
        del observer.outside[number]
        first = next(
            index
            for index, operator in enumerate(operators)
            if any(access.storage == number for access in operator.accesses)
        )
        operators[first] = replace(operators[first], opaque=True)
        storages[number] = replace(storages[number], maker=first)
    return operators, tuple(storages)


def _name(operator: Operator) -> str:
    return operator.name or "code that calls no operator"


def _with_large_blocks(observer: Observer) -> set[int]:
    """The operators that take large blocks from the allocator: where one without nodes does, the
    first that uses its memory, whose stream it shares."""
    large = set(observer.large)
    for index, operator in enumerate(observer.operators):
        for access in operator.accesses if operator.nodes else ():
            maker = observer.storages[access.storage].maker
            if maker in observer.large and not observer.operators[maker].nodes:
                large.add(index)
    return large


def _launch_ns(stream: torch.cuda.Stream) -> float:
    """What the replay of a graph of one small kernel takes."""
    value = torch.zeros(1, device="cuda")
    return median_ns(time_replays([StepGraph(lambda: value.add_(1), stream)])[0])
