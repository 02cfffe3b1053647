"""Observes a step: its operators, what each takes and asks for, and what a plain capture takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from msgspec.structs import replace

from collectors.allocator.history import segments
from collectors.driver.operands import Reach, lived
from collectors.parallel.capture import StepGraph, median_ns, time_replays
from collectors.parallel.hidden import hidden_extents, may_hide, with_hidden
from collectors.parallel.line import operator_ns, operator_pieces
from collectors.parallel.observer import Observer
from collectors.parallel.refusal import RefusedError
from collectors.parallel.state import OutsideState, storage_at
from collectors.parallel.streams import make_workspaces, streams_of
from collectors.parallel.workspace import (
    Kernels,
    fit_workspace,
    need_workspace,
    operator_kernels,
    other_kernels,
)
from collectors.workloads import Step
from graphviz_dash.model.memory import DEFAULT_POOL
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
    hidden: frozenset[int]
    """The storages of that which no operator was given: an operator may write them."""
    line: StepGraph
    """Its plain capture."""
    kernels: tuple[Kernels, ...]
    """What each operator runs in it."""
    line_bytes: int
    """What it took from the device, workspaces included."""
    whole_bytes: int
    """The workspaces of its stream."""
    fitted_bytes: int | None
    """The workspace of a wide stream of a plan, where its operators write no more of theirs; None:
    as large as any."""
    wide_bytes: int
    """The workspaces of a wide stream of a plan."""
    narrow_bytes: int
    """The workspaces of a narrow stream."""
    line_ns: float
    """What a replay of it takes, from launch to completion."""
    fixed_ns: float
    """What of that is launch and return, which any graph has."""
    narrow_line_ns: float | None
    """What it takes on a narrow stream; None where no operator runs other kernels there."""

    def check_kernels(self, captured: StepGraph, sizes: Sequence[int]) -> None:
        """Sees that a capture in which operators made ``sizes`` nodes runs the kernels that a
        workspace was fitted to, before it is replayed.

        Raises:
            RefusedError: an operator that needs workspace runs others.
        """
        if self.fitted_bytes is None:
            return
        for index in sorted(other_kernels(self.kernels, operator_kernels(captured.read(), sizes))):
            if self.operators[index].wide:
                raise RefusedError(
                    f"{self.operators[index].name} runs other kernels in a capture on several "
                    "streams, and what workspace they need is not known",
                    self.operators[index].source,
                )


def observe(step: Step) -> ObservedStep:
    """Captures ``step`` on one stream several times: as it is, watched, with events between its
    operators, and with less workspace.

    Raises:
        RefusedError: it cannot be run in parallel.
    """
    stream, narrow = streams_of([True, False])
    whole_bytes, narrow_bytes = make_workspaces([stream]), make_workspaces([narrow])
    line = StepGraph(step, stream)
    line.drop_result()
    observer = Observer()
    watched = StepGraph(step, stream, observer)
    watched.drop_result()
    operators, storages, hidden = _with_hidden(observer, watched)
    graph = watched.read()
    kernels = operator_kernels(graph, [operator.nodes for operator in operators])
    apart = not_joined(*without_bookkeeping(operators, graph))
    if apart is not None:
        raise RefusedError(
            f"what {_name(operators[apart])} launches is not ordered on the stream of the step",
            operators[apart].source,
        )
    del watched
    state = OutsideState(operators, storages, observer.outside, observer.mixed)
    try:
        line_ns = median_ns(time_replays([line])[0])
        fixed_ns = min(_launch_ns(stream), line_ns)
        took = operator_ns(step, operators, storages, stream, line_ns - fixed_ns)
        wide, narrow_line = need_workspace(step, operators, storages, kernels, narrow)
        narrow_line_ns = median_ns(time_replays([line, narrow_line])[1]) if wide else None
        del narrow_line
        fitted_bytes = None
        # Ranks that replay a collective another number of times would wait for ever.
        if wide and not any(operator.is_collective for operator in operators):
            fitted_bytes = fit_workspace(step, operators, storages, kernels, line, stream)
        wide_bytes = make_workspaces(streams_of([True], fitted_bytes))
    finally:
        # Also where the step is refused in the midst of it.
        state.restore()
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


def _with_hidden(
    observer: Observer, watched: StepGraph
) -> tuple[list[Operator], tuple[Storage, ...], frozenset[int]]:
    """The operators and storages with what :func:`hidden_extents` finds, and the numbers of the
    storages that no operator was given."""
    operators, storages = _with_foreign(observer, watched)
    if not any(map(may_hide, operators)):
        return operators, tuple(storages), frozenset()
    held = [segment for segment in segments() if segment.pool == DEFAULT_POOL]
    blocks = lived(held, ())
    reach = Reach(held, blocks, lambda _address: None)
    reached = hidden_extents(operators, watched.read_operands(reach), reach, set(blocks))
    operators, storages, unknown = with_hidden(operators, storages, observer.outside, reached)
    observer.outside |= {number: storage_at(*extent) for number, extent in unknown.items()}
    return operators, tuple(storages), frozenset(unknown)


def _with_foreign(observer: Observer, watched: StepGraph) -> tuple[list[Operator], list[Storage]]:
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
    return operators, storages


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
