"""Elementwise operators, copies, fills, random numbers and reductions."""

from __future__ import annotations

import re
from functools import partial
from math import prod
from typing import Final

from graphviz_dash.features.efficiency.analysis.formulas.matrix import Formula, measure_tensor
from graphviz_dash.features.efficiency.analysis.operator_call import (
    ELEMENT_BYTES,
    OperatorCall,
    Tensor,
)
from graphviz_dash.features.efficiency.analysis.work import Work

_FLOATS: Final = ("c10::Half", "c10::BFloat16", "float", "double")
_COMPARISONS: Final = re.compile(
    "eq|ne|lt|le|gt|ge|logical_(and|or|not|xor)|isnan|isinf|isfinite|signbit|is(pos|neg)inf|isin"
)
_WRITE_ONLY: Final = re.compile(
    "(fill|zero|uniform|normal|bernoulli|random|exponential|geometric|cauchy|log_normal)_"
)
_UNKNOWN_SIZES: Final = ("index", "masked_select")
"""The profiler records neither the list of indices nor the size of the result."""

_OPERANDS: Final = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "pow": 2, "maximum": 2, "minimum": 2, "fmod": 2,
    "remainder": 2, "atan2": 2, "mse_loss": 2, "bitwise_and": 2, "bitwise_or": 2,
    "threshold_backward": 2, "gelu_backward": 2, "silu_backward": 2, "tanh_backward": 2,
    "sigmoid_backward": 2, "leaky_relu_backward": 2, "hardswish_backward": 2,
    "where": 3, "addcmul": 3, "addcdiv": 3, "lerp": 3,
}  # fmt: skip
"""A further tensor is the result."""


def compute_pointwise(call: OperatorCall) -> Work | None:
    """Compute the work of an elementwise operator, in place or not."""
    tensors = call.tensors
    if not tensors or call.name in _UNKNOWN_SIZES:
        return None
    is_in_place = call.name.endswith("_") and not call.name.endswith("__")
    if is_in_place:
        target = tensors[0]
        read = tensors[1:] if _WRITE_ONLY.fullmatch(call.name) else tensors
        return _build(read, target.elements, target.dtype)
    if len(tensors) > 1 and not tensors[-1].elements and tensors[0].elements:
        # An empty result that the operator resizes.
        tensors = tensors[:-1]
    operands = tensors[: _OPERANDS.get(call.name, len(tensors))]
    shape = _compute_shape(operands)
    if shape is None:
        return None
    if len(operands) < len(tensors):
        return _build(operands, tensors[-1].elements, tensors[-1].dtype)
    dtype = "bool" if _COMPARISONS.fullmatch(call.name) else _choose_dtype(operands)
    return _build(operands, prod(shape), dtype)


def _build(read: tuple[Tensor, ...], elements: int, dtype: str | None) -> Work | None:
    size = ELEMENT_BYTES.get(dtype or "")
    if size is None:
        return None
    return Work(sum(map(measure_tensor, read)), elements * size)


def _compute_shape(tensors: tuple[Tensor, ...]) -> tuple[int, ...] | None:
    rank = max(len(tensor.shape) for tensor in tensors)
    shape = [1] * rank
    for tensor in tensors:
        for index, size in enumerate(tensor.shape, start=rank - len(tensor.shape)):
            if size != 1:
                if shape[index] not in (1, size):
                    return None
                shape[index] = size
    return tuple(shape)


def _choose_dtype(tensors: tuple[Tensor, ...]) -> str | None:
    """Choose the data type; tensors without dimensions count like numbers."""
    main_tensors = [tensor for tensor in tensors if tensor.shape] or list(tensors)
    floats = [tensor.dtype for tensor in tensors if tensor.dtype in _FLOATS]
    main_floats = [tensor.dtype for tensor in main_tensors if tensor.dtype in _FLOATS]
    if main_floats:
        kinds = set(main_floats)
        if kinds == {"c10::Half", "c10::BFloat16"}:
            return "float"
        return max(kinds, key=lambda kind: ELEMENT_BYTES[kind or ""])
    if floats:
        return "float"
    return max(
        (tensor.dtype for tensor in main_tensors if tensor.dtype),
        key=lambda kind: ELEMENT_BYTES[kind],
        default=None,
    )


