"""Reduce the trace of a capture to the events that attribute its nodes.

Launches lead to their operators, ranges and Python frames, backward operators to forward ones.
Steps outside captures and frames of torch are most of a trace.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from collectors.passes.kernel_parameters import name_parameters
from graphviz_dash.model.frames import MODULE_FRAME, is_program_frame
from graphviz_dash.model.marks import CAPTURE

_EVENTS: Final = "traceEvents"
_OPERATOR: Final = "cpu_op"
_RANGE: Final = "user_annotation"
_FRAME: Final = "python_function"
_CALLS: Final = ("cuda_runtime", "cuda_driver")
_GPU: Final = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
_ARROWS: Final = ("ac2g", "fwdbwd")
"""Flows, which repeat correlation ids and autograd numbers."""


class _Arguments(Struct):
    sequence: int = field(name="Sequence number", default=-1)
    forward_thread: int = field(name="Fwd thread id", default=0)
    correlation: int = -1


class _Event(Struct):
    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: _Arguments = field(default_factory=_Arguments)


def reduce_capture_trace(text: bytes) -> bytes:
    """Return the trace ``text`` without the events that attribute no captured node.

    Parameters of Inductor's kernels get their names. Other events and invalid JSON do not change.
    """
    try:
        content = msgspec.json.decode(text, type=dict[str, Raw])
        raw_events = msgspec.json.decode(content[_EVENTS], type=list[Raw])
        decoder = msgspec.json.Decoder(_Event)
        events = [decoder.decode(raw) for raw in raw_events]
    except (KeyError, msgspec.DecodeError):
        return text
    selection = _select_events(events)
    texts = (
        name_parameters(bytes(raw)) for raw, keep in zip(raw_events, selection, strict=True) if keep
    )
    head = b"".join(
        b"%s: %s,\n" % (msgspec.json.encode(key), bytes(value))
        for key, value in content.items()
        if key != _EVENTS
    )
    return b'{\n%s"%s": [\n%s\n]}\n' % (head, _EVENTS.encode(), b",\n".join(texts))


def _select_events(events: list[_Event]) -> list[bool]:
    windows = _Windows([(event.ts, event.ts + event.dur) for event in events if _is_capture(event)])
    in_window = [windows.overlap(event) for event in events]
    inner_events = [event for event, inside in zip(events, in_window, strict=True) if inside]
    numbers = {
        event.args.sequence
        for event in inner_events
        if event.cat == _OPERATOR and event.args.forward_thread > 0
    }
    correlations = {event.args.correlation for event in inner_events if event.cat in _CALLS}
    forward = [
        event for event in events if event.cat == _OPERATOR and event.args.sequence in numbers
    ]
    # Sorted starts of all events whose ranges and frames are attributed.
    starts = sorted(
        event.ts
        for event in (*inner_events, *forward)
        if event.cat in (_OPERATOR, _RANGE) or event.cat in _CALLS
    )

    def has_use(event: _Event, inside: bool) -> bool:
        if event.cat in _GPU:
            return event.args.correlation in correlations
        if event.cat == _OPERATOR:
            return inside or event.args.sequence in numbers
        if event.cat == _RANGE:
            return inside or _has_instant(event, starts)
        if event.cat == _FRAME:
            is_module = inside and event.name.startswith(MODULE_FRAME)
            return is_module or (is_program_frame(event.name) and _has_instant(event, starts))
        return event.cat not in _ARROWS and (inside or event.cat not in _CALLS)

    return [has_use(event, inside) for event, inside in zip(events, in_window, strict=True)]


class _Windows:
    """Captures, or the whole trace if none is marked."""

    def __init__(self, windows: Iterable[tuple[float, float]]) -> None:
        self._begins: list[float] = []
        self._ends: list[float] = []
        for begin, end in sorted(windows):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(begin)
                self._ends.append(end)

    def overlap(self, event: _Event) -> bool:
        index = bisect_right(self._begins, event.ts + event.dur) - 1
        return not self._begins or (index >= 0 and self._ends[index] >= event.ts)


def _is_capture(event: _Event) -> bool:
    return event.cat == _RANGE and event.name.startswith(CAPTURE)


def _has_instant(event: _Event, instants: list[float]) -> bool:
    """Check if an instant, on any thread, is inside the event.

    The call of ``backward`` encloses launches of another thread.
    """
    index = bisect_left(instants, event.ts)
    return index < len(instants) and instants[index] <= event.ts + event.dur
