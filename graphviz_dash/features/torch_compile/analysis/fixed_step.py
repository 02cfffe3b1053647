"""Transformation of a step's pieces for a fixed cause.

The remaining graph does the GPU work of the removed pieces, except copies of inputs and from or to
the CPU.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.clean_step import CpuPiece, GpuWork

_BREAK_PARTS: Final = (StepPart.EAGER, StepPart.WAIT)
_UNCAPTURED_PARTS: Final = (StepPart.COMPILED, StepPart.WAIT)
_GRAPH_PARTS: Final = (StepPart.COPIES, StepPart.DISPATCH, StepPart.LAUNCH)

_DISPATCH_NS: Final = 80_000
"""Cost of cudagraph trees per graph under the profiler, in ns; measured 70 to 190 µs (H200)."""

_LOOKUP_NS: Final = 16_000
"""Cost of a cache lookup with few guards under the profiler, in ns; measured 5 to 23 µs."""

Pieces = Sequence[CpuPiece]


def merge_breaks(
    pieces: Pieces, outermost: Collection[str], enclosing: Collection[str], added: set[str]
) -> list[CpuPiece]:
    """Merge the parts of a function into one graph.

    Args:
        outermost: compilations that remain.
        enclosing: compilations that contain the code between the graphs.
        added: compilations that exist because of a break.
    """
    remaining_frames = {*outermost} - {*added}
    kept_call: set[int] = set()
    if not any(piece.launches_graph and piece.frame in remaining_frames for piece in pieces):
        # Keep the first graph after the break; the outer function then launches it.
        has_lookup = any(p.part is StepPart.GUARDS and p.frame in remaining_frames for p in pieces)
        kept_call = _find_first_graph_call(pieces, added, () if has_lookup else (StepPart.GUARDS,))

    def is_removed(index: int, piece: CpuPiece) -> bool:
        if index in kept_call:
            return False
        return piece.frame in added or (piece.part in _BREAK_PARTS and piece.frame in enclosing)

    removed = {index for index, piece in enumerate(pieces) if is_removed(index, piece)}
    remaining = _remove_pieces(
        pieces,
        removed,
        {
            index
            for index, piece in enumerate(pieces)
            if piece.frame in remaining_frames or index in kept_call
        },
    )
    first = next((n for n, piece in enumerate(remaining) if piece.launches_graph), 0)
    resumed_pieces = (
        piece for index, piece in enumerate(pieces) if index in removed and piece.frame in added
    )
    return [*remaining[:first], *_move_guards(resumed_pieces), *remaining[first:]]


def _find_first_graph_call(
    pieces: Pieces, frames: Collection[str], extra_parts: Collection[StepPart]
) -> set[int]:
    """Find the pieces, including ``extra_parts``, of the first call that launches a graph; empty if
    none does."""
    launches = (n for n, p in enumerate(pieces) if p.launches_graph and p.frame in frames)
    launch = next(launches, None)
    if launch is None:
        return set()
    frame = pieces[launch].frame
    end = launch
    while end < len(pieces) and pieces[end].frame == frame:
        end += 1
    required_parts = (*_GRAPH_PARTS, *extra_parts)
    return {n for n in range(end) if pieces[n].frame == frame and pieces[n].part in required_parts}


def _move_guards(resumed_pieces: Iterable[CpuPiece]) -> Iterator[CpuPiece]:
    """Move guards before the launch, without the fixed cost of a lookup."""
    for piece in resumed_pieces:
        if piece.part is StepPart.GUARDS and piece.duration_ns > _LOOKUP_NS:
            yield replace(piece, frame=None, duration_ns=piece.duration_ns - _LOOKUP_NS)


def merge_compilations(pieces: Pieces, parts: Collection[str]) -> list[CpuPiece]:
    """Merge a function into one graph that now compiles in ``parts``, otherwise eagerly.

    Adjacent operators are assumed to belong to it.
    """
    calls = [index for index, piece in enumerate(pieces) if piece.frame in parts]
    launches = [index for index in calls if pieces[index].launches_graph]
    if not launches:
        return list(pieces)
    foreign = [index for index, piece in enumerate(pieces) if _is_foreign(piece, parts)]
    low = max((index for index in foreign if index < calls[0]), default=-1) + 1
    high = min((index for index in foreign if index > calls[-1]), default=len(pieces))
    eager = [index for index in range(low, high) if pieces[index].part is StepPart.EAGER]
    span = range(min([calls[0], *eager]), max([calls[-1], *eager]) + 1)
    # Keep the first call up to its launch.
    remaining = range(calls[0], launches[0] + 1)
    return _remove_pieces(pieces, {*span} - {*remaining}, {launches[0]})


def _is_foreign(piece: CpuPiece, parts: Collection[str]) -> bool:
    """True for other compiled code, and for waits outside compiled code."""
    if piece.frame is None:
        return piece.part in (StepPart.WAIT, StepPart.DISPATCH)
    return piece.frame not in parts


def merge_partitions(pieces: Pieces, frame: str) -> list[CpuPiece]:
    """Merge the partitions of a graph."""
    removed: set[int] = set()
    for call in _iter_calls(pieces, frame):
        launches = [index for index in call if pieces[index].launches_graph]
        if launches:
            removed.update(index for index in call if launches[0] < index <= launches[-1])
        for index in call:
            work = pieces[index].work
            if pieces[index].part in _UNCAPTURED_PARTS:
                removed.add(index)
            elif work is not None and work.is_host_copy:
                removed.update(_iter_copy_pieces(pieces, index, call))
    frame_pieces = {index for index, piece in enumerate(pieces) if piece.frame == frame}
    return _remove_pieces(pieces, removed, frame_pieces)


def _iter_copy_pieces(pieces: Pieces, copy: int, call: Sequence[int]) -> Iterator[int]:
    """Find the pieces of a device copy, with the preceding CPU work."""
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


def convert_to_graphs(pieces: Pieces, frames: Collection[str]) -> list[CpuPiece]:
    """Convert functions that launch single kernels into graphs."""
    gap_ns = load_shipped_calibration().terms[ReplayTerm.KERNEL]
    result: list[CpuPiece] = []
    graphs: dict[str | None, int] = {}
    for piece in pieces:
        if piece.part not in _UNCAPTURED_PARTS or piece.frame not in frames:
            result.append(piece)
            if piece.part is StepPart.GUARDS:
                graphs.pop(piece.frame, None)  # another call begins
            continue
        if piece.frame not in graphs:
            work = GpuWork(StepPart.REPLAY, 0.0, 0)
            result.append(CpuPiece(StepPart.DISPATCH, piece.frame, float(_DISPATCH_NS)))
            result.append(CpuPiece(StepPart.LAUNCH, piece.frame, 0.0, work))
            graphs[piece.frame] = len(result) - 1
        if piece.work is not None and _survives_fix(piece.work):
            graph_work = replace(
                piece.work, duration_ns=piece.work.duration_ns + gap_ns * piece.work.kernels
            )
            position = graphs[piece.frame]
            result[position] = _add_work(result[position], [graph_work])
    return result


def remove_copies(pieces: Pieces, frame: str, share: float) -> list[CpuPiece]:
    """Remove a share of the copied bytes; the CPU cost of the remaining copies stays."""
    result = []
    for piece in pieces:
        if piece.part is StepPart.COPIES and piece.frame == frame:
            if share == 1:
                continue
            if piece.work is not None:
                remaining_work = replace(
                    piece.work, duration_ns=piece.work.duration_ns * (1 - share)
                )
                result.append(replace(piece, work=remaining_work))
                continue
        result.append(piece)
    return result


def _remove_pieces(
    pieces: Pieces, removed: Collection[int], frame_pieces: Collection[int]
) -> list[CpuPiece]:
    """Remove pieces; the previous graph of ``frame_pieces``, or else the next one, does their
    work."""
    graphs = [n for n in sorted(frame_pieces) if n not in removed and pieces[n].launches_graph]
    if not graphs:
        return list(pieces)
    work_by_graph: dict[int, list[GpuWork]] = {}
    for index in sorted(removed):
        work = pieces[index].work
        if work is not None and _survives_fix(work):
            graph = max((n for n in graphs if n < index), default=graphs[0])
            work_by_graph.setdefault(graph, []).append(work)
    return [
        _add_work(piece, work_by_graph.get(index, ()))
        for index, piece in enumerate(pieces)
        if index not in removed
    ]


def _survives_fix(work: GpuWork) -> bool:
    return work.part is not StepPart.COPIES and not work.is_host_copy


def _add_work(piece: CpuPiece, works: Iterable[GpuWork]) -> CpuPiece:
    for added in works:
        assert piece.work is not None
        ns, kernels = piece.work.duration_ns + added.duration_ns, piece.work.kernels + added.kernels
        piece = replace(piece, work=replace(piece.work, duration_ns=ns, kernels=kernels))
    return piece


def _iter_calls(pieces: Pieces, frame: str) -> Iterator[list[int]]:
    call: list[int] = []
    for index, piece in enumerate(pieces):
        if piece.frame == frame:
            call.append(index)
        elif call:
            yield call
            call = []
    if call:
        yield call
