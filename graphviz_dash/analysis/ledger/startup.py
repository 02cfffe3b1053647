"""Wall time from the start of a process to its first useful replay, in parts that add up to it.

At each moment, one activity counts: the innermost of the thread that captures, otherwise of the
main thread, otherwise of any other thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

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


_Layer: TypeAlias = tuple[int, int, TimePart]
"""Begin and end of a period, in ns, and its part."""


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
    ranks = _rank_threads(by_thread)
    layers = _divide_program(ledger, total)
    for thread in reversed(ranks):
        layers += [(box.begin_ns, box.end_ns, box.part) for box in boxes if box.thread == thread]
    parts = _sum_parts(layers)
    return StartupLedger(
        total_ns=total,
        parts={part: parts[part] for part in TimePart if parts[part]},
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


def _sum_parts(layers: Sequence[_Layer]) -> Counter[TimePart]:
    """Sum the time of each part; a layer covers earlier ones."""
    edges = sorted({edge for begin, end, _ in layers for edge in (begin, end)})
    position = {edge: number for number, edge in enumerate(edges)}
    visible = [TimePart.BEFORE_REPLAY] * (len(edges) - 1)
    for begin, end, part in layers:
        first, after = position[begin], position[end]
        visible[first:after] = [part] * (after - first)
    parts: Counter[TimePart] = Counter()
    for part, (begin, end) in zip(visible, pairwise(edges), strict=True):
        parts[part] += end - begin
    return parts


def _rank_threads(by_thread: Mapping[int, Sequence[LedgerSpan]]) -> list[int]:
    """Order the threads: those that capture, the main thread, the others."""
    captures = Counter(
        span.thread
        for spans in by_thread.values()
        for span in spans
        if span.kind in (SpanKind.CAPTURE, SpanKind.LAUNCH)
    )
    return sorted(by_thread, key=lambda thread: (-captures[thread], thread))


def _divide_program(ledger: Ledger, total: int) -> list[_Layer]:
    """Divide the program's own code by the first context and the captures, last period first."""
    contexts = [s.time_ns for s in ledger.samples if s.kind is SampleKind.CONTEXT]
    captures = [
        span for span in ledger.spans if span.kind is SpanKind.CAPTURE and span.start_ns < total
    ]
    context = contexts[0] if contexts else total
    first_capture = max(min((span.start_ns for span in captures), default=total), context)
    last_capture = max((span.end_ns for span in captures), default=total)
    return [
        (0, total, TimePart.BEFORE_REPLAY),
        (0, min(max(last_capture, first_capture), total), TimePart.BETWEEN_CAPTURES),
        (0, min(first_capture, total), TimePart.BEFORE_CAPTURES),
        (0, min(context, total), TimePart.BEFORE_CONTEXT),
    ]
