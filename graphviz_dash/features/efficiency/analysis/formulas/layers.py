"""Normalisation, softmax, losses, dropout, pooling, resampling, indexing and sorting."""

from __future__ import annotations

from math import prod
from typing import Final

from graphviz_dash.features.efficiency.analysis.formulas.matrix import Formula, measure_tensor
from graphviz_dash.features.efficiency.analysis.operator_call import ELEMENT_BYTES, OperatorCall
from graphviz_dash.features.efficiency.analysis.work import Bound, Work, WorkPart

_INDEX_BYTES: Final = 8
_SECTOR_BYTES: Final = 32
"""Smallest access of device memory."""
_GAMMA_BETA: Final = "gamma_?beta|gammabeta|weight_bias|compute_gamma"


def _measure(call: OperatorCall, first: int, *others: int) -> int:
    """Return the bytes of tensors; those after the first are optional."""
    tensors = (call.require_tensor(first), *map(call.get_tensor, others))
    return sum(measure_tensor(tensor) for tensor in tensors if tensor is not None)


def build_map(
    reads: tuple[int, ...], writes: tuple[int, ...], bound: Bound = Bound.EXACT
) -> Formula:
    """Build a formula that reads tensors, and writes tensors of the size of others."""

    return lambda call: Work(_measure(call, *reads), _measure(call, *writes), bound)


def _measure_softmax(call: OperatorCall) -> Work:
    """``_softmax(self, dim, half_to_float)``."""
    tensor = call.require_tensor(0)
    size = 4 if call.get_flag(2) else tensor.element_bytes or 0
    return Work(measure_tensor(tensor), tensor.elements * size)


def _measure_backward(call: OperatorCall) -> Work:
    """A gradient, and an output or a mask: ``_softmax_backward_data(grad_output, output, ...)``."""
    gradient, output = call.require_tensors(0, 1)
    read = measure_tensor(gradient) + measure_tensor(output)
    return Work(read, gradient.elements * (gradient.element_bytes or 0))


def _build_norm_backward(statistics: tuple[int, ...], weight: int) -> Formula:
    """Use a kernel for the input and one for weight and bias."""

    def compute(call: OperatorCall) -> tuple[WorkPart, ...]:
        read = _measure(call, 0, 1, *statistics)
        inputs, weights = call.require_tensor(1), call.get_tensor(weight)
        size = 0 if weights is None else measure_tensor(weights)
        parts = [WorkPart(f"^(?!.*({_GAMMA_BETA}))", Work(read + size, measure_tensor(inputs)))]
        if size:
            parts.insert(0, WorkPart(_GAMMA_BETA, Work(read, 2 * size)))
        return tuple(parts)

    return compute


def _measure_dropout(call: OperatorCall) -> Work:
    """``native_dropout(input, p, train)``; the mask has one byte per element."""
    tensor = call.require_tensor(0)
    return Work(measure_tensor(tensor), tensor.elements * ((tensor.element_bytes or 0) + 1))


def _measure_nll_loss(call: OperatorCall) -> Work:
    """``nll_loss_forward(self, target, ...)`` reads one value per target."""
    target = call.require_tensor(1)
    read = measure_tensor(target) + target.elements * _SECTOR_BYTES
    return Work(read, _INDEX_BYTES, Bound.LOWER)


def _measure_nll_loss_backward(call: OperatorCall) -> Work:
    """``nll_loss_backward(grad_output, self, target, ...)`` writes one value per target."""
    target = call.require_tensor(2)
    return Work(measure_tensor(target), target.elements * _SECTOR_BYTES, Bound.LOWER)


def _measure_selection(call: OperatorCall) -> Work | None:
    """``index_select(self, dim, index)``."""
    source, indices = call.require_tensors(0, 2)
    if not source.shape:
        return None
    dimension = (call.get_integer(1) or 0) % len(source.shape)
    row = prod(size for axis, size in enumerate(source.shape) if axis != dimension)
    row_bytes = indices.elements * row * (source.element_bytes or 0)
    # Rows that are selected again come from the cache.
    bound = Bound.UPPER if indices.elements > 1 else Bound.EXACT
    return Work(min(row_bytes, measure_tensor(source)) + measure_tensor(indices), row_bytes, bound)


def _measure_bag(call: OperatorCall) -> Work | None:
    """``_embedding_bag(weight, indices, offsets, ...)`` reads a row for each index."""
    table, indices, offsets = call.require_tensors(0, 1, 2)
    if not table.shape:
        return None
    row_bytes = table.shape[-1] * (table.element_bytes or 0)
    numbers = measure_tensor(indices) + measure_tensor(offsets)
    return Work(indices.elements * row_bytes + numbers, offsets.elements * row_bytes, Bound.UPPER)


