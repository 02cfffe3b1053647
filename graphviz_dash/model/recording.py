"""What was seen of a program that ran as it is, once, while the recorder watched.

Field meanings are documented for users in docs/bundle-format.md.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from graphviz_dash.model.graph import Count


class BoundaryKind(StrEnum):
    """What a step of the program was taken to be, surest first."""

    EXPLICIT = "explicit"
    OPTIMIZER = "optimizer"
    REPLAYS = "replays"
    FORWARDS = "forwards"


class RecordedGraph(Struct, frozen=True, forbid_unknown_fields=True):
    """A capture that the program made.

    ``captured_at``: ``file:line`` of the calls that led to it, innermost first, without those
    inside torch. ``capture_ns``: by the wall clock, from the call that begins the capture to the
    return of the one that ends it, instantiation included, less the time taken to read it.
    ``nodes`` is None where the graph could not be read; ``problem`` then says why, or how the
    capture failed. ``replays``: launches seen, ``window_replays`` those in the traced window.
    ``profiled``: captured while the recorder's profiler ran. ``step``: steps that had ended before.
    ``alive``: the program still held the graph when it ended.
    """

    graph: str
    captured_at: tuple[str, ...]
    capture_ns: Count
    step: Count
    nodes: Count | None
    replays: Count
    window_replays: Count
    profiled: bool
    alive: bool
    problem: str | None = None


class Recording(Struct, frozen=True, forbid_unknown_fields=True, rename={"boundary_kind": "rung"}):
    """recording.json: the program's captures, replays and steps.

    ``boundary_kind`` (``rung`` in the file) and ``boundary`` say what ends a step; None where
    nothing did. ``skip`` and ``window``
    are what was asked for: steps without a capture before the traced window, and steps in it.
    ``steps``: steps that ended while the recorder counted them. ``step_ns``: wall time on the CPU
    from the end of a step to the end of the next, of the steps since the last capture and before
    the window. The GPU was waited for before the first of them and not between them; ``drain_ns``
    is how long it was waited for after the last, None where it was not. So their sum and the drain
    are the time of so many steps in the program's own loop.
    ``marked``: whole steps in the traced window; ``window_refused``: why there was none.
    ``profiler_seen``: a profiler, the program's own or the recorder's, ran before or among them.
    ``earlier_replays``: launches of graphs captured before the recorder began. ``exit_code`` is the
    program's, negative for the signal that killed it, None for a part of a program recorded as a
    library.
    """

    boundary_kind: BoundaryKind | None
    boundary: str | None
    skip: Count
    window: Count
    steps: Count
    step_ns: tuple[Count, ...]
    drain_ns: Count | None
    marked: Count
    window_refused: str | None
    profiler_seen: bool
    earlier_replays: Count
    graphs: tuple[RecordedGraph, ...]
    exit_code: int | None = None
