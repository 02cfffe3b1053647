"""Dependencies between the streams of an eager step.

A trace does not record which streams an event joins. However, a program forks from the stream of
its first work and joins into it, and waits precede the launch that depends on them, so the order of
calls implies the dependencies. Ready work that, in every step, started only after work on another
stream ended also waited for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Flags, Ints


class StreamCalls(Struct, frozen=True):
    """Calls of a step that synchronise streams, in time order; times in ns."""

    waits: Ints
    """Times of stream waits for an event, shape (waits,)."""
    inside_operator: Flags
    """True for a library's wait, shape (waits,)."""
    records: Ints
    """Times of event records, shape (records,)."""


class LaunchedItems(Struct, frozen=True):
    """The items of one step in launch order, arrays of shape (items,); times in ns on one clock."""

    lane: Ints
    """Dense stream number."""
    launched: Ints
    """Start of the launch call."""
    submitted: Ints
    """End of the launch call."""
    begin: Ints
    end: Ints


def find_stream_waits(
    steps: Sequence[LaunchedItems], calls: StreamCalls, has_default: bool, has_collectives: Flags
) -> tuple[tuple[int, ...], ...]:
    """Return for each item the items on other streams that it waits for, all launched earlier.

    ``steps`` ran the same work; ``calls`` are those of the first. ``has_default`` means that lane 0
    is the default stream. ``has_collectives`` (lanes,) marks streams with collectives. These also
    wait for other ranks, so work that did not overlap them is assumed not to do so in a replay.
    """
    first = steps[0]
    count = len(first.lane)
    if not count or not first.lane.max():
        return ((),) * count
    as_ran = _order_from_timing(first)
    if not len(calls.waits):
        return tuple(map(tuple, as_ran))
    predecessors = _find_predecessors(first.lane)
    blockers = _find_blocking_items(steps, calls)
    lanes = first.lane.tolist()
    waited_launches: dict[tuple[int, int], int] = {}
    waits: list[tuple[int, ...]] = []
    for item, sources in enumerate(_order_from_calls(first, calls, has_default)):
        call_waits = [_find_ended_source(item, source, predecessors, steps) for source in sources]
        lane = lanes[item]
        run_waits = [
            source
            for source in as_ran[item]
            # Its predecessor on the stream may already have waited for it.
            if (has_collectives[lanes[source]] or has_collectives[lane])
            and source > waited_launches.get((lane, lanes[source]), -1)
        ]
        waited_launches |= {(lane, lanes[source]): source for source in run_waits}
        all_waits = dict.fromkeys((*call_waits, int(blockers[item]), *run_waits))
        waits.append(tuple(source for source in all_waits if source >= 0))
    return tuple(waits)


def _find_predecessors(lane: Ints) -> list[int]:
    newest: dict[int, int] = {}
    predecessors = []
    for item, stream in enumerate(lane.tolist()):
        predecessors.append(newest.get(stream, -1))
        newest[stream] = item
    return predecessors


def _find_ended_source(
    item: int, source: int, predecessors: list[int], steps: Sequence[LaunchedItems]
) -> int:
    """Return ``source`` or its latest predecessor that ended in every step before ``item`` began.

    The item cannot have waited for later ones. -1 if none.
    """
    while source >= 0 and any(items.end[source] > items.begin[item] for items in steps):
        source = predecessors[source]
    return source


def _order_from_timing(items: LaunchedItems) -> list[list[int]]:
    """Return for each item the last ended item of each other stream at its start.

    Without waits between streams, this order is kept: a step joins its streams, so the trace lacks
    some of its calls.
    """
    waits: list[list[int]] = []
    newest: dict[int, list[int]] = {}
    for item, (lane, begin) in enumerate(
        zip(items.lane.tolist(), items.begin.tolist(), strict=True)
    ):
        sources = []
        for other, launched in newest.items():
            ended_sources = (source for source in reversed(launched) if items.end[source] <= begin)
            if other != lane and (source := next(ended_sources, None)) is not None:
                sources.append(source)
        waits.append(sources)
        newest.setdefault(lane, []).append(item)
    return waits


_MAX_HANDOVER_NS: Final = 10_000
"""Maximum delay between the end of awaited work and the start of the waiting item."""
_MAX_START_DELAY_NS: Final = 10_000
"""Maximum delay between a launch and its start on an idle stream."""


def _find_blocking_items(steps: Sequence[LaunchedItems], calls: StreamCalls) -> Ints:
    """Return the item on another stream that each item waited for in every step, -1 if none."""
    blockers = np.stack([_find_blocking_items_of_step(items) for items in steps])
    shared_blocker = np.where((blockers == blockers[0]).all(axis=0), blockers[0], -1)
    first = steps[0]
    # Only if a wait comes after the awaited launch and before the waiting one.
    wait_position = np.searchsorted(calls.waits, first.launched)
    is_waiting = wait_position > wait_position[np.maximum(shared_blocker, 0)]
    return np.where((shared_blocker >= 0) & is_waiting, shared_blocker, -1)


