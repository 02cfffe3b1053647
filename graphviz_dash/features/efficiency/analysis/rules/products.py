"""Find matrix products that could be faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

from graphviz_dash.features.efficiency.analysis.limits import LimitTerm, UnitLimit
from graphviz_dash.features.efficiency.analysis.rules.search import (
    GAP_NS,
    REACH,
    AdviceGroup,
    Remedy,
    Search,
    check_overlap,
)
from graphviz_dash.model.ceilings import Pipe
from graphviz_dash.model.graph import Operand

GOOD_SHARE: Final = 0.85
"""Share of the measured rate from which a product needs no advice."""

_TILE: Final = 128
"""Rows and columns of the result that a block computes."""

_TF32_REACH: Final = (0.35, 0.6, 0.9)
"""Share of the TF32 rate: low, expected, high."""

_MERGED_RATIO: Final = (1.4, 1.15, 1.0)
"""Time of a merged product relative to its longest part, while it fits the GPU."""

_STRIDED_RATIO: Final = (1.8, 1.4, 0.9)
"""Additional time of an elementwise kernel that reads a part of a merged result, relative to an
empty kernel. A part has gaps between its rows, so the kernel loads single elements. On an H100,
silu and mul of 8 rows of 6,144 values lasted 1.1 and 1.2 µs longer that way, an empty kernel
0.8 µs."""

_CONTIGUOUS_KERNEL: Final = "vectorized_elementwise_kernel"

_MAX_CONSUMERS: Final = 16
"""Calls after a product among which its consumers are searched."""

_MAX_DISTANCE: Final = 8
"""Calls between two products with the same input."""

_MAX_WAVES: Final = 4
_MIN_IDLE_SHARE: Final = 0.2
"""A last wave matters if there are few waves and much of the last one is idle."""

_PRODUCTS: Final = {"mm": 0, "bmm": 0, "_scaled_mm": 0, "addmm": 1, "_addmm_activation": 1}
"""Position of the left matrix among the arguments."""

_CONVOLUTIONS: Final = ("convolution", "cudnn_convolution")


def find_slow_types(search: Search, free: set[int]) -> Iterator[AdviceGroup]:
    """Find float32 products without tensor cores.

    TF32 shortens the arithmetic only.
    """
    slow, fast = (search.rates.get_flop_rate(pipe) for pipe in (Pipe.FP32, Pipe.TF32))
    if slow is None or fast is None:
        return
    for index in sorted(free):
        limit = search.limits[index]
        name = search.get_operator(index)
        if limit.pipe is not Pipe.FP32 or not (name in _PRODUCTS or name.startswith(_CONVOLUTIONS)):
            continue
        if name.startswith(_CONVOLUTIONS):
            savings = _predict_convolution(search, limit, fast)
        else:
            fill = _estimate_filled_share(search, limit)
            arithmetic_ns = min(limit.arithmetic_ns / fill, limit.time_ns)
            savings = [arithmetic_ns * (1 - slow / (fast * reach)) for reach in _TF32_REACH]
        low, middle, high = (max(0.0, min(saving, _get_spare(limit))) for saving in savings)
        yield AdviceGroup(Remedy.DTYPE, (index,), (low, middle, high), Pipe.TF32)


def _predict_convolution(search: Search, limit: UnitLimit, rate: float) -> list[float]:
    """Predict the savings of TF32: low, expected and high.

    The slow kernel is replaced. It may be far from the rate of its data type. The fast one needs
    channels last, so other layouts are converted before and after it.
    """
    items = [search.items[position] for position in limit.unit.items]
    main_item = max(items, key=lambda item: item.duration_ns or 0.0)
    fill = min(1.0, (main_item.blocks or search.multiprocessors) / search.multiprocessors)
    work, call = limit.unit.work, limit.unit.call
    assert work is not None
    source = None if call is None else call.get_tensor(0)
    is_channels_last = source is not None and source.strides is not None and source.strides[1] == 1
    conversion_ns = 0.0
    if len(items) == 1 and not is_channels_last:
        # Each converted value is read and written.
        conversion_ns = search.rates.compute_memory_ns(
            work.total_bytes, work.total_bytes, l2_hit=False
        )
    main_ns = (main_item.duration_ns or 0.0) * limit.runs
    return [
        main_ns - max(work.flops / (rate * reach * fill) * 1e9, search.rates.launch_ns) - extra_ns
        for reach, extra_ns in zip(_TF32_REACH, (conversion_ns, conversion_ns, 0.0), strict=True)
    ]


def _get_spare(limit: UnitLimit) -> float:
    """Return the time beyond moving the bytes, in ns."""
    return limit.time_ns - limit.memory_ns


def _estimate_filled_share(search: Search, limit: UnitLimit) -> float:
    """Estimate the share of multiprocessors that the tiles keep busy."""
    tiles = _count_tiles(limit)
    if tiles is None:
        return 1.0
    return tiles / (ceil(tiles / search.multiprocessors) * search.multiprocessors)


def _count_tiles(limit: UnitLimit) -> int | None:
    call = limit.unit.call
    if call is None or call.name not in _PRODUCTS:
        return None
    first = _PRODUCTS[call.name]
    left, right = call.get_tensor(first), call.get_tensor(first + 1)
    if left is None or right is None or len(left.shape) < 2 or len(right.shape) < 2:
        return None
    batch = left.shape[0] if len(left.shape) == 3 else 1
    return max(1, batch * ceil(left.shape[-2] / _TILE) * ceil(right.shape[-1] / _TILE))


def find_siblings(search: Search, free: set[int]) -> Iterator[AdviceGroup]:
    """Find small products of one matrix with several others."""
    used: set[int] = set()
    for first in sorted(free):
        if first in used or not _is_small(search, first):
            continue
        siblings = [first]
        for index in range(first + 1, min(first + _MAX_DISTANCE, len(search.limits))):
            if (
                index in free
                and _is_small(search, index)
                and _have_same_input(search, first, index)
                and not _is_dependent(search, siblings, index)
            ):
                siblings.append(index)
        if len(siblings) > 1:
            used.update(siblings)
            yield _build_merge(search, tuple(siblings))


def _is_small(search: Search, index: int) -> bool:
    limit = search.limits[index]
    tiles = _count_tiles(limit)
    call = limit.unit.call
    if tiles is None or call is None or call.name == "bmm":
        return False
    return limit.share is not None and limit.share < GOOD_SHARE and tiles < search.multiprocessors


def _have_same_input(search: Search, first: int, second: int) -> bool:
    left_call, right_call = search.get_call(first), search.get_call(second)
    if left_call is None or right_call is None or left_call.name != right_call.name:
        return False
    position = _PRODUCTS[left_call.name]
    if left_call.get_tensor(position) != right_call.get_tensor(position):
        return False
    return bool(search.has_common_memory(first, second))


def _is_dependent(search: Search, siblings: Sequence[int], index: int) -> bool:
    """Return whether calls between pass results of the first sibling on to ``index``.

    Memory that both use is their input, or the input's memory is used again.
    """
    first = siblings[0]
    shared = _select_operands(search, first, [index], common=True)
    results = _select_operands(search, first, [index], common=False)
    for middle in range(first + 1, index):
        operands = search.list_operands(middle)
        if middle not in siblings and _overlap(operands, results):
            results += [operand for operand in operands if not _overlap([operand], shared)]
    return _overlap(search.list_operands(index), results)


def _select_operands(
    search: Search, index: int, others: Sequence[int], *, common: bool
) -> list[Operand]:
    """Return the operands that share memory with other calls, or those that do not."""
    memory = [operand for other in others for operand in search.list_operands(other)]
    return [
        operand for operand in search.list_operands(index) if _overlap([operand], memory) is common
    ]


def _overlap(first: Sequence[Operand], second: Sequence[Operand]) -> bool:
    return any(check_overlap(a, b) for a in first for b in second)


def _build_merge(search: Search, siblings: tuple[int, ...]) -> AdviceGroup:
    limits = [search.limits[index] for index in siblings]
    works = [limit.unit.work for limit in limits if limit.unit.work is not None]
    time_ns = sum(limit.time_ns for limit in limits) + (len(limits) - 1) * GAP_NS
    longest_ns = max(limit.time_ns for limit in limits)
    memory_ns = search.rates.compute_memory_ns(
        sum(work.read_bytes for work in works),
        sum(work.written_bytes for work in works),
        l2_hit=all(limit.term is not LimitTerm.MEMORY for limit in limits),
    )
    consumers_ns = _count_consumers(search, siblings) * search.rates.launch_ns
    low, middle, high = (
        max(0.0, time_ns - max(longest_ns * ratio, memory_ns / reach) - consumers_ns * factor)
        for ratio, reach, factor in zip(_MERGED_RATIO, REACH, _STRIDED_RATIO, strict=True)
    )
    return AdviceGroup(Remedy.MERGE, siblings, (low, middle, high))


def _count_consumers(search: Search, siblings: tuple[int, ...]) -> int:
    """Count elementwise kernels that would read a result with gaps between its rows."""
    call = search.get_call(siblings[0])
    left = None if call is None else call.get_tensor(_PRODUCTS[call.name])
    if left is None or left.shape[-2] == 1:
        return 0
    consumers: set[int] = set()
    for sibling in siblings:
        others = [index for index in siblings if index != sibling]
        result = _select_operands(search, sibling, others, common=False)
        for index in range(sibling + 1, min(sibling + _MAX_CONSUMERS, len(search.limits))):
            if index in siblings:
                continue
            limit = search.limits[index]
            if limit.unit.work is not None and limit.unit.work.flops:
                # After the next product, the memory may be used again.
                break
            if _CONTIGUOUS_KERNEL in limit.name and _overlap(result, search.list_operands(index)):
                consumers.add(index)
    return len(consumers)


def find_partial_waves(search: Search, free: set[int]) -> Iterator[AdviceGroup]:
    """Find products whose last wave leaves many multiprocessors idle."""
    for index in sorted(free):
        limit = search.limits[index]
        if limit.pipe is None or limit.term is not LimitTerm.ARITHMETIC:
            continue
        if limit.share is None or limit.share >= GOOD_SHARE:
            continue
        main_item = max(
            (search.items[position] for position in limit.unit.items),
            key=lambda item: item.duration_ns or 0.0,
        )
        waves = (main_item.blocks or 0) / search.multiprocessors
        idle_share = 1 - waves / ceil(waves) if waves else 0.0
        if 1 < waves < _MAX_WAVES and idle_share > _MIN_IDLE_SHARE:
            high_ns = min(limit.time_ns * idle_share, limit.above_ns)
            yield AdviceGroup(Remedy.WAVES, (index,), (0.0, high_ns / 2, high_ns))
