"""Fused attention, forward and backward."""

from __future__ import annotations

from typing import Final

from graphviz_dash.features.efficiency.analysis.formulas.matrix import Formula, measure_tensor
from graphviz_dash.features.efficiency.analysis.operator_call import OperatorCall, Tensor
from graphviz_dash.features.efficiency.analysis.work import Bound, Work


def _read_sizes(
    query: Tensor, key: Tensor, value: Tensor, *, heads_first: bool
) -> tuple[int, int, int, int, int] | None:
    """Return batch times heads, queries, keys, width of keys and width of values."""
    if any(len(tensor.shape) != 4 for tensor in (query, key, value)):
        return None
    batch, first, second, width = query.shape
    heads, queries = (first, second) if heads_first else (second, first)
    keys = key.shape[2 if heads_first else 1]
    return batch * heads, queries, keys, width, value.shape[3]


def _count_scores(queries: int, keys: int, *, causal: bool) -> int:
    """Count pairs of query and key; causal ones end at the diagonal of the first square."""
    if not causal:
        return queries * keys
    square = min(queries, keys)
    return square * (square + 1) // 2 + max(0, queries - keys) * keys


def _build_formula(
    heads_first: bool, causal_index: int, *, backward: bool = False, mask_type: bool = False
) -> Formula:
    def compute(call: OperatorCall) -> Work | None:
        # The first tensor of a backward call is the gradient of the output.
        tensors = call.require_tensors(*range(4 if backward else 3))
        query, key, value = tensors[-3:]
        sizes = _read_sizes(query, key, value, heads_first=heads_first)
        if sizes is None:
            return None
        batch, queries, keys, width, value_width = sizes
        causal = bool(call.get_integer(causal_index) if mask_type else call.get_flag(causal_index))
        scores = batch * _count_scores(queries, keys, causal=causal)
        inputs = sum(measure_tensor(tensor) for tensor in (query, key, value))
        if backward:
            # The gradient of the output, and the output itself, have the same size.
            # Implementations also add the gradient of the queries in float32.
            return Work(
                inputs + 2 * measure_tensor(tensors[0]),
                inputs,
                Bound.LOWER,
                # Three products use the width of keys, two the width of values.
                flops=2 * scores * (3 * width + 2 * value_width),
                dtype=query.dtype,
            )
        bias = call.get_tensor(3)
        return Work(
            inputs + (measure_tensor(bias) if bias is not None else 0),
            batch * queries * value_width * (query.element_bytes or 0),
            flops=2 * scores * (width + value_width),
            dtype=query.dtype,
        )

    return compute


FORMULAS: Final[dict[str, Formula]] = {
    "_flash_attention_forward": _build_formula(False, 8),
    "_efficient_attention_forward": _build_formula(False, 9, mask_type=True),
    "_cudnn_attention_forward": _build_formula(True, 10),
    "_scaled_dot_product_flash_attention": _build_formula(True, 4),
    "_scaled_dot_product_cudnn_attention": _build_formula(True, 6),
    "_scaled_dot_product_efficient_attention": _build_formula(True, 6),
    "_flash_attention_backward": _build_formula(False, 11, backward=True),
    "_efficient_attention_backward": _build_formula(False, 14, mask_type=True, backward=True),
    "_cudnn_attention_backward": _build_formula(True, 14, backward=True),
    "_scaled_dot_product_flash_attention_backward": _build_formula(True, 11, backward=True),
    "_scaled_dot_product_cudnn_attention_backward": _build_formula(True, 14, backward=True),
    "_scaled_dot_product_efficient_attention_backward": _build_formula(True, 11, backward=True),
}
"""Formulas by operator."""