def _measure_gather(call: OperatorCall) -> Work:
    """``gather(self, dim, index)``."""
    source, indices = call.require_tensors(0, 2)
    row_bytes = indices.elements * (source.element_bytes or 0)
    # An index that is expanded along the last dimension selects whole rows.
    has_rows = indices.strides is not None and indices.strides[-1:] == (0,)
    sectors = row_bytes if has_rows else indices.elements * _SECTOR_BYTES
    read = min(sectors, measure_tensor(source)) + measure_tensor(indices)
    return Work(read, row_bytes, Bound.UPPER)


def _build_scatter(index: int, source: int, *, reads_target: bool) -> Formula:
    """Build a formula for values written or added to places of the first tensor."""

    def compute(call: OperatorCall) -> Work:
        (target, values), indices = call.require_tensors(0, source), call.get_tensor(index)
        target_bytes = min(measure_tensor(target), values.elements * (target.element_bytes or 0))
        read = measure_tensor(values) + (0 if indices is None else measure_tensor(indices))
        return Work(read + (target_bytes if reads_target else 0), target_bytes, Bound.UPPER)

    return compute


def _measure_embedding_backward(call: OperatorCall) -> Work | None:
    """``embedding_dense_backward(grad_output, indices, num_weights, ...)``."""
    (gradient, indices), rows = call.require_tensors(0, 1), call.get_integer(2)
    if rows is None or not gradient.shape:
        return None
    writes = rows * gradient.shape[-1] * (gradient.element_bytes or 0)
    return Work(measure_tensor(gradient) + measure_tensor(indices), writes, Bound.LOWER)


def _measure_sort(call: OperatorCall) -> Work:
    tensor = call.require_tensor(0)
    writes = tensor.elements * ((tensor.element_bytes or 0) + _INDEX_BYTES)
    return Work(measure_tensor(tensor), writes, Bound.LOWER)


def _measure_topk(call: OperatorCall) -> Work | None:
    """``topk(self, k, dim, ...)``."""
    tensor, count = call.require_tensor(0), call.get_integer(1)
    if count is None or not tensor.shape:
        return None
    dimension = call.get_integer(2)
    length = tensor.shape[-1 if dimension is None else dimension] or 1
    results = tensor.elements // length * count
    writes = results * ((tensor.element_bytes or 0) + _INDEX_BYTES)
    return Work(measure_tensor(tensor), writes, Bound.LOWER)


def _build_pooling(dilations: int | None, ceil: int, *, indices: bool) -> Formula:
    """Build a formula for windows of the first tensor."""

    def compute(call: OperatorCall) -> Work | None:
        tensor, kernel = call.require_tensor(0), call.get_integers(1)
        padding = call.get_integers(3) or (0,)
        if not kernel:
            return None
        count = len(tensor.shape) - 2 if len(tensor.shape) > 3 else len(tensor.shape) - 1
        stride = call.get_integers(2) or kernel
        dilation = (call.get_integers(dilations) if dilations is not None else None) or (1,)
        lists = [v * count if len(v) == 1 else v for v in (kernel, stride, padding, dilation)]
        if any(len(values) != count for values in lists) or 0 in lists[1]:
            return None
        round_up = bool(call.get_flag(ceil))
        sizes = [
            (size + 2 * pad - spread * (window - 1) - 1 + (step - 1 if round_up else 0)) // step + 1
            for size, window, step, pad, spread in zip(tensor.shape[-count:], *lists, strict=True)
        ]
        results = prod(tensor.shape[:-count]) * prod(sizes)
        size = (tensor.element_bytes or 0) + (_INDEX_BYTES if indices else 0)
        return Work(measure_tensor(tensor), results * size)

    return compute


def _measure_resampling(call: OperatorCall) -> Work | None:
    """``upsample_*(self, output_size, ...)``."""
    tensor, sizes = call.require_tensor(0), call.get_integers(1)
    if sizes is None or len(sizes) >= len(tensor.shape):
        return None
    leading = tensor.shape[: len(tensor.shape) - len(sizes)]
    return Work(measure_tensor(tensor), prod(leading) * prod(sizes) * (tensor.element_bytes or 0))


