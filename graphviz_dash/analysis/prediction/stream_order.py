"""What the streams of an eager step wait for.

A trace does not say which streams an event joins. A program forks from the stream on which its step
begins and joins into it, and what it waits for before a launch comes before that launch: so much is
told by the order of the calls. Where work stood ready and yet began only when work of another
stream had ended, in every step, it waited for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Flags, Ints


class StreamCalls(Struct, frozen=True):
    """The calls of a step by which streams wait for each other, in the order of time; instants in
    ns."""

    waits: Ints
    """When a stream was let wait for an event, shape (waits,)."""
    inside: Flags
    """Whether that was inside an operator: a library's own wait, shape (waits,)."""
    records: Ints
    """When an event was recorded, shape (records,)."""


class LaunchedItems(Struct, frozen=True):
    """The items of one step in the order of launch, arrays of shape (items,); instants in ns on one
    clock."""

    lane: Ints
    """Dense number of the stream."""
    launched: Ints
    """When the launching call began."""
    submitted: Ints
    """When it returned."""
    begin: Ints
    """When the item began to run."""
    end: Ints
    """When it had run."""


def stream_waits(
    steps: Sequence[LaunchedItems], calls: StreamCalls, has_default: bool, talks: Flags
) -> tuple[tuple[int, ...], ...]:
    """For each item those of other streams that it waits for; all of them are launched before it.

    ``steps`` ran the same work; ``calls`` are those of the first. ``has_default`` says whether lane
    0 is the default stream. ``talks`` (lanes,) are the streams of collectives: these wait for other
    ranks too, so that what did not run beside them in the trace is not taken to do so in a replay.
    """
    first = steps[0]
    count = len(first.lane)
    if not count or not first.lane.max():
        return ((),) * count
    as_ran = _as_ran(first)
    if not len(calls.waits):
        return tuple(map(tuple, as_ran))
    ahead = _ahead(first.lane)
    held = _held_back(steps, calls)
    lanes = first.lane.tolist()
    waited: dict[tuple[int, int], int] = {}
    waits: list[tuple[int, ...]] = []
    for item, sources in enumerate(_told_by_calls(first, calls, has_default)):
        told = [_ended_before(item, source, ahead, steps) for source in sources]
        lane = lanes[item]
        ran = [
            source
            for source in as_ran[item]
            # What is ahead of it on its stream may have waited for as much.
            if (talks[lanes[source]] or talks[lane])
            and source > waited.get((lane, lanes[source]), -1)
        ]
        waited |= {(lane, lanes[source]): source for source in ran}
        both = dict.fromkeys((*told, int(held[item]), *ran))
        waits.append(tuple(source for source in both if source >= 0))
    return tuple(waits)


def _ahead(lane: Ints) -> list[int]:
    """For each item the one ahead of it on its stream, -1 for none."""
    newest: dict[int, int] = {}
    ahead = []
    for item, stream in enumerate(lane.tolist()):
        ahead.append(newest.get(stream, -1))
        newest[stream] = item
    return ahead


def _ended_before(item: int, source: int, ahead: list[int], steps: Sequence[LaunchedItems]) -> int:
    """``source``, or the latest ahead of it on its stream that had ended in every step when
    ``item`` began: it cannot have waited for later ones. -1 for none."""
    while source >= 0 and any(items.end[source] > items.begin[item] for items in steps):
        source = ahead[source]
    return source


def _as_ran(items: LaunchedItems) -> list[list[int]]:
    """For each item the last of each other stream that had ended when it began. Streams without
    any wait between them keep that order: a step joins its streams, so that its calls are not all
    in the trace."""
    waits: list[list[int]] = []
    newest: dict[int, list[int]] = {}
    for item, (lane, begin) in enumerate(
        zip(items.lane.tolist(), items.begin.tolist(), strict=True)
    ):
        sources = []
        for other, launched in newest.items():
            ended = (source for source in reversed(launched) if items.end[source] <= begin)
            if other != lane and (source := next(ended, None)) is not None:
                sources.append(source)
        waits.append(sources)
        newest.setdefault(lane, []).append(item)
    return waits


_HAND_OVER_NS: Final = 10_000
"""So long at most passes between the end of what was waited for and the begin of what waited."""
_START_NS: Final = 10_000
"""So long at most passes between a launch and its begin on an idle stream."""


def _held_back(steps: Sequence[LaunchedItems], calls: StreamCalls) -> Ints:
    """For each item the one of another stream that it stood ready for in every step until that had
    ended, -1 for none."""
    held = np.stack([_held_in(items) for items in steps])
    same = np.where((held == held[0]).all(axis=0), held[0], -1)
    first = steps[0]
    # Only what is waited for after its launch, and before that of what waits.
    seen = np.searchsorted(calls.waits, first.launched)
    waited = seen > seen[np.maximum(same, 0)]
    return np.where((same >= 0) & waited, same, -1)


