"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final, TypeAlias

from graphviz_dash.features.efficiency.analysis.operator_call import (
    ELEMENT_BYTES,
    SCALAR_TYPES,
    OperatorCall,
    Tensor,
)
from graphviz_dash.features.efficiency.analysis.work import Work, WorkPart

Formula: TypeAlias = Callable[[OperatorCall], "Work | tuple[WorkPart, ...] | None"]
"""Work of a call, in total or by kernel; None if the inputs do not determine it."""


def measure_tensor(tensor: Tensor) -> int:
    """Return the bytes of a tensor; 0 if its data type is unknown."""
    return tensor.distinct_elements * (tensor.element_bytes or 0)


def _measure_product(
    call: OperatorCall, left: int, right: int, addend: int | None = None
) -> Work | None:
    a, b = call.require_tensors(left, right)
    if len(a.shape) < 2 or len(b.shape) < 2:
        return None
    rows, inner = a.shape[-2:]
    columns = b.shape[-1]
    batch = prod(a.shape[:-2])
    if b.shape[-2] != inner:
        return None
    extra = call.get_tensor(addend) if addend is not None else None
    read = measure_tensor(a) + measure_tensor(b) + (measure_tensor(extra) if extra else 0)
    writes = batch * rows * columns * (a.element_bytes or 0)
    return Work(read, writes, flops=2 * batch * rows * columns * inner, dtype=a.dtype)


def _measure_vector_product(call: OperatorCall, left: int, right: int) -> Work | None:
    a, x = call.require_tensors(left, right)
    if not a.shape or len(x.shape) != 1:
        return None
    result = prod(a.shape[:-1])
    return Work(
        measure_tensor(a) + measure_tensor(x),
        result * (a.element_bytes or 0),
        flops=2 * a.elements,
        dtype=a.dtype,
    )


def _measure_scaled_product(call: OperatorCall) -> Work | None:
    """``_scaled_mm(a, b, scale_a, scale_b, bias, scale_result, out_dtype)``."""
    work = _measure_product(call, 0, 1)
    kind = SCALAR_TYPES.get(call.get_integer(6) or -1)
    a, b = call.require_tensors(0, 1)
    if work is None:
        return None
    scales = sum(measure_tensor(scale) for scale in map(call.get_tensor, (2, 3, 4)) if scale)
    size = ELEMENT_BYTES.get(kind or "", a.element_bytes or 0)
    return Work(
        work.read_bytes + scales,
        a.shape[0] * b.shape[1] * size,
        flops=work.flops,
        dtype=work.dtype,
    )


def _measure_grouped_product(call: OperatorCall) -> Work | None:
    """``_grouped_mm(a, b, offsets)`` with rows of ``a`` grouped by matrix of ``b``."""
    a, b = call.require_tensors(0, 1)
    if (len(a.shape), len(b.shape)) != (2, 3):
        return None
    rows, inner = a.shape
    columns = b.shape[2]
    return Work(
        measure_tensor(a) + measure_tensor(b),
        rows * columns * (a.element_bytes or 0),
        flops=2 * rows * columns * inner,
        dtype=a.dtype,
    )


def _build_convolution_formula(stride: int, padding: int, dilation: int) -> Formula:
    def compute(call: OperatorCall) -> Work | None:
        image, weight = call.require_tensors(0, 1)
        steps, spreads = call.get_integers(stride), call.get_integers(dilation)
        output = _compute_output_shape(image, weight, steps, call.get_integers(padding), spreads)
        if output is None:
            return None
        return Work(
            _measure_visits(image, weight, output, steps, spreads) + measure_tensor(weight),
            prod(output) * (image.element_bytes or 0),
            flops=2 * prod(output) * prod(weight.shape[1:]),
            dtype=image.dtype,
        )

    return compute


def _measure_visits(
    image: Tensor,
    weight: Tensor,
    output: tuple[int, ...],
    stride: tuple[int, ...] | None,
    dilation: tuple[int, ...] | None,
) -> int:
    """Return the bytes that filters visit: larger strides skip rows.

    They skip columns, too, if all channels of a pixel are adjacent.
    """
    filters = weight.shape[2:]
    steps = _repeat(stride or (1,), len(filters))
    spreads = _repeat(dilation or (1,), len(filters))
    if {len(image.shape), len(output)} != {len(filters) + 2}:
        return measure_tensor(image)
    if {len(steps), len(spreads)} != {len(filters)}:
        return measure_tensor(image)
    visits, pixels = 1, 1
    has_adjacent_channels = image.strides is not None and image.strides[1:2] == (1,)
    for position, (size, count, width, step, spread) in enumerate(
        zip(image.shape[2:], output[2:], filters, steps, spreads, strict=True), start=1
    ):
        can_skip = spread == 1 and step > width
        can_skip &= position < len(filters) or has_adjacent_channels
        visits *= min(size, count * width) if can_skip else size
        pixels *= size
    return measure_tensor(image) * visits // max(1, pixels)


