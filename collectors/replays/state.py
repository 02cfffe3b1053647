"""Save, restore and change the memory that a step reads and writes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

import torch

from collectors.replays.operators import ExternalMemory

_MEMORY_SHARE: Final = 0.8
"""Maximum share of free GPU memory for a copy of the state."""


class StateTooLargeError(Exception):
    """A copy of the state does not fit into free memory."""


class SavedState:
    """Values of a step's external memory and of the random number generators.

    Raises:
        StateTooLargeError: The copy does not fit.
    """

    def __init__(self, externals: Mapping[int, ExternalMemory]) -> None:
        self._tensors = [memory.tensor for memory in externals.values()]
        size = sum(tensor.untyped_storage().nbytes() for tensor in self._tensors if tensor.is_cuda)
        free, _ = torch.cuda.mem_get_info()
        if size > _MEMORY_SHARE * free:
            raise StateTooLargeError(
                f"a copy of {size:,} bytes of state does not fit into {free:,} free bytes"
            )
        torch.cuda.synchronize()
        self._values = [tensor.untyped_storage().clone() for tensor in self._tensors]
        self._generators = save_generators()
        torch.cuda.synchronize()

    def restore(self) -> None:
        """Restore all values."""
        torch.cuda.synchronize()
        for tensor, value in zip(self._tensors, self._values, strict=True):
            tensor.untyped_storage().copy_(value)
        restore_generators(self._generators)
        torch.cuda.synchronize()


def save_generators() -> tuple[Any, ...]:
    """Return the state of torch's and Python's random numbers."""
    return torch.cuda.get_rng_state(), torch.get_rng_state(), random.getstate()


def restore_generators(state: tuple[Any, ...]) -> None:
    """Restore the result of :func:`save_generators`."""
    torch.cuda.set_rng_state(state[0])
    torch.set_rng_state(state[1])
    random.setstate(state[2])


def find_inputs(
    externals: Mapping[int, ExternalMemory], parameters: frozenset[int]
) -> list[torch.Tensor]:
    """Return floating-point memory that the step reads only, except ``parameters``.

    Other integers in place of indices or offsets could lead outside memory.
    """
    return [
        memory.tensor
        for storage, memory in externals.items()
        if not memory.receives_writes
        and storage not in parameters
        and memory.tensor.is_floating_point()
        and memory.tensor.numel() > 1
        and 0 not in memory.tensor.stride()
    ]


def roll_values(tensors: Iterable[torch.Tensor]) -> None:
    """Move the values of each tensor by one row, so that they stay in their range."""
    with torch.no_grad():
        for tensor in tensors:
            dimension = next((number for number, size in enumerate(tensor.shape) if size > 1), None)
            if dimension is not None:
                tensor.copy_(tensor.roll(1, dimension))
