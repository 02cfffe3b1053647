"""Synchronize ranks that plan a step together.

Collectives need all ranks, so each rank must run the step the same number of times.
"""

from __future__ import annotations

from typing import TypeVar

_Value = TypeVar("_Value")


class Ranks:
    """All ranks of ``torch.distributed`` for a step with collectives, otherwise this process."""

    def __init__(self, has_collectives: bool) -> None:
        self._count = 1
        if has_collectives:
            from torch import distributed

            if distributed.is_available() and distributed.is_initialized():
                self._count = distributed.get_world_size()

    def broadcast_first(self, value: _Value) -> _Value:
        """Return the first rank's ``value``, which must be picklable."""
        if self._count == 1:
            return value
        from torch import distributed

        values: list[_Value] = [value]
        distributed.broadcast_object_list(values, src=0)
        return values[0]

    def gather(self, value: _Value) -> list[_Value]:
        """Return each rank's ``value`` by rank; values must be picklable."""
        if self._count == 1:
            return [value]
        from torch import distributed

        values = [value] * self._count
        distributed.all_gather_object(values, value)
        return values