def _held_in(items: LaunchedItems) -> Ints:
    order = np.argsort(items.end, kind="stable")
    ends = items.end[order]
    held = np.full(len(items.lane), -1, dtype=np.int64)
    stream_end: dict[int, int] = {}
    for item, (lane, begin, submitted) in enumerate(
        zip(items.lane.tolist(), items.begin.tolist(), items.submitted.tolist(), strict=True)
    ):
        ready = max(stream_end.get(lane, 0), submitted + _START_NS)
        stream_end[lane] = max(stream_end.get(lane, 0), int(items.end[item]))
        at = int(np.searchsorted(ends, begin, "right")) - 1
        while at >= 0 and ends[at] > max(ready, begin - _HAND_OVER_NS):
            source = int(order[at])
            if source < item and items.lane[source] != lane:
                held[item] = source
                break
            at -= 1
    return held


def _told_by_calls(
    items: LaunchedItems, calls: StreamCalls, has_default: bool
) -> list[tuple[int, ...]]:
    events = sorted(
        [
            *((at, _LAUNCH, item) for item, at in enumerate(items.launched.tolist())),
            *((at, _RECORD, event) for event, at in enumerate(calls.records.tolist())),
            *(
                (at, _WAIT, int(inside))
                for at, inside in zip(calls.waits.tolist(), calls.inside.tolist(), strict=True)
            ),
        ]
    )
    lanes = items.lane.tolist()
    order = _StreamOrder(_main_of(items.lane, has_default))
    waits_for: list[tuple[int, ...]] = [()] * len(lanes)
    for _, kind, which in events:
        if kind == _LAUNCH:
            waits_for[which] = order.launch(which, lanes[which])
        elif kind == _RECORD:
            order.record(which)
        else:
            order.wait(by_library=bool(which))
    return waits_for


_RECORD, _WAIT, _LAUNCH = range(3)


class _StreamOrder:
    """What streams wait for, told from the events that are recorded and waited for in between.

    A trace does not say on which stream. A program's own waits lie outside of operators and go
    between a main stream and those that fork from it; a fork is one wait, a join one for each
    stream. A library's lie inside an operator: it records behind what it launched, and what is
    launched after the wait is what waits. ``main`` is the main stream's lane, None where the
    program launches nothing on it.
    """

    def __init__(self, main: int | None) -> None:
        self._main = main
        self._last: tuple[int, ...] = ()
        """The last item of the main stream, if there was one."""
        self._joined: dict[int, int] = {}
        """The last item of each stream that was joined into the main stream since."""
        self._open: dict[int, int] = {}
        """The last item of each forked stream that was not joined since."""
        self._tails: dict[int, int] = {}
        """The last item of every stream."""
        self._waits = 0
        self._newest: int | None = None
        self._recorded: tuple[int, int | None] = (-1, None)
        """The last event, and what had been launched before it."""
        self._library: dict[int, int | None] = {}
        self._library_waits = 0
        self._to_all: int | None = None
        """What a library lets all its streams wait for before their first work."""

    def record(self, event: int) -> None:
        """An event was recorded."""
        self._recorded = event, self._newest

    def wait(self, by_library: bool) -> None:
        """A stream was let wait for an event."""
        if by_library:
            event, source = self._recorded
            # A trace without records: they come right before the wait.
            self._library[event] = self._newest if event < 0 else source
            self._library_waits += 1
        else:
            self._waits += 1

    def launch(self, item: int, lane: int) -> tuple[int, ...]:
        """The items of other streams that ``item`` waits for."""
        sources = dict.fromkeys((*self._waited(lane), *self._forked(item, lane)))
        self._newest = item
        self._tails[lane] = item
        return tuple(source for source in sources if source != item)

    def _waited(self, lane: int) -> tuple[int, ...]:
        """What a library lets this launch wait for."""
        sources = dict.fromkeys(item for item in self._library.values() if item is not None)
        if len(self._library) > 1:
            # Several events at once are the streams that are joined.
            sources |= dict.fromkeys(self._tails.values())
        elif self._library_waits > 1 and sources:
            self._to_all = next(iter(sources))
        if lane not in self._tails and self._to_all is not None:
            sources[self._to_all] = None
        self._library, self._library_waits = {}, 0
        return tuple(item for item in sources if item != self._tails.get(lane))

    def _forked(self, item: int, lane: int) -> tuple[int, ...]:
        """What the program lets it wait for."""
        if lane == self._main:
            if self._waits:
                self._join()
            joined, self._joined = tuple(self._joined.values()), {}
            self._last, self._waits = (item,), 0
            return joined
        if self._waits > len(self._open) > 0:
            # More waits than a fork needs: the open streams were joined before it.
            self._waits -= len(self._open)
            self._join()
        forks = lane not in self._open and self._waits > 0
        self._waits -= forks
        self._open[lane] = item
        return (*self._last, *self._joined.values()) if forks else ()

    def _join(self) -> None:
        self._joined |= self._open
        self._open.clear()


def _main_of(lane: Ints, has_default: bool) -> int | None:
    """The main stream: the default one; else the one on which the step begins and ends, if any."""
    if has_default:
        return 0
    return int(lane[0]) if lane[0] == lane[-1] else None
