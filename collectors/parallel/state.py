"""The memory from outside that a step reads and writes: kept, put back, and changed for checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch

from graphviz_dash.model.parallel import Operator, Storage

FLOATS: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

_SHRINK: Final = 0.02
"""By how much a value is made smaller, at most: it stays in the range that it had."""
_ROOM: Final = 0.8
"""Of the free memory of the device, what copies may take; else they are kept on the host."""


class OutsideState:
    """The storages from outside that the operators of a step reach, as they are now."""

    def __init__(
        self,
        operators: Sequence[Operator],
        storages: Sequence[Storage],
        outside: Mapping[int, torch.UntypedStorage],
        mixed: set[int],
    ) -> None:
        """``mixed`` are storages that hold values of several types."""
        reached = {
            access.storage
            for operator in operators
            if operator.nodes
            for access in operator.accesses
        }
        self._dtypes = {number: getattr(torch, storages[number].dtype) for number in reached}
        self._fixed = mixed
        self.storages = {
            number: storage
            for number, storage in outside.items()
            if number in reached and storage.nbytes()
        }
        free, _ = torch.cuda.mem_get_info()
        size = sum(storage.nbytes() for storage in self.storages.values())
        on_host = size > _ROOM * free
        self._kept = {
            number: storage.cpu() if on_host else storage.clone()
            for number, storage in self.storages.items()
        }

    def restore(self) -> None:
        """Puts everything back."""
        torch.cuda.synchronize()
        for number, storage in self.storages.items():
            storage.copy_(self._kept[number])
        torch.cuda.synchronize()

    def vary(self, seed: int) -> None:
        """Puts everything back, with floating-point values a little smaller: which, by ``seed``."""
        self.restore()
        for number, storage in self.storages.items():
            dtype = self._dtypes[number]
            if number in self._fixed or dtype not in FLOATS:
                continue
            values = as_tensor(storage, dtype)
            noise = torch.Generator(values.device).manual_seed(seed)
            factor = torch.rand(values.shape, generator=noise, device=values.device)
            values.mul_(1 - _SHRINK * factor.to(dtype))
        torch.cuda.synchronize()

    def is_as_kept(self, number: int) -> bool:
        """Whether a storage that :meth:`vary` does not change is as it was."""
        now = as_tensor(self.storages[number], torch.uint8)
        return torch.equal(now, as_tensor(self._kept[number], torch.uint8).to(now.device))


def storage_at(begin: int, end: int) -> torch.UntypedStorage:
    """The bytes of the device between two addresses; whoever took them must keep them."""
    described = {"shape": (end - begin,), "typestr": "|u1", "data": (begin, False), "version": 3}
    memory = type("Memory", (), {"__cuda_array_interface__": described})()
    return torch.as_tensor(memory, device="cuda").untyped_storage()


def as_tensor(storage: torch.UntypedStorage, dtype: torch.dtype) -> torch.Tensor:
    """A whole storage as one tensor."""
    empty = torch.empty(0, dtype=dtype, device=storage.device)
    return empty.set_(storage, 0, (storage.nbytes() // dtype.itemsize,))