def _compute_output_shape(
    image: Tensor,
    weight: Tensor,
    stride: tuple[int, ...] | None,
    padding: tuple[int, ...] | None,
    dilation: tuple[int, ...] | None,
) -> tuple[int, ...] | None:
    spatial, filters = image.shape[2:], weight.shape[2:]
    count = len(spatial)
    if count != len(filters) or not count or stride is None or padding is None:
        return None
    strides, paddings = _repeat(stride, count), _repeat(padding, count)
    dilations = _repeat(dilation or (1,), count)
    if any(len(values) != count for values in (strides, paddings, dilations)) or 0 in strides:
        return None
    sizes = tuple(
        (size + 2 * pad - spread * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, spread in zip(
            spatial, filters, strides, paddings, dilations, strict=True
        )
    )
    return None if min(sizes) < 0 else (image.shape[0], weight.shape[0], *sizes)


def _repeat(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    return values * count if len(values) == 1 else values


def _measure_convolution(call: OperatorCall) -> Work | None:
    """``convolution(input, weight, bias, stride, padding, dilation, transposed, ...)``."""
    if call.get_flag(6):
        return _measure_transposed(call, 3, 4, 5, 7, 8)
    work = _build_convolution_formula(3, 4, 5)(call)
    return work if isinstance(work, Work) else None


def _measure_transposed(
    call: OperatorCall, stride: int, padding: int, dilation: int, output_padding: int, groups: int
) -> Work | None:
    image, weight = call.require_tensors(0, 1)
    if len(image.shape) != len(weight.shape):
        return None
    count = len(image.shape) - 2
    lists = [call.get_integers(index) for index in (stride, padding, dilation, output_padding)]
    fill = [_repeat(values, count) for values in lists if values is not None]
    if count < 1 or len(fill) != 4 or any(len(values) != count for values in fill):
        return None
    sizes = [
        (size - 1) * step - 2 * pad + spread * (kernel - 1) + extra + 1
        for size, kernel, step, pad, spread, extra in zip(
            image.shape[2:], weight.shape[2:], *fill, strict=True
        )
    ]
    # Weights: input channels, output channels of a group, filter.
    channels = weight.shape[1] * (call.get_integer(groups) or 1)
    output = image.shape[0] * channels * prod(sizes)
    return Work(
        measure_tensor(image) + measure_tensor(weight),
        output * (image.element_bytes or 0),
        flops=2 * image.elements * prod(weight.shape[1:]),
        dtype=image.dtype,
    )


def _measure_convolution_backward(call: OperatorCall) -> tuple[WorkPart, ...] | None:
    """``convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
    transposed, output_padding, groups, output_mask)``."""
    gradient, image, weight = call.require_tensors(0, 1, 2)
    mask = call.arguments[10] if len(call.arguments) > 10 else None
    positions = image.elements if call.get_flag(7) else gradient.elements
    flops = 2 * positions * prod(weight.shape[1:])
    wants = mask if isinstance(mask, tuple) and len(mask) == 3 else (True, True, False)
    parts = []
    if wants[0]:
        read = measure_tensor(gradient) + measure_tensor(weight)
        work = Work(read, measure_tensor(image), flops=flops, dtype=image.dtype)
        parts.append(WorkPart("dgrad|bwd_data|backward_data", work))
    if wants[1]:
        steps, spreads = call.get_integers(4), call.get_integers(6)
        visits = (
            measure_tensor(image)
            if call.get_flag(7)
            else _measure_visits(image, weight, gradient.shape, steps, spreads)
        )
        read = measure_tensor(gradient) + visits
        work = Work(read, measure_tensor(weight), flops=flops, dtype=image.dtype)
        parts.append(WorkPart("wgrad|bwd_filter|backward_filter", work))
    return tuple(parts) or None


FORMULAS: Final[dict[str, Formula]] = {
    "mm": lambda call: _measure_product(call, 0, 1),
    "bmm": lambda call: _measure_product(call, 0, 1),
    "addmm": lambda call: _measure_product(call, 1, 2, 0),
    "addmm_": lambda call: _measure_product(call, 1, 2, 0),
    "_addmm_activation": lambda call: _measure_product(call, 1, 2, 0),
    "baddbmm": lambda call: _measure_product(call, 1, 2, 0),
    "baddbmm_": lambda call: _measure_product(call, 1, 2, 0),
    "mv": lambda call: _measure_vector_product(call, 0, 1),
    "addmv": lambda call: _measure_vector_product(call, 1, 2),
    "addmv_": lambda call: _measure_vector_product(call, 1, 2),
    "dot": lambda call: _measure_vector_product(call, 0, 1),
    "vdot": lambda call: _measure_vector_product(call, 0, 1),
    "_scaled_mm": _measure_scaled_product,
    "_grouped_mm": _measure_grouped_product,
    "convolution": _measure_convolution,
    "_convolution": _measure_convolution,
    "cudnn_convolution": _build_convolution_formula(3, 2, 4),
    "cudnn_convolution_relu": _build_convolution_formula(3, 4, 5),
    "cudnn_convolution_add_relu": _build_convolution_formula(5, 6, 7),
    # ``cudnn_convolution_transpose(self, weight, padding, output_padding, stride, dilation)``
    "cudnn_convolution_transpose": lambda call: _measure_transposed(call, 4, 2, 5, 3, 6),
    "_conv_depthwise2d": _build_convolution_formula(4, 5, 6),
    "conv_depthwise3d": _build_convolution_formula(4, 5, 6),
    "convolution_backward": _measure_convolution_backward,
}
"""Formulas by operator."""
