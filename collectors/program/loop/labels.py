"""Labels of steps: ``collectors.label``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import get_ident
from time import perf_counter_ns
from typing import Any, Final, TypeAlias

from collectors.guard import Guard
from collectors.program.loop.events import EventKind, LoopLog, ScopeFacts
from graphviz_dash.model.loop import Phase

Said: TypeAlias = tuple[Any, ...]
"""Label as passed by the program: name, real, phase and the pairs of its key."""

Tick: TypeAlias = Callable[[str | None], None]
"""Called at the end of a step with its engine, or None for a label."""

_SCOPE: Final = int(EventKind.SCOPE)


class StepNotes:
    """Destination of labelled blocks and of steps of an engine."""

    __slots__ = ("guard", "log", "tick")

    def __init__(self, log: LoopLog, guard: Guard, tick: Tick) -> None:
        self.log = log
        self.guard = guard
        self.tick: Tick | None = tick
        """Called at the end of each one; None once the recorder stopped."""


class LabelScope:
    """Block of the program that is one step.

    Created without ``__init__``, which would double the cost: the creator sets ``number`` and
    ``notes``. A program may have a block every 100 µs, so calls are kept to a minimum.
    """

    __slots__ = ("_begin", "notes", "number")

    number: int
    notes: StepNotes
    _begin: int

    def __enter__(self) -> None:
        self._begin = perf_counter_ns()

    def __exit__(self, _kind: object, _error: object, _trace: object) -> None:
        notes = self.notes
        # A single call into C with our own numbers, as for a replay, needs no guard.
        notes.log.note_scope((_SCOPE, self.number, get_ident(), self._begin, perf_counter_ns()))
        if notes.tick is not None:
            with notes.guard:
                notes.tick(None)


def label_facts(
    name: Any, real: Any, phase: Any, key: Mapping[str, Any], *, label: bool = True
) -> ScopeFacts:
    """Build facts from a label. Numbers of a key must be non-negative integers, or the key is
    unknown."""
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
