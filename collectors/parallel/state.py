"""Save, restore and vary the external memory of a step for checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch

from graphviz_dash.model.parallel import Operator, Storage

FLOATS: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

_MAX_REDUCTION: Final = 0.02
"""Maximum relative reduction of a value; values stay in their original range."""
_DEVICE_SHARE: Final = 0.8
"""Maximum share of free device memory for copies; above it they stay on the host."""


class ExternalState:
    """A snapshot of the external storages that a step's operators access."""

    def __init__(
        self,
        operators: Sequence[Operator],
        storages: Sequence[Storage],
        outside: Mapping[int, torch.UntypedStorage],
        mixed: set[int],
    ) -> None:
        """``mixed`` are storages with values of several dtypes."""
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
        on_host = size > _DEVICE_SHARE * free
        self._saved = {
            number: storage.cpu() if on_host else storage.clone()
            for number, storage in self.storages.items()
        }

    def restore(self) -> None:
        """Restore all saved values."""
        torch.cuda.synchronize()
        for number, storage in self.storages.items():
            storage.copy_(self._saved[number])
        torch.cuda.synchronize()

    def restore_varied(self, seed: int) -> None:
        """Restore with randomly reduced floating-point values, determined by ``seed``."""
        self.restore()
        for number, storage in self.storages.items():
            dtype = self._dtypes[number]
            if number in self._fixed or dtype not in FLOATS:
                continue
            values = view_as_tensor(storage, dtype)
            noise = torch.Generator(values.device).manual_seed(seed)
            factor = torch.rand(values.shape, generator=noise, device=values.device)
            values.mul_(1 - _MAX_REDUCTION * factor.to(dtype))
        torch.cuda.synchronize()

    def is_unchanged(self, number: int) -> bool:
        """Check if a storage that :meth:`restore_varied` leaves alone has its saved value."""
        current = view_as_tensor(self.storages[number], torch.uint8)
        return torch.equal(
            current, view_as_tensor(self._saved[number], torch.uint8).to(current.device)
        )


def wrap_memory(begin: int, end: int) -> torch.UntypedStorage:
    """Wrap device memory between two addresses; its owner must keep it alive."""
    interface = {"shape": (end - begin,), "typestr": "|u1", "data": (begin, False), "version": 3}
    memory = type("Memory", (), {"__cuda_array_interface__": interface})()
    return torch.as_tensor(memory, device="cuda").untyped_storage()


def view_as_tensor(storage: torch.UntypedStorage, dtype: torch.dtype) -> torch.Tensor:
    """View a whole storage as one tensor."""
    empty = torch.empty(0, dtype=dtype, device=storage.device)
    return empty.set_(storage, 0, (storage.nbytes() // dtype.itemsize,))
