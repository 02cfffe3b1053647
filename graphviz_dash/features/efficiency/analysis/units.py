"""Group the kernels of a step by operator call, and compute the work of each group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from functools import lru_cache
from itertools import combinations
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.features.efficiency.analysis.formulas import attention, engines, layers, matrix
from graphviz_dash.features.efficiency.analysis.formulas.lists import (
    compute_list_work,
    count_list_passes,
    find_element_bytes,
)
from graphviz_dash.features.efficiency.analysis.formulas.matrix import Formula, measure_tensor
from graphviz_dash.features.efficiency.analysis.formulas.pointwise import FORMULAS as POINTWISE
from graphviz_dash.features.efficiency.analysis.formulas.pointwise import compute_pointwise
from graphviz_dash.features.efficiency.analysis.items import WorkItem
from graphviz_dash.features.efficiency.analysis.operator_call import (
    OperatorCall,
    Tensor,
    UnknownArgumentError,
    parse_call,
)
from graphviz_dash.features.efficiency.analysis.work import Bound, Work, WorkPart, add_work
from graphviz_dash.model.graph import MemcpyParams, NodeKind

_FORMULAS: Final[dict[str, Formula]] = {
    **matrix.FORMULAS,
    **attention.FORMULAS,
    **POINTWISE,
    **layers.FORMULAS,
    **engines.FORMULAS,
}
_POINTWISE_KERNEL: Final = re.compile(
    r"elementwise_kernel|distribution_elementwise|fused_dropout|tensor_kernel_scan"
)
_TRITON_PREFIX: Final = "triton_"
_SINGLE_PASS: Final = ("triton_poi_", "triton_per_")
"""Kernels that load each value once: pointwise and persistent reductions."""
_TEMPLATE: Final = re.compile(r"triton_tem_fused_.*mm(_|$)")
"""Matrix products of Inductor. Their names contain the fused FX nodes."""
_PARTIAL_READ: Final = re.compile(
    r"embedding|index|gather|scatter|slice|select|^(?!.*backward).*nll_loss_forward"
)
"""Fused operators that read only part of an input."""


class WorkMethod(StrEnum):
    """Source of a unit's work."""

    OPERATOR = "operator"
    ARGUMENTS = "kernel arguments"
    COPY = "copy"


class WorkUnit(Struct, frozen=True):
    """Kernels that do the work of one operator call, or a single kernel."""

    items: tuple[int, ...]
    """Positions of the items."""
    call: OperatorCall | None
    """The operator call. None if unknown."""
    work: Work | None
    """Work of all items together; None if unknown."""
    method: WorkMethod | None
    """Source of the work; None if unknown."""
    missing: str | None = None
    """Reason for unknown work."""


def group_items(items: Sequence[WorkItem]) -> tuple[WorkUnit, ...]:
    """Group items by operator call if a formula covers it, in order of first items."""
    by_call: dict[tuple[int, str], list[int]] = {}
    units: list[WorkUnit] = []
    for position, item in enumerate(items):
        origin = item.origin
        if (
            origin is None
            or origin.call is None
            or origin.call_operator is None
            or item.category is Category.COMMUNICATION
        ):
            units.append(_measure_alone(position, item))
        else:
            by_call.setdefault((origin.call, origin.call_operator), []).append(position)
    for (_, operator), positions in by_call.items():
        origin = items[positions[0]].origin
        assert origin is not None
        call = parse_call(
            operator,
            origin.input_dims,
            origin.input_types,
            origin.input_strides,
            origin.input_values,
        )
        units += _measure_call(call, positions, items)
    return tuple(sorted(units, key=lambda unit: unit.items[0]))


def _measure_call(
    call: OperatorCall | None, positions: list[int], items: Sequence[WorkItem]
) -> list[WorkUnit]:
    names = tuple(items[position].name for position in positions)
    work = None if call is None else compute_call_work(call, names)
    if work is None and call is not None and call.lists:
        work = _measure_long_lists(call, positions, items)
    if work is None:
        return [_measure_alone(position, items[position], call) for position in positions]
    if isinstance(work, Work):
        return [WorkUnit(tuple(positions), call, work, WorkMethod.OPERATOR)]
    return _split_parts(work, positions, items, call)


