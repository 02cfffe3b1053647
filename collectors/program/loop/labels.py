"""What a program says of its steps: ``collectors.label``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from types import TracebackType
from typing import Any, TypeAlias

from collectors.program.loop.events import ScopeFacts
from graphviz_dash.model.loop import Phase

LabelEnded: TypeAlias = Callable[[int, int], None]
"""Gets the number of the facts of a label, and when its block began; raises nothing of ours."""


class LabelScope:
    """A block of the program that is one step. Made without ``__init__``, which would take as long
    again: whoever makes it sets ``number`` and ``ended``."""

    __slots__ = ("_begin", "ended", "number")

    number: int
    """The number of the label's facts."""
    ended: LabelEnded
    """Is called when the block ends."""
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
        self.ended(self.number, self._begin)


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
