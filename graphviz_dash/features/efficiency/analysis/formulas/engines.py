"""Operators of inference engines (vLLM) that write into tensors they receive."""

from __future__ import annotations

from typing import Final

from graphviz_dash.features.efficiency.analysis.formulas.layers import build_map
from graphviz_dash.features.efficiency.analysis.formulas.matrix import Formula, measure_tensor
from graphviz_dash.features.efficiency.analysis.operator_call import OperatorCall
from graphviz_dash.features.efficiency.analysis.work import Bound, Work


def _measure_rotation(call: OperatorCall) -> Work | None:
    """``rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox)``."""
    positions, query, table = call.require_tensors(0, 1, 4)
    if not table.shape:
        return None
    key = call.get_tensor(2)
    moved_bytes = measure_tensor(query) + (measure_tensor(key) if key is not None else 0)
    row_bytes = table.shape[-1] * (table.element_bytes or 0)
    rows = min(positions.elements * row_bytes, measure_tensor(table))
    return Work(measure_tensor(positions) + moved_bytes + rows, moved_bytes)


def _measure_paged_attention(call: OperatorCall) -> Work | None:
    """``fwd(q, k_cache, v_cache, ..., seqused_k, max_seqlen_q, max_seqlen_k, page_table, ...)``.

    The lengths of the sequences are on the GPU, so all have the longest one.
    """
    query, key, value, lengths = call.require_tensors(0, 1, 2, 11)
    queries, keys = call.get_integer(12), call.get_integer(13)
    if not queries or not keys:
        return None
    if len(query.shape) != 3 or len(key.shape) != 4 or len(value.shape) != 4:
        return None
    tokens, heads, width = query.shape
    slots = max(1, key.shape[0] * key.shape[1])
    rows = min(lengths.elements * keys, slots)
    cache_bytes = (measure_tensor(key) + measure_tensor(value)) * rows // slots
    result_bytes = tokens * heads * value.shape[3] * (query.element_bytes or 0)
    # The last query of a sequence sees all its keys.
    scores = tokens * (2 * keys - queries + 1) // 2
    return Work(
        measure_tensor(query) + cache_bytes,
        result_bytes,
        Bound.UPPER,
        flops=2 * heads * scores * (width + value.shape[3]),
        dtype=query.dtype,
    )


FORMULAS: Final[dict[str, Formula]] = {
    "_vllm_fa3_C::fwd": _measure_paged_attention,
    "_C::rms_norm": build_map((1, 2), (0,)),
    "_C::fused_add_rms_norm": build_map((0, 1, 2), (0, 1)),
    "_C::rotary_embedding": _measure_rotation,
    # ``reshape_and_cache_flash(key, value, key_cache, value_cache, slot_mapping, ...)``
    "_C_cache_ops::reshape_and_cache_flash": build_map((0, 1, 4), (0, 1)),
    **dict.fromkeys(
        (f"_C::{kind}_and_mul" for kind in ("silu", "gelu", "gelu_tanh", "fatrelu")),
        build_map((1,), (0,)),
    ),
}
"""Formulas by operator."""
