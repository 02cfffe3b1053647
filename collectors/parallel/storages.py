"""Which memory the arguments and results of an operator reach."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from collectors.parallel.refusal import RefusedError

ALL: Final = (0, (1 << 63) - 1)
"""The bytes of a storage of which it is not known where it lies in another."""


_UNDECLARED: Final = frozenset({"running_mean", "running_var", "dropout_state"})
"""Arguments that operators of torch write though their schemas do not say so, such as those of
``native_batch_norm``."""


def tensors(values: Any) -> Iterator[torch.Tensor]:
    """The tensors in arguments or results, however they are nested; for one that only wraps others,
    as those of distributed computations do, these: it has no memory of its own."""
    for leaf in tree_leaves(values):
        if is_traceable_wrapper_subclass(leaf):
            for name in leaf.__tensor_flatten__()[0]:
                yield from tensors(getattr(leaf, name))
        elif isinstance(leaf, torch.Tensor):
            yield leaf


def span(tensor: torch.Tensor) -> tuple[int, int]:
    """The bytes of its storage that a tensor reaches: the first, and that behind the last."""
    if not tensor.numel():
        return 0, 0
    last = sum(
        (length - 1) * step for length, step in zip(tensor.shape, tensor.stride(), strict=True)
    )
    begin, size = tensor.storage_offset(), tensor.element_size()
    return begin * size, (begin + last + 1) * size


def written(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The arguments that an operator writes, as its schema says, and those of which it should."""
    values: list[torch.Tensor] = []
    for position, argument in enumerate(function._schema.arguments):
        declared = argument.alias_info is not None and argument.alias_info.is_write
        if not declared and argument.name not in _UNDECLARED:
            continue
        if argument.name in kwargs:
            values += tensors(kwargs[argument.name])
        elif position < len(args):
            values += tensors(args[position])
    return values


def living(reference: StorageWeakRef) -> torch.UntypedStorage | None:
    """The storage behind a weak reference; None where it has died."""
    if reference.expired():
        return None
    return torch.UntypedStorage._new_with_weak_ptr(reference.cdata)


class Storages:
    """Numbers storages in the order in which they are first seen.

    What shares memory without being one storage (DLPack, ``from_blob``) gets one number too, for as
    long as both live. Storages are held weakly: a number is of one storage for ever, though its
    memory may be taken by another when it has died.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[int, bool, StorageWeakRef]] = {}
        self._begins: list[int] = []
        self._at: dict[int, tuple[int, int, StorageWeakRef]] = {}
        self.count = 0

    def number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor's storage; ``count`` grows where it is new."""
        return self._entry(tensor)[0]

    def bind(self, tensor: torch.Tensor, number: int) -> None:
        """Gives a tensor's storage, which is new, the number of another."""
        storage = tensor.untyped_storage()
        self._numbers[storage._cdata] = (number, False, StorageWeakRef(storage))

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's storage has a number."""
        return tensor.untyped_storage()._cdata in self._numbers

    def reach(self, tensor: torch.Tensor) -> tuple[int, int, int]:
        """The number of a tensor's storage, and the bytes of it that the tensor reaches."""
        number, shared, _ = self._entry(tensor)
        return (number, *(ALL if shared else span(tensor)))

    def _entry(self, tensor: torch.Tensor) -> tuple[int, bool, StorageWeakRef]:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._numbers:
            # A weak reference keeps this key from becoming that of another storage.
            reference = StorageWeakRef(storage)
            others = self._overlapping(storage.data_ptr(), storage.nbytes())
            if len(others) > 1:
                raise RefusedError("two tensors of the step lie partly in the memory of a third")
            number = others.pop() if others else self.count
            self._numbers[key] = (number, number < self.count, reference)
            self.count += number == self.count
            if storage.nbytes():
                self._note(storage.data_ptr(), storage.nbytes(), number, reference)
        return self._numbers[key]

    def _overlapping(self, begin: int, size: int) -> set[int]:
        """The numbers of living storages with bytes in common."""
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

    def _note(self, begin: int, size: int, number: int, reference: StorageWeakRef) -> None:
        if begin not in self._at:
            insort(self._begins, begin)
            self._at[begin] = (begin + size, number, reference)
        elif self._at[begin][0] < begin + size:
            self._at[begin] = (begin + size, number, reference)
