"""Inputs of an operator call as recorded by torch.profiler."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

ELEMENT_BYTES: Final = {
    "double": 8,
    "float": 4,
    "c10::BFloat16": 2,
    "c10::Half": 2,
    "c10::complex<double>": 16,
    "c10::complex<float>": 8,
    "c10::complex<c10::Half>": 4,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
    "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1,
    "long int": 8,
    "long": 8,
    "unsigned long": 8,
    "int": 4,
    "unsigned int": 4,
    "short": 2,
    "short int": 2,
    "unsigned short": 2,
    "signed char": 1,
    "unsigned char": 1,
    "bool": 1,
}
"""By the profiler's name of the data type."""

SCALAR_TYPES: Final = {
    0: "unsigned char",
    1: "signed char",
    2: "short",
    3: "int",
    4: "long int",
    5: "c10::Half",
    6: "float",
    7: "double",
    11: "bool",
    15: "c10::BFloat16",
}
"""Data types by their number in torch (c10::ScalarType)."""

_LISTS: Final = ("TensorList", "OptionalTensorList")
_MAX_DIMENSIONS: Final = 64
_MAX_ELEMENTS: Final = 1 << 50
"""Beyond any memory: larger tensors come from damaged traces."""


class Tensor(Struct, frozen=True):
    """A tensor argument."""

    shape: tuple[int, ...]
    dtype: str | None
    """As the profiler names it; None inside a list of tensors."""
    strides: tuple[int, ...] | None = None
    """In elements; None if not recorded."""
    parameter: str | None = None
    """Name of a compiled kernel's parameter; None if unknown."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def distinct_elements(self) -> int:
        """Number of elements in memory: an expanded dimension counts once."""
        if self.strides is None or len(self.strides) != len(self.shape):
            return self.elements
        if 0 in self.shape:
            return 0
        return prod(
            size for size, stride in zip(self.shape, self.strides, strict=True) if stride != 0
        )

    @property
    def element_bytes(self) -> int | None:
        """Bytes per element; None if the data type is unknown."""
        return ELEMENT_BYTES.get(self.dtype or "")


class TensorList(Struct, frozen=True):
    """A list of tensors as one argument."""

    tensors: tuple[Tensor, ...]


Argument: TypeAlias = Tensor | TensorList | int | float | bool | str | tuple[Any, ...] | None
"""A tensor, a list of tensors, a value, or None if absent or unknown."""


class UnknownArgumentError(LookupError):
    """A call has no tensor in this place, or the profiler did not record it."""


class OperatorCall(Struct, frozen=True):
    """An operator with its arguments."""

    name: str
    """Name without ``aten::``."""
    arguments: tuple[Argument, ...]
    """In the order of the operator's schema."""

    def get_tensor(self, index: int) -> Tensor | None:
        """Return a tensor; None if there is none."""
        argument = self.arguments[index] if index < len(self.arguments) else None
        return argument if isinstance(argument, Tensor) else None

    def require_tensor(self, index: int) -> Tensor:
        """Return a tensor.

        Raises:
            UnknownArgumentError: there is none.
        """
        tensor = self.get_tensor(index)
        if tensor is None:
            raise UnknownArgumentError(index)
        return tensor

    def require_tensors(self, *indices: int) -> tuple[Tensor, ...]:
        """Return several tensors.

        Raises:
            UnknownArgumentError: one is missing.
        """
        return tuple(map(self.require_tensor, indices))

    def get_list(self, index: int) -> tuple[Tensor, ...]:
        """Return a list of tensors; empty if there is none."""
        argument = self.arguments[index] if index < len(self.arguments) else None
        return argument.tensors if isinstance(argument, TensorList) else ()

    def get_integers(self, index: int) -> tuple[int, ...] | None:
        """Return a list of integers; None if unknown."""
        argument = self.arguments[index] if index < len(self.arguments) else None
        if isinstance(argument, tuple) and all(type(entry) is int for entry in argument):
            return argument
        return None

    def get_integer(self, index: int) -> int | None:
        """Return an integer; None if unknown."""
        argument = self.arguments[index] if index < len(self.arguments) else None
        return argument if type(argument) is int else None

    def get_flag(self, index: int) -> bool | None:
        """Return a boolean; None if unknown."""
        argument = self.arguments[index] if index < len(self.arguments) else None
        return argument if isinstance(argument, bool) else None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Tensor arguments, without those in lists."""
        return tuple(argument for argument in self.arguments if isinstance(argument, Tensor))

    @property
    def lists(self) -> tuple[tuple[Tensor, ...], ...]:
        """Lists of tensors."""
        return tuple(
            argument.tensors for argument in self.arguments if isinstance(argument, TensorList)
        )


@lru_cache(maxsize=16384)
def parse_call(
    name: str, dims: str | None, types: str | None, strides: str | None, values: str | None
) -> OperatorCall | None:
    """Parse the recorded inputs; None if missing or malformed."""
    shapes, kinds = _decode(dims), _decode(types)
    if shapes is None or kinds is None or len(shapes) != len(kinds):
        return None
    steps = _decode(strides) or []
    concrete = _decode(values) or []
    steps += [None] * (len(shapes) - len(steps))
    concrete += [""] * (len(shapes) - len(concrete))
    arguments = tuple(
        _parse_argument(kind, shape, step, value)
        for kind, shape, step, value in zip(kinds, shapes, steps, concrete, strict=False)
    )
    return OperatorCall(name.removeprefix("aten::"), arguments)


def _decode(text: str | None) -> list[Any] | None:
    if text is None:
        return None
    try:
        content = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return content if isinstance(content, list) else None


def _parse_argument(kind: Any, shape: Any, strides: Any, value: Any) -> Argument:
    if kind in _LISTS:
        sides = strides if isinstance(strides, list) and len(strides) == len(shape) else None
        if not isinstance(shape, list):
            return None
        tensors = [
            _parse_tensor(None, entry, None if sides is None else sides[index])
            for index, entry in enumerate(shape)
        ]
        return TensorList(tuple(tensor for tensor in tensors if tensor is not None))
    if kind in ELEMENT_BYTES:
        name = value if isinstance(value, str) and value else None
        return _parse_tensor(kind, shape, strides, name)
    return _parse_value(value) if isinstance(value, str) else None


def _parse_tensor(
    kind: str | None, shape: Any, strides: Any, name: str | None = None
) -> Tensor | None:
    sizes = _parse_sizes(shape)
    if sizes is None or prod(size for size in sizes if size) >= _MAX_ELEMENTS:
        return None
    return Tensor(sizes, kind, _parse_sizes(strides), name)


def _parse_sizes(value: Any) -> tuple[int, ...] | None:
    if (
        isinstance(value, list)
        and len(value) <= _MAX_DIMENSIONS
        and all(type(size) is int and 0 <= size < _MAX_ELEMENTS for size in value)
    ):
        return tuple(value)
    return None


def _parse_value(text: str) -> Argument:
    if not text:
        return None
    try:
        content = msgspec.json.decode(text.replace("True", "true").replace("False", "false"))
    except (msgspec.DecodeError, RecursionError):
        return text
    if isinstance(content, list):
        # Lists of lists do not occur.
        return tuple(entry for entry in content if isinstance(entry, int | float | bool | str))
    return content if isinstance(content, int | float | bool) else text
