"""Ranks that plan a step together: its collectives need all of them, so that each must run the step
as often as the others, and none may go on alone."""

from __future__ import annotations

from typing import TypeVar

_Value = TypeVar("_Value")


class Ranks:
    """The processes of ``torch.distributed`` if a step has collectives; else this one alone."""

    def __init__(self, has_collectives: bool) -> None:
        self._count = 1
        if has_collectives:
            from torch import distributed

            if distributed.is_available() and distributed.is_initialized():
                self._count = distributed.get_world_size()

    def first(self, value: _Value) -> _Value:
        """What the first rank has for ``value``; must be picklable."""
        if self._count == 1:
            return value
        from torch import distributed

        values: list[_Value] = [value]
        distributed.broadcast_object_list(values, src=0)
        return values[0]

    def each(self, value: _Value) -> list[_Value]:
        """What each rank has for ``value``, by rank; must be picklable."""
        if self._count == 1:
            return [value]
        from torch import distributed

        values = [value] * self._count
        distributed.all_gather_object(values, value)
        return values
