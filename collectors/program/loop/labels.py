"""What a program says of its steps: ``collectors.label``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import get_ident
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Final, TypeAlias

from collectors.guard import Guard
from collectors.program.loop.events import EventKind, LoopLog, ScopeFacts
from graphviz_dash.model.loop import Phase

Said: TypeAlias = tuple[Any, ...]
"""What a label says, as it was said: name, real, phase and the pairs of its key."""

Tick: TypeAlias = Callable[[str | None], None]
"""Is called at the end of a step: with the engine whose step it was, or None."""

_SCOPE: Final = int(EventKind.SCOPE)


class LabelNotes:
    """Where the blocks of labels are noted when they end."""

    __slots__ = ("guard", "log", "tick")

    def __init__(self, log: LoopLog, guard: Guard, tick: Tick) -> None:
        self.log = log
        self.guard = guard
        self.tick: Tick | None = tick
        """Is called at the end of each; None: no longer."""


class LabelScope:
    """A block of the program that is one step. Made without ``__init__``, which would take as long
    again: whoever makes it sets ``number`` and ``notes``. Nothing is called that need not be: a
    program may have a block every 100 µs."""

    __slots__ = ("_begin", "notes", "number")

    number: int
    """The number of the label's facts."""
    notes: LabelNotes
    """Where its block is noted."""
    _begin: int

    def __enter__(self) -> None:
        """The step begins."""
        self._begin = perf_counter_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The step ends."""
        notes = self.notes
        # As a replay is noted: one call into C with numbers of ours, which needs no guard.
        notes.log.note_scope((_SCOPE, self.number, get_ident(), self._begin, perf_counter_ns()))
        if notes.tick is not None:
            with notes.guard:
                notes.tick(None)


def label_facts(
    name: Any, real: Any, phase: Any, key: Mapping[str, Any], *, label: bool = True
) -> ScopeFacts:
    """What was said, as far as it can be used: a number of a key is an integer from 0 on, or the
    key is not known."""
    usable = all(_is_count(number) for number in key.values())
    return ScopeFacts(
        label=label,
        name=str(name),
        axes=tuple(key) if usable else (),
        key=tuple(key.values()) if usable else (),
        real=real if _is_count(real) else None,
        phase=Phase(phase) if phase in _PHASES else None,
    )


_PHASES = frozenset(Phase)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63