def _measure_long_lists(
    call: OperatorCall, positions: Sequence[int], items: Sequence[WorkItem]
) -> Work | None:
    """Measure long lists by arguments, because the profiler omits their shapes."""
    operands = [operand for position in positions for operand in items[position].operands or ()]
    traffic = count_list_passes(call)
    if not operands or traffic is None:
        return None
    lists, read, writes = traffic
    size = sum(operand.bytes for operand in dict.fromkeys(operands))
    return Work(size * read // lists, size * writes // lists, Bound.UPPER)


def _split_parts(
    parts: tuple[WorkPart, ...],
    positions: list[int],
    items: Sequence[WorkItem],
    call: OperatorCall | None,
) -> list[WorkUnit]:
    """Assign kernels to parts by name; all share the work unless each part has some."""
    groups: list[list[int]] = [[] for _ in parts]
    others: list[int] = []
    for position in positions:
        part_index = _find_part(tuple(part.pattern for part in parts), items[position].name)
        (others if part_index is None else groups[part_index]).append(position)
    if not all(groups):
        total = add_work(part.work for part in parts)
        return [WorkUnit(tuple(positions), call, total, WorkMethod.OPERATOR)]
    # Conversions of layouts belong to the part that starts next.
    for position in others:
        followers = [group for group in groups if group[0] > position] or [groups[-1]]
        followers[0].append(position)
    return [
        WorkUnit(tuple(sorted(group)), call, part.work, WorkMethod.OPERATOR)
        for group, part in zip(groups, parts, strict=True)
    ]


@lru_cache(maxsize=4096)
def _find_part(patterns: tuple[str, ...], name: str) -> int | None:
    return next(
        (
            index
            for index, pattern in enumerate(patterns)
            if re.search(pattern, name, re.IGNORECASE)
        ),
        None,
    )


@lru_cache(maxsize=16384)
def compute_call_work(
    call: OperatorCall, names: tuple[str, ...]
) -> Work | tuple[WorkPart, ...] | None:
    """Compute the work of a call from inputs and kernel names; None if unknown."""
    if call.lists:
        return compute_list_work(call, find_element_bytes(names))
    if formula := _FORMULAS.get(call.name):
        with suppress(UnknownArgumentError):
            return formula(call)
        return None
    if call.name.startswith(_TRITON_PREFIX):
        return _measure_compiled(call)
    if all(_POINTWISE_KERNEL.search(name) for name in names):
        return compute_pointwise(call)
    return None


def _measure_compiled(call: OperatorCall) -> Work | None:
    """Measure a kernel of Inductor: its arguments include its results.

    The names of its parameters show their direction. Without them, this is a lower bound, because
    results that replace an input move twice. An upper bound if the kernel reads only parts of an
    input; a lower one if it loops over its inputs and may read them again.
    """
    total = sum(map(measure_tensor, call.tensors))
    if not total:
        return None
    flops, dtype = _find_product(call.tensors) if _TEMPLATE.match(call.name) else (0, None)
    bound = Bound.UPPER if _PARTIAL_READ.search(call.name) else Bound.LOWER
    directions = [_find_directions(tensor) for tensor in call.tensors]
    if not all(map(any, directions)):
        # The last tensor is a result.
        writes = measure_tensor(call.tensors[-1])
        return Work(total - writes, writes, bound, flops, dtype)
    reads, writes = (
        sum(
            measure_tensor(tensor)
            for tensor, sides in zip(call.tensors, directions, strict=True)
            if sides[side]
        )
        for side in range(2)
    )
    if bound is Bound.LOWER and call.name.startswith(_SINGLE_PASS):
        bound = Bound.EXACT
    return Work(reads, writes, bound, flops, dtype)


def _find_directions(tensor: Tensor) -> tuple[bool, bool]:
    """Return whether a kernel reads and writes an argument; neither if unknown."""
    name = tensor.parameter or ""
    return (
        name.startswith(("in_ptr", "in_out_ptr")),
        name.startswith(("out_ptr", "in_out_ptr")),
    )


def _find_product(tensors: Sequence[Tensor]) -> tuple[int, str | None]:
    """Return operations and data type of the product whose result is the last tensor.

    The operands are two of the others, in order. 0 and None if no two fit.
    """
    *inputs, result = tensors
    for left, right in combinations(inputs, 2):
        if min(len(left.shape), len(right.shape)) < 2 or left.dtype != right.dtype:
            continue
        inner, columns = right.shape[-2:]
        if left.shape[-1] == inner and result.elements * inner == left.elements * columns:
            return 2 * result.elements * inner, left.dtype
    return 0, None


def _measure_alone(position: int, item: WorkItem, call: OperatorCall | None = None) -> WorkUnit:
    """Use copied bytes or arguments."""
    if item.category is Category.COMMUNICATION:
        reason = "communication is limited by other ranks and links"
        return WorkUnit((position,), call, None, None, reason)
    if item.copied_bytes is not None:
        direction = item.params.direction if isinstance(item.params, MemcpyParams) else ""
        if item.kind is NodeKind.MEMSET:
            work = Work(0, item.copied_bytes)
        elif direction in ("DtoD", "") and "HtoD" not in item.name and "DtoH" not in item.name:
            work = Work(item.copied_bytes, item.copied_bytes)
        else:
            reason = "copies between host and device are limited by the bus"
            return WorkUnit((position,), call, None, None, reason)
        return WorkUnit((position,), call, work, WorkMethod.COPY)
    if item.operands:
        size = sum(operand.bytes for operand in item.operands)
        work = Work(size, 0, Bound.UPPER)
        return WorkUnit((position,), call, work, WorkMethod.ARGUMENTS)
    reason = (
        f"no formula for {call.name}"
        if call is not None
        else "neither an operator with shapes nor the memory of its arguments is recorded"
    )
    return WorkUnit((position,), call, None, None, reason)