def _measure_copy(call: OperatorCall) -> Work:
    """``copy_(self, source)``."""
    target, source = call.require_tensors(0, 1)
    return Work(measure_tensor(source), measure_tensor(target))


def _measure_range(call: OperatorCall) -> Work | None:
    """``arange(start, end, step, out)``; without a start there is one number less."""
    numbers = [value for value in call.arguments[:3] if isinstance(value, int | float)]
    tensors = call.tensors
    size = ELEMENT_BYTES[tensors[-1].dtype or ""] if tensors else 8
    if tensors and tensors[-1].elements:
        return Work(0, measure_tensor(tensors[-1]))
    if not numbers:
        return None
    start, end, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    return Work(0, max(0, -int((start - end) // step)) * size) if step else None


def _measure_reduction(call: OperatorCall, *, dims: int = 1, index_bytes: int = 0) -> Work | None:
    """``sum(self, dim, keepdim)`` and similar; without dimensions, one result.

    ``index_bytes``: additional bytes per result, for positions.
    """
    tensor = call.require_tensor(0)
    if tensor.element_bytes is None:
        return None
    axes = call.get_integers(dims)
    if axes is None:
        single = call.get_integer(dims)
        axes = () if single is None else (single,)
    rank = len(tensor.shape)
    if any(not -rank <= dim < rank for dim in axes):
        return None
    counted_axes = {dim % rank for dim in axes} if axes else set(range(rank))
    results = prod(size for index, size in enumerate(tensor.shape) if index not in counted_axes)
    return Work(measure_tensor(tensor), results * (tensor.element_bytes + index_bytes))


def _measure_argument(call: OperatorCall) -> Work | None:
    work, tensor = _measure_reduction(call), call.require_tensor(0)
    if work is None or not tensor.element_bytes:
        return None
    return Work(work.read_bytes, work.written_bytes // tensor.element_bytes * 8)


def _measure_same_size(call: OperatorCall) -> Work | None:
    tensor = call.require_tensor(0)
    return _build((tensor,), tensor.elements, tensor.dtype)


def _measure_triangle(call: OperatorCall) -> Work | None:
    """``tril(self, diagonal)`` and ``triu`` read one side of the diagonal only."""
    tensor, diagonal = call.require_tensor(0), call.get_integer(1) or 0
    if tensor.element_bytes is None or len(tensor.shape) < 2:
        return None
    rows, columns = tensor.shape[-2:]
    is_lower = call.name == "tril"
    first = diagonal + 1 if is_lower else diagonal
    count = sum(min(max(row + first, 0), columns) for row in range(rows))
    count = count if is_lower else rows * columns - count
    batch = tensor.elements // max(1, rows * columns)
    return Work(batch * count * tensor.element_bytes, tensor.elements * tensor.element_bytes)


FORMULAS: Final[dict[str, Formula]] = {
    "copy_": _measure_copy,
    "arange": _measure_range,
    **dict.fromkeys(
        ("fill_", "zero_"), lambda call: Work(0, measure_tensor(call.require_tensor(0)))
    ),
    **dict.fromkeys(
        ("sum", "mean", "amax", "amin", "any", "all", "prod", "nansum", "logsumexp"),
        _measure_reduction,
    ),
    **dict.fromkeys(("std", "var", "std_mean", "var_mean"), _measure_reduction),
    **dict.fromkeys(("norm", "linalg_vector_norm"), partial(_measure_reduction, dims=2)),
    **dict.fromkeys(("argmax", "argmin"), _measure_argument),
    **dict.fromkeys(("max", "min"), partial(_measure_reduction, index_bytes=8)),
    **dict.fromkeys(
        ("cumsum", "_cumsum", "cumprod", "roll", "flip", "logcumsumexp"), _measure_same_size
    ),
    **dict.fromkeys(("tril", "triu"), _measure_triangle),
}
"""Kernel names identify other elementwise operators."""
