"""Determine the memory accessed by arguments and results of operators."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from collectors.parallel.capture import RefusedError

UNKNOWN_RANGE: Final = (0, (1 << 63) - 1)
"""Byte range of a storage with unknown offset in another."""


_UNDECLARED: Final = frozenset({"running_mean", "running_var", "dropout_state"})
"""Arguments that torch operators write without declaring it."""


def iter_tensors(values: Any) -> Iterator[torch.Tensor]:
    """Yield nested tensors, unwrapping subclasses without own memory."""
    for leaf in tree_leaves(values):
        if is_traceable_wrapper_subclass(leaf):
            for name in leaf.__tensor_flatten__()[0]:
                yield from iter_tensors(getattr(leaf, name))
        elif isinstance(leaf, torch.Tensor):
            yield leaf


def compute_byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the byte range of its storage that a tensor accesses; the end is exclusive."""
    if not tensor.numel():
        return 0, 0
    last = sum(
        (length - 1) * step for length, step in zip(tensor.shape, tensor.stride(), strict=True)
    )
    begin, size = tensor.storage_offset(), tensor.element_size()
    return begin * size, (begin + last + 1) * size


def find_written_arguments(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    """Return the arguments that an operator writes, declared in the schema or known."""
    values: list[torch.Tensor] = []
    for position, argument in enumerate(function._schema.arguments):
        declared = argument.alias_info is not None and argument.alias_info.is_write
        if not declared and argument.name not in _UNDECLARED:
            continue
        if argument.name in kwargs:
            values += iter_tensors(kwargs[argument.name])
        elif position < len(args):
            values += iter_tensors(args[position])
    return values


def get_living_storage(reference: StorageWeakRef) -> torch.UntypedStorage | None:
    """Return the storage of a weak reference, or None if it was freed."""
    if reference.expired():
        return None
    return torch.UntypedStorage._new_with_weak_ptr(reference.cdata)


class StorageNumbering:
    """Numbers storages by first appearance and holds them weakly.

    Storages that share memory (DLPack, ``from_blob``) get the same number while both live. Numbers
    are never reused.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[int, bool, StorageWeakRef]] = {}
        self._begins: list[int] = []
        self._at: dict[int, tuple[int, int, StorageWeakRef]] = {}
        self.count = 0

    def get_number(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor's storage; a new storage increases ``count``."""
        return self._get_entry(tensor)[0]

    def alias(self, tensor: torch.Tensor, number: int) -> None:
        """Assign an existing number to a tensor's new storage."""
        storage = tensor.untyped_storage()
        self._numbers[storage._cdata] = (number, False, StorageWeakRef(storage))

    def has_number(self, tensor: torch.Tensor) -> bool:
        """Check if a tensor's storage has a number."""
        return tensor.untyped_storage()._cdata in self._numbers

    def get_access(self, tensor: torch.Tensor) -> tuple[int, int, int]:
        """Return the number of a tensor's storage and the accessed byte range."""
        number, shared, _ = self._get_entry(tensor)
        return (number, *(UNKNOWN_RANGE if shared else compute_byte_range(tensor)))

    def _get_entry(self, tensor: torch.Tensor) -> tuple[int, bool, StorageWeakRef]:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._numbers:
            # The weak reference prevents reuse of this key by another storage.
            reference = StorageWeakRef(storage)
            others = self._find_overlapping(storage.data_ptr(), storage.nbytes())
            if len(others) > 1:
                raise RefusedError("two tensors of the step overlap with a third")
            number = others.pop() if others else self.count
            self._numbers[key] = (number, number < self.count, reference)
            self.count += number == self.count
            if storage.nbytes():
                self._add_range(storage.data_ptr(), storage.nbytes(), number, reference)
        return self._numbers[key]

    def _find_overlapping(self, begin: int, size: int) -> set[int]:
        numbers: set[int] = set()
        position = max(0, bisect_left(self._begins, begin) - 1)
        while position < len(self._begins) and self._begins[position] < begin + size:
            other = self._begins[position]
            end, number, reference = self._at[other]
            if end > begin and reference.expired():
                del self._begins[position], self._at[other]
                continue
            if end > begin:
                numbers.add(number)
            position += 1
        return numbers

    def _add_range(self, begin: int, size: int, number: int, reference: StorageWeakRef) -> None:
        if begin not in self._at:
            insort(self._begins, begin)
            self._at[begin] = (begin + size, number, reference)
        elif self._at[begin][0] < begin + size:
            self._at[begin] = (begin + size, number, reference)
