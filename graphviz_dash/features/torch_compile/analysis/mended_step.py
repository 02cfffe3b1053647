"""The pieces of a step as they would be once a cause is mended.

Of the pieces of :mod:`.clean_step`, those go that are there
because of the cause alone. What they launch on the GPU is done all the same, by the graph that is
left; copies of inputs, and from or to the CPU, are not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from graphviz_dash.analysis.prediction.replay_model import ReplayTerm
from graphviz_dash.analysis.prediction.shipped_calibration import shipped_calibration
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.clean_step import CpuPiece, GpuWork

_BETWEEN: Final = (StepPart.EAGER, StepPart.WAIT)
_OUTSIDE: Final = (StepPart.COMPILED, StepPart.WAIT)
_OF_A_GRAPH: Final = (StepPart.COPIES, StepPart.DISPATCH, StepPart.LAUNCH)

_DISPATCH_NS: Final = 80_000
"""What the cudagraph trees take for a graph under the profiler, its inputs' copies included: 70 to
190 µs in twenty graphs on an H200 (torch 2.11), more with more inputs."""

_LOOK_UP_NS: Final = 16_000
"""What a look-up takes under the profiler where there are few guards: 5 to 23 µs in twelve with up
to a hundred; with 4,000 it was 81 µs."""

Pieces = Sequence[CpuPiece]


def without_breaks(
    pieces: Pieces, outermost: Collection[str], inside: Collection[str], added: set[str]
) -> list[CpuPiece]:
    """A function whose parts are one graph.

    Args:
        outermost: the compilations that are left.
        inside: those that the code between the graphs is in.
        added: those that are there because of a break.
    """
    own = {*outermost} - {*added}
    left: set[int] = set()
    if not any(piece.launches_graph and piece.frame in own for piece in pieces):
        # The first graph behind the break is the one that is left, called by the outer function.
        looked_up = any(p.part is StepPart.GUARDS and p.frame in own for p in pieces)
        left = _first_call(pieces, added, () if looked_up else (StepPart.GUARDS,))

    def goes(index: int, piece: CpuPiece) -> bool:
        if index in left:
            return False
        return piece.frame in added or (piece.part in _BETWEEN and piece.frame in inside)

    gone = {index for index, piece in enumerate(pieces) if goes(index, piece)}
    stays = _without(
        pieces,
        gone,
        {index for index, piece in enumerate(pieces) if piece.frame in own or index in left},
    )
    first = next((n for n, piece in enumerate(stays) if piece.launches_graph), 0)
    rests = (piece for index, piece in enumerate(pieces) if index in gone and piece.frame in added)
    return [*stays[:first], *_guards_of_rests(rests), *stays[first:]]


def _first_call(pieces: Pieces, frames: Collection[str], besides: Collection[StepPart]) -> set[int]:
    """What the first call of ``frames`` that launches a graph does for it, and the parts
    ``besides``; nothing where none does."""
    launches = (n for n, p in enumerate(pieces) if p.launches_graph and p.frame in frames)
    launch = next(launches, None)
    if launch is None:
        return set()
    frame = pieces[launch].frame
    end = launch
    while end < len(pieces) and pieces[end].frame == frame:
        end += 1
    own = (*_OF_A_GRAPH, *besides)
    return {n for n in range(end) if pieces[n].frame == frame and pieces[n].part in own}


def _guards_of_rests(rests: Iterable[CpuPiece]) -> Iterator[CpuPiece]:
    """The guards of graphs that are one then: all are looked at before the launch of the whole, but
    what a look-up takes by itself."""
    for piece in rests:
        if piece.part is StepPart.GUARDS and piece.ns > _LOOK_UP_NS:
            yield replace(piece, frame=None, ns=piece.ns - _LOOK_UP_NS)


def compiled_whole(pieces: Pieces, parts: Collection[str]) -> list[CpuPiece]:
    """A function that is one graph, where its ``parts`` are compiled one by one and the rest of it
    runs eagerly: operators beside them, up to other compiled code, are taken to be its own."""
    calls = [index for index, piece in enumerate(pieces) if piece.frame in parts]
    launches = [index for index in calls if pieces[index].launches_graph]
    if not launches:
        return list(pieces)
    foreign = [index for index, piece in enumerate(pieces) if _is_foreign(piece, parts)]
    low = max((index for index in foreign if index < calls[0]), default=-1) + 1
    high = min((index for index in foreign if index > calls[-1]), default=len(pieces))
    eager = [index for index in range(low, high) if pieces[index].part is StepPart.EAGER]
    own = range(min([calls[0], *eager]), max([calls[-1], *eager]) + 1)
    # Of the calls the first one is left, up to its launch.
    left = range(calls[0], launches[0] + 1)
    return _without(pieces, {*own} - {*left}, {launches[0]})


def _is_foreign(piece: CpuPiece, parts: Collection[str]) -> bool:
    """Whether a piece belongs to other compiled code, or to a wait outside of any."""
    if piece.frame is None:
        return piece.part in (StepPart.WAIT, StepPart.DISPATCH)
    return piece.frame not in parts


def without_splits(pieces: Pieces, frame: str) -> list[CpuPiece]:
    """A graph whose parts are one."""
    goes: set[int] = set()
    for call in _calls(pieces, frame):
        launches = [index for index in call if pieces[index].launches_graph]
        if launches:
            goes.update(index for index in call if launches[0] < index <= launches[-1])
        for index in call:
            work = pieces[index].work
            if pieces[index].part in _OUTSIDE:
                goes.add(index)
            elif work is not None and work.is_host_copy:
                goes.update(_copying(pieces, index, call))
    own = {index for index, piece in enumerate(pieces) if piece.frame == frame}
    return _without(pieces, goes, own)


def _copying(pieces: Pieces, copy: int, call: Sequence[int]) -> Iterator[int]:
    """A copy between devices within a call, with what is around it for its sake and the piece in
    front of it, in which the CPU works on what is copied."""
    part = pieces[copy].part
    index = copy
    while index in call and pieces[index].part is part:
        yield index
        index -= 1
    if index in call:
        yield index
    index = copy + 1
    while index in call and pieces[index].part is part:
        yield index
        index += 1


def recorded(pieces: Pieces, frames: Collection[str]) -> list[CpuPiece]:
    """Functions that are launched kernel by kernel, each as a graph."""
    gap_ns = shipped_calibration().terms[ReplayTerm.KERNEL]
    result: list[CpuPiece] = []
    graphs: dict[str | None, int] = {}
    for piece in pieces:
        if piece.part not in _OUTSIDE or piece.frame not in frames:
            result.append(piece)
            if piece.part is StepPart.GUARDS:
                graphs.pop(piece.frame, None)  # another call begins
            continue
        if piece.frame not in graphs:
            work = GpuWork(StepPart.REPLAY, 0.0, 0)
            result.append(CpuPiece(StepPart.DISPATCH, piece.frame, float(_DISPATCH_NS)))
            result.append(CpuPiece(StepPart.LAUNCH, piece.frame, 0.0, work))
            graphs[piece.frame] = len(result) - 1
        if piece.work is not None and _stays(piece.work):
            own = replace(piece.work, ns=piece.work.ns + gap_ns * piece.work.kernels)
            at = graphs[piece.frame]
            result[at] = _with(result[at], [own])
    return result


def without_copies(pieces: Pieces, frame: str, part: float) -> list[CpuPiece]:
    """A graph with ``part`` of its copied bytes where they are; those that are left take the CPU as
    long as all."""
    result = []
    for piece in pieces:
        if piece.part is StepPart.COPIES and piece.frame == frame:
            if part == 1:
                continue
            if piece.work is not None:
                left = replace(piece.work, ns=piece.work.ns * (1 - part))
                result.append(replace(piece, work=left))
                continue
        result.append(piece)
    return result


def _without(pieces: Pieces, goes: Collection[int], own: Collection[int]) -> list[CpuPiece]:
    """The pieces that do not go; what those that go launch is done by the last graph of ``own``
    before them, or else by the first one behind."""
    graphs = [n for n in sorted(own) if n not in goes and pieces[n].launches_graph]
    if not graphs:
        return list(pieces)
    more: dict[int, list[GpuWork]] = {}
    for index in sorted(goes):
        work = pieces[index].work
        if work is not None and _stays(work):
            graph = max((n for n in graphs if n < index), default=graphs[0])
            more.setdefault(graph, []).append(work)
    return [
        _with(piece, more.get(index, ())) for index, piece in enumerate(pieces) if index not in goes
    ]


def _stays(work: GpuWork) -> bool:
    return work.part is not StepPart.COPIES and not work.is_host_copy


def _with(piece: CpuPiece, more: Iterable[GpuWork]) -> CpuPiece:
    """A launch of a graph that does more."""
    for each in more:
        assert piece.work is not None
        ns, kernels = piece.work.ns + each.ns, piece.work.kernels + each.kernels
        piece = replace(piece, work=replace(piece.work, ns=ns, kernels=kernels))
    return piece


def _calls(pieces: Pieces, frame: str) -> Iterator[list[int]]:
    """The pieces of each call of ``frame``: those between others."""
    call: list[int] = []
    for index, piece in enumerate(pieces):
        if piece.frame == frame:
            call.append(index)
        elif call:
            yield call
            call = []
    if call:
        yield call
