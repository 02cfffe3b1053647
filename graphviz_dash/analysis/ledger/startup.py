"""Wall time from the start of a process to its first useful replay, in parts that add up to it.

At each moment, one activity counts: the innermost of the thread that captures, otherwise of the
main thread, otherwise of any other thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.model.ledger import SampleKind, SpanKind

if TYPE_CHECKING:
    from graphviz_dash.model.ledger import Ledger, LedgerSpan


class TimePart(StrEnum):
    """Part of the start-up time."""

    INTERPRETER = "Python interpreter"
    IMPORT = "imports"
    CHILD = "child processes"
    BEFORE_CONTEXT = "program before CUDA"
    CONTEXT = "CUDA context"
    WEIGHTS = "model"
    NCCL = "process group"
    CACHE = "caches"
    BEFORE_CAPTURES = "program before the captures"
    WARM_UP = "warm-up"
    DYNAMO = "Dynamo"
    INDUCTOR = "Inductor"
    TRITON = "Triton"
    AUTOTUNE = "autotuning"
    CAPTURE = "captures, Python"
    DRIVER = "captures, driver"
    BETWEEN_CAPTURES = "program between captures"
    GC = "garbage collection"
    LAUNCH = "first launches and uploads"
    BEFORE_REPLAY = "program before the first replay"
    RECORDER = "graphviz-dash"


_PARTS: Final = {
    SpanKind.INTERPRETER: TimePart.INTERPRETER,
    SpanKind.IMPORT: TimePart.IMPORT,
    SpanKind.CHILD: TimePart.CHILD,
    SpanKind.CONTEXT: TimePart.CONTEXT,
    SpanKind.WEIGHTS: TimePart.WEIGHTS,
    SpanKind.CACHE: TimePart.CACHE,
    SpanKind.WARM_UP: TimePart.WARM_UP,
    SpanKind.NCCL: TimePart.NCCL,
    SpanKind.DYNAMO: TimePart.DYNAMO,
    SpanKind.INDUCTOR: TimePart.INDUCTOR,
    SpanKind.TRITON: TimePart.TRITON,
    SpanKind.AUTOTUNE: TimePart.AUTOTUNE,
    SpanKind.CAPTURES: TimePart.BETWEEN_CAPTURES,
    SpanKind.CAPTURE: TimePart.CAPTURE,
    SpanKind.DRIVER: TimePart.DRIVER,
    SpanKind.INSTANTIATE: TimePart.DRIVER,
    SpanKind.LAUNCH: TimePart.LAUNCH,
    SpanKind.GC: TimePart.GC,
    SpanKind.RECORDER: TimePart.RECORDER,
}


_COMPILATION: Final = frozenset(
    {TimePart.DYNAMO, TimePart.INDUCTOR, TimePart.TRITON, TimePart.AUTOTUNE}
)
"""Parts that include the child processes they wait for, such as assemblers."""


class TimeSlice(Struct, frozen=True):
    """A period of one thread with the same innermost activity. Times since the start of the
    process.
    """

    begin_ns: int
    end_ns: int
    part: TimePart
    name: str
    """Empty for the program's own code."""
    thread: int


class IcicleBox(Struct, frozen=True):
    """An activity on the icicle chart. Times since the start of the process."""

    begin_ns: int
    end_ns: int
    part: TimePart
    name: str
    thread: int
    depth: int
    """Enclosing activities."""


class StartupLedger(Struct, frozen=True):
    """Start-up time of one process. Times in ns."""

    total_ns: int
    """Until the first useful replay ended."""
    parts: Mapping[TimePart, int]
    """Without parts of 0; they add up to ``total_ns``."""
    slices: tuple[TimeSlice, ...]
    """Activities of the wall clock, without gaps or overlaps."""
    boxes: tuple[IcicleBox, ...]
    """Activities of all threads."""
    is_complete: bool
    """True if the start-up ended with a useful replay."""
    recorder_ns: int
    """Part of ``total_ns`` used by the ledger's samples."""

    @property
    def program_ns(self) -> int:
        """Time of the program's own code without a known activity."""
        return sum(self.parts.get(part, 0) for part in PROGRAM_PARTS)


PROGRAM_PARTS: Final = (
    TimePart.BEFORE_CONTEXT,
    TimePart.BEFORE_CAPTURES,
    TimePart.BETWEEN_CAPTURES,
    TimePart.BEFORE_REPLAY,
)
"""The program's own code, by its place between known activities."""


def build_startup_ledger(ledger: Ledger) -> StartupLedger:
    """Build the ledger of the start-up. Without a useful replay, it ends with the last activity."""
    total = ledger.startup_end_ns
    if total is None:
        ends = [span.end_ns for span in ledger.spans] + [s.time_ns for s in ledger.samples]
        total = max(ends, default=0)
    spans = [_cut(span, total) for span in ledger.spans if span.start_ns < total]
    by_thread: dict[int, list[LedgerSpan]] = {}
    for span in spans:
        by_thread.setdefault(span.thread, []).append(span)
    boxes = [box for thread in sorted(by_thread) for box in nest_spans(by_thread[thread])]
    layers = [
        flatten([box for box in boxes if box.thread == thread])
        for thread in _rank_threads(by_thread)
    ]
    slices = merge_layers(layers, total)
    marks = _find_marks(ledger, total)
    complete = tuple(_fill_gaps(slices, total, marks))
    parts: Counter[TimePart] = Counter()
    for piece in complete:
        parts[piece.part] += piece.end_ns - piece.begin_ns
    return StartupLedger(
        total_ns=total,
        parts={part: parts[part] for part in TimePart if parts[part]},
        slices=complete,
        boxes=tuple(boxes),
        is_complete=ledger.startup_end_ns is not None,
        recorder_ns=ledger.recorder_ns,
    )


