"""Operators on lists of tensors: concatenation, foreach and fused optimizers.

The profiler records no data types inside lists. The names of the kernels contain them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from graphviz_dash.features.efficiency.analysis.operator_call import OperatorCall
from graphviz_dash.features.efficiency.analysis.work import Work

_OPAQUE: Final = re.compile(r"OpaqueType<(\d+)u?>")
_TYPES: Final = re.compile(
    r"(?<![\w:])(float|double|c10::BFloat16|c10::Half|long|int|bool|unsigned char|signed char)"
    r"(?=[,>])"
)
_SIZES: Final = {
    "float": 4, "double": 8, "c10::BFloat16": 2, "c10::Half": 2, "long": 8, "int": 4, "bool": 1,
    "unsigned char": 1, "signed char": 1,
}  # fmt: skip

_ADAM: Final = (4, 3)
"""Lists that Adam reads (parameters, gradients, both moments) and writes."""


def find_element_bytes(names: Iterable[str]) -> int | None:
    """Return the bytes per element for these kernel names; None if unknown.

    The first data type among the template arguments is that of the elements.
    """
    for name in names:
        if match := _OPAQUE.search(name):
            return int(match[1])
        functor = name.find("Functor<")
        if match := _TYPES.search(name, functor + len("Functor<") if functor >= 0 else 0):
            return _SIZES[match[1]]
    return None


def compute_list_work(call: OperatorCall, element_bytes: int | None) -> Work | None:
    """Compute the work of an operator on lists; None for others.

    The profiler omits the shapes of lists of more than 30 tensors.
    """
    lists = [sum(tensor.elements for tensor in tensors) for tensors in call.lists]
    if not lists or not call.lists[0] or element_bytes is None:
        return None
    traffic = _count_traffic(call.name, lists)
    if traffic is None:
        return None
    read, writes = traffic
    return Work(read * element_bytes, writes * element_bytes)


def count_list_passes(call: OperatorCall) -> tuple[int, int, int] | None:
    """Return the number of lists of an operator, read lists and written lists; None if unknown."""
    count = len(call.lists)
    if call.name.startswith("_fused_adam"):
        return (_ADAM[0], *_ADAM)
    if call.name.startswith("_fused_sgd"):
        return count, count, count - 1
    traffic = _count_traffic(call.name, [1] * count) if count else None
    return None if traffic is None else (count, *traffic)


def _count_traffic(name: str, lists: list[int]) -> tuple[int, int] | None:
    """Return the elements read and written, given those of each list."""
    first = lists[0]
    if name in ("cat", "stack"):
        return first, first
    if name.startswith("_fused_adam"):
        amsgrad = bool(len(lists) > 4 and lists[4] and lists[4] == first)
        reads, writes = (count + amsgrad for count in _ADAM)
        return reads * first, writes * first
    if name.startswith("_fused_sgd"):
        has_momentum = len(lists) > 2 and lists[2] == first
        return (2 + has_momentum) * first, (1 + has_momentum) * first
    if name.startswith("_foreach_norm"):
        return first, 0
    if name.startswith("_foreach_"):
        writes = first if name.endswith("_") else max(lists)
        offset = {"_foreach_zero_": len(lists), "_foreach_copy_": 1}.get(name, 0)
        return sum(lists[offset:]), writes
    return None