def _find_blocking_items_of_step(items: LaunchedItems) -> Ints:
    order = np.argsort(items.end, kind="stable")
    ends = items.end[order]
    blockers = np.full(len(items.lane), -1, dtype=np.int64)
    stream_end: dict[int, int] = {}
    for item, (lane, begin, submit_time) in enumerate(
        zip(items.lane.tolist(), items.begin.tolist(), items.submitted.tolist(), strict=True)
    ):
        ready = max(stream_end.get(lane, 0), submit_time + _MAX_START_DELAY_NS)
        stream_end[lane] = max(stream_end.get(lane, 0), int(items.end[item]))
        index = int(np.searchsorted(ends, begin, "right")) - 1
        while index >= 0 and ends[index] > max(ready, begin - _MAX_HANDOVER_NS):
            source = int(order[index])
            if source < item and items.lane[source] != lane:
                blockers[item] = source
                break
            index -= 1
    return blockers


def _order_from_calls(
    items: LaunchedItems, calls: StreamCalls, has_default: bool
) -> list[tuple[int, ...]]:
    events = sorted(
        [
            *((at, _LAUNCH, item) for item, at in enumerate(items.launched.tolist())),
            *((at, _RECORD, event) for event, at in enumerate(calls.records.tolist())),
            *(
                (at, _WAIT, int(inside))
                for at, inside in zip(
                    calls.waits.tolist(), calls.inside_operator.tolist(), strict=True
                )
            ),
        ]
    )
    lanes = items.lane.tolist()
    order = _StreamOrder(_find_main_stream(items.lane, has_default))
    waits_for: list[tuple[int, ...]] = [()] * len(lanes)
    for _, kind, lane_event in events:
        if kind == _LAUNCH:
            waits_for[lane_event] = order.launch(lane_event, lanes[lane_event])
        elif kind == _RECORD:
            order.record(lane_event)
        else:
            order.wait(by_library=bool(lane_event))
    return waits_for


_RECORD, _WAIT, _LAUNCH = range(3)


class _StreamOrder:
    """Dependencies between streams, inferred from event records and waits.

    The program's own waits are outside operators and connect a main stream with its forks: one wait
    per fork, one per joined stream. A library's waits are inside an operator: it records after its
    launches, and work launched after the wait depends on it. ``main`` is the main stream's lane,
    None if the program launches nothing on it.
    """

    def __init__(self, main: int | None) -> None:
        self._main = main
        self._last: tuple[int, ...] = ()
        """Last item of the main stream, if any."""
        self._joined: dict[int, int] = {}
        """Last item of each stream joined since."""
        self._open: dict[int, int] = {}
        """Last item of each forked stream not joined since."""
        self._tails: dict[int, int] = {}
        """Last item of every stream."""
        self._waits = 0
        self._newest: int | None = None
        self._recorded: tuple[int, int | None] = (-1, None)
        """Last event, and the newest item launched before it."""
        self._library: dict[int, int | None] = {}
        self._library_waits = 0
        self._to_all: int | None = None
        """Item that all streams of a library wait for before their first work."""

    def record(self, event: int) -> None:
        self._recorded = event, self._newest

    def wait(self, by_library: bool) -> None:
        if by_library:
            event, source = self._recorded
            # In a trace without records, assume a record right before the wait.
            self._library[event] = self._newest if event < 0 else source
            self._library_waits += 1
        else:
            self._waits += 1

    def launch(self, item: int, lane: int) -> tuple[int, ...]:
        """Return the items of other streams that ``item`` waits for."""
        sources = dict.fromkeys((*self._get_library_waits(lane), *self._get_fork_waits(item, lane)))
        self._newest = item
        self._tails[lane] = item
        return tuple(source for source in sources if source != item)

    def _get_library_waits(self, lane: int) -> tuple[int, ...]:
        sources = dict.fromkeys(item for item in self._library.values() if item is not None)
        if len(self._library) > 1:
            # Several events together mark joined streams.
            sources |= dict.fromkeys(self._tails.values())
        elif self._library_waits > 1 and sources:
            self._to_all = next(iter(sources))
        if lane not in self._tails and self._to_all is not None:
            sources[self._to_all] = None
        self._library, self._library_waits = {}, 0
        return tuple(item for item in sources if item != self._tails.get(lane))

    def _get_fork_waits(self, item: int, lane: int) -> tuple[int, ...]:
        if lane == self._main:
            if self._waits:
                self._join_open_streams()
            joined_streams, self._joined = tuple(self._joined.values()), {}
            self._last, self._waits = (item,), 0
            return joined_streams
        if self._waits > len(self._open) > 0:
            # More waits than a fork needs, so the open streams were joined before it.
            self._waits -= len(self._open)
            self._join_open_streams()
        forks = lane not in self._open and self._waits > 0
        self._waits -= forks
        self._open[lane] = item
        return (*self._last, *self._joined.values()) if forks else ()

    def _join_open_streams(self) -> None:
        self._joined |= self._open
        self._open.clear()


def _find_main_stream(lane: Ints, has_default: bool) -> int | None:
    """Return the default stream, or else the common stream of the first and last work, if any."""
    if has_default:
        return 0
    return int(lane[0]) if lane[0] == lane[-1] else None