def _cut(span: LedgerSpan, end: int) -> LedgerSpan:
    return span if span.end_ns <= end else replace(span, end_ns=end)


def nest_spans(spans: Iterable[LedgerSpan]) -> list[IcicleBox]:
    """Nest the spans of one thread: an inner span ends with the span around it."""
    boxes: list[IcicleBox] = []
    stack: list[IcicleBox] = []
    for span in sorted(spans, key=lambda span: (span.start_ns, -span.end_ns)):
        while stack and stack[-1].end_ns <= span.start_ns:
            stack.pop()
        end = min(span.end_ns, stack[-1].end_ns) if stack else span.end_ns
        part = _PARTS[span.kind]
        if span.kind is SpanKind.CHILD and stack and stack[-1].part in _COMPILATION:
            part = stack[-1].part
        box = IcicleBox(span.start_ns, end, part, span.name, span.thread, len(stack))
        boxes.append(box)
        stack.append(box)
    return boxes


def flatten(boxes: Sequence[IcicleBox]) -> list[TimeSlice]:
    """Return the innermost activity of one thread at each moment that has one, in order."""
    slices: list[TimeSlice] = []
    stack: list[IcicleBox] = []
    at = 0

    def emit(limit: int) -> None:
        nonlocal at
        if stack and limit > at:
            box = stack[-1]
            slices.append(TimeSlice(at, limit, box.part, box.name, box.thread))
        at = max(at, limit)

    for box in boxes:
        while stack and stack[-1].end_ns <= box.begin_ns:
            emit(stack[-1].end_ns)
            stack.pop()
        emit(box.begin_ns)
        at = max(at, box.begin_ns)
        stack.append(box)
    while stack:
        emit(stack[-1].end_ns)
        stack.pop()
    return slices


def merge_layers(layers: Iterable[Sequence[TimeSlice]], total: int) -> list[TimeSlice]:
    """Merge layers of disjoint slices: a later layer fills the gaps of the earlier ones."""
    timeline: list[TimeSlice] = []
    for layer in layers:
        gaps = list(_find_gaps(timeline, total))
        starts = [begin for begin, _ in gaps]
        pieces = []
        for piece in layer:
            number = max(bisect_right(starts, piece.begin_ns) - 1, 0)
            while number < len(gaps) and gaps[number][0] < piece.end_ns:
                begin = max(piece.begin_ns, gaps[number][0])
                end = min(piece.end_ns, gaps[number][1])
                if begin < end:
                    pieces.append(TimeSlice(begin, end, piece.part, piece.name, piece.thread))
                number += 1
        timeline = sorted([*timeline, *pieces], key=lambda piece: piece.begin_ns)
    return timeline


def _find_gaps(slices: Sequence[TimeSlice], total: int) -> Iterable[tuple[int, int]]:
    at = 0
    for piece in slices:
        if piece.begin_ns > at:
            yield at, piece.begin_ns
        at = max(at, piece.end_ns)
    if at < total:
        yield at, total


def _rank_threads(by_thread: Mapping[int, Sequence[LedgerSpan]]) -> list[int]:
    """Order the threads: those that capture, the main thread, the others."""
    captures = Counter(
        span.thread
        for spans in by_thread.values()
        for span in spans
        if span.kind in (SpanKind.CAPTURE, SpanKind.LAUNCH)
    )
    return sorted(by_thread, key=lambda thread: (-captures[thread], thread))


class _Marks(Struct, frozen=True):
    """Moments that name the program's own code, in ns."""

    context: int
    first_capture: int
    last_capture: int
    """End of the last capture during the start-up."""


def _find_marks(ledger: Ledger, total: int) -> _Marks:
    contexts = [s.time_ns for s in ledger.samples if s.kind is SampleKind.CONTEXT]
    captures = [
        span for span in ledger.spans if span.kind is SpanKind.CAPTURE and span.start_ns < total
    ]
    context = contexts[0] if contexts else total
    first = min((span.start_ns for span in captures), default=total)
    last = max((span.end_ns for span in captures), default=total)
    return _Marks(context, max(first, context), max(last, first, context))


def _fill_gaps(slices: Sequence[TimeSlice], total: int, marks: _Marks) -> Iterable[TimeSlice]:
    edges = (
        (marks.context, TimePart.BEFORE_CONTEXT),
        (marks.first_capture, TimePart.BEFORE_CAPTURES),
        (marks.last_capture, TimePart.BETWEEN_CAPTURES),
        (total, TimePart.BEFORE_REPLAY),
    )
    pieces = list(slices)
    for begin, end in _find_gaps(slices, total):
        at = begin
        for edge, part in edges:
            limit = min(end, edge)
            if limit > at:
                pieces.append(TimeSlice(at, limit, part, "", 0))
                at = limit
        if at < end:
            pieces.append(TimeSlice(at, end, TimePart.BEFORE_REPLAY, "", 0))
    return sorted(pieces, key=lambda piece: piece.begin_ns)