def _measure_resampling_backward(call: OperatorCall) -> Work | None:
    """``upsample_*_backward(grad_output, output_size, input_size, ...)``."""
    tensor, sizes = call.require_tensor(0), call.get_integers(2)
    if sizes is None:
        return None
    return Work(measure_tensor(tensor), prod(sizes) * (tensor.element_bytes or 0))


def _measure_recurrent_cell(call: OperatorCall) -> Work:
    """``_thnn_fused_lstm_cell(input_gates, hidden_gates, cx, ...)`` writes state and workspace."""
    gates, state = call.require_tensors(0, 2)
    read = sum(map(measure_tensor, call.tensors))
    return Work(read, 2 * measure_tensor(state) + measure_tensor(gates), Bound.UPPER)


def _build_batch_norm_backward(gradient: int, image: int) -> Formula:
    def compute(call: OperatorCall) -> Work:
        read, inputs = _measure(call, gradient, image), call.require_tensor(image)
        return Work(read, inputs.elements * ELEMENT_BYTES.get(inputs.dtype or "", 0), Bound.LOWER)

    return compute


FORMULAS: Final[dict[str, Formula]] = {
    "_softmax": _measure_softmax,
    "_log_softmax": _measure_softmax,
    "_softmax_backward_data": _measure_backward,
    "_log_softmax_backward_data": _measure_backward,
    "native_layer_norm": build_map((0, 2, 3), (0,)),
    "native_layer_norm_backward": _build_norm_backward((3, 4), 5),
    "_fused_rms_norm": build_map((0, 2), (0,)),
    "_fused_rms_norm_backward": _build_norm_backward((3,), 4),
    # The statistics need all values before the first result: two reads, unless they stay in L2.
    "native_group_norm": build_map((0, 1, 2), (0,), Bound.LOWER),
    "native_group_norm_backward": build_map((0, 1, 2, 3, 4), (1,), Bound.LOWER),
    "cudnn_batch_norm": build_map((0, 1, 2), (0,), Bound.LOWER),
    "cudnn_batch_norm_backward": _build_batch_norm_backward(1, 0),
    "native_batch_norm": build_map((0, 1, 2), (0,), Bound.LOWER),
    "_native_batch_norm_legit": build_map((0, 1, 2), (0,), Bound.LOWER),
    "_batch_norm_with_update": build_map((0, 1, 2), (0,), Bound.LOWER),
    "native_batch_norm_backward": _build_batch_norm_backward(0, 1),
    "batch_norm_backward": _build_batch_norm_backward(0, 1),
    "native_dropout": _measure_dropout,
    "_fused_dropout": _measure_dropout,
    "native_dropout_backward": _measure_backward,
    "nll_loss_forward": _measure_nll_loss,
    "nll_loss_backward": _measure_nll_loss_backward,
    "nll_loss2d_forward": _measure_nll_loss,
    "nll_loss2d_backward": _measure_nll_loss_backward,
    "index_select": _measure_selection,
    "gather": _measure_gather,
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _measure_bag),
    "scatter_": _build_scatter(2, 3, reads_target=False),
    "scatter_add_": _build_scatter(2, 3, reads_target=True),
    "index_add_": _build_scatter(2, 3, reads_target=True),
    "index_copy_": _build_scatter(2, 3, reads_target=False),
    "_index_put_impl_": _build_scatter(1, 2, reads_target=True),
    "embedding_dense_backward": _measure_embedding_backward,
    "sort": _measure_sort,
    "argsort": _measure_sort,
    "topk": _measure_topk,
    "max_pool2d_with_indices": _build_pooling(4, 5, indices=True),
    "max_pool3d_with_indices": _build_pooling(4, 5, indices=True),
    "max_pool2d_with_indices_backward": build_map((0, 7), (1,)),
    "avg_pool2d": _build_pooling(None, 4, indices=False),
    "avg_pool3d": _build_pooling(None, 4, indices=False),
    "avg_pool2d_backward": build_map((0,), (1,)),
    "_adaptive_avg_pool2d": _measure_resampling,
    "_adaptive_avg_pool2d_backward": build_map((0,), (1,)),
    **dict.fromkeys(
        (f"upsample_{kind}" for kind in ("nearest1d", "nearest2d", "nearest3d", "bilinear2d")),
        _measure_resampling,
    ),
    **dict.fromkeys(("_upsample_nearest_exact2d", "upsample_bicubic2d"), _measure_resampling),
    **dict.fromkeys(
        ("upsample_nearest2d_backward", "upsample_bilinear2d_backward"),
        _measure_resampling_backward,
    ),
    "_thnn_fused_lstm_cell": _measure_recurrent_cell,
}
