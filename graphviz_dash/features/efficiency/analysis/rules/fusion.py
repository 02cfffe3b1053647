"""Find memory-bound kernels that one kernel can replace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Final

from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.features.efficiency.analysis.limits import LimitTerm
from graphviz_dash.features.efficiency.analysis.operator_call import Tensor
from graphviz_dash.features.efficiency.analysis.rules.search import (
    ALREADY_FUSED,
    GAP_NS,
    AdviceGroup,
    Remedy,
    Search,
    subtract_limit,
)

_MIN_TENSORS: Final = 4
"""Equal operators on several tensors that are worth a foreach operator."""

_MIN_TINY: Final = 4
"""Tiny kernels that are worth a recommendation."""

_MAX_TINY_RATIO: Final = 2.5
"""Ratio of a tiny kernel's time to that of an empty kernel."""

_CATEGORIES: Final = (Category.ELEMENTWISE, Category.REDUCTION)
_NOT_FUSIBLE: Final = re.compile(
    r"embedding|scatter|gather|index|sort|topk|cumsum|nll_loss|pool|norm_backward|_foreach_"
)
_WIDER: Final = {"c10::BFloat16": ("float", "double"), "c10::Half": ("float", "double")}


def find_undone_casts(search: Search, free: set[int]) -> Iterator[AdviceGroup]:
    """Find a widening cast whose result is only narrowed again."""
    for first, second in pairwise(sorted(free)):
        sides = [_get_copy(search, index) for index in (first, second)]
        if second != first + 1 or sides[0] is None or sides[1] is None:
            continue
        (wide, source), (result, wide_source) = sides[0], sides[1]
        if (
            wide.dtype in _WIDER.get(source.dtype or "", ())
            and wide_source.dtype == wide.dtype
            and result.dtype == source.dtype
            and wide.elements == wide_source.elements
            and search.has_common_memory(first, second) is not False
        ):
            times = [search.limits[index].time_ns + GAP_NS for index in (first, second)]
            yield AdviceGroup(Remedy.CASTS, (first, second), (times[1], sum(times), sum(times)))


def _get_copy(search: Search, index: int) -> tuple[Tensor, Tensor] | None:
    """Return target and source; None for other calls."""
    call = search.get_call(index)
    if call is None or call.name != "copy_":
        return None
    target, source = call.get_tensor(0), call.get_tensor(1)
    return None if target is None or source is None else (target, source)


def find_equal_calls(search: Search, free: set[int]) -> Iterator[AdviceGroup]:
    """Find consecutive equal operators on different tensors."""
    for name, run in groupby(range(len(search.limits)), key=search.get_operator):
        indices = tuple(run)
        if len(indices) < _MIN_TENSORS or not free.issuperset(indices):
            continue
        if name.startswith((*ALREADY_FUSED, "_foreach_")) or not all(
            _is_fusible(search, index) for index in indices
        ):
            continue
        if any(search.has_common_memory(*pair) for pair in pairwise(indices)):
            continue
        works = [work for index in indices if (work := search.limits[index].unit.work) is not None]
        limit_ns = search.rates.compute_memory_ns(
            sum(work.read_bytes for work in works),
            sum(work.written_bytes for work in works),
            l2_hit=all(search.limits[index].term is not LimitTerm.MEMORY for index in indices),
        )
        savings = subtract_limit(search.measure_time(indices), limit_ns, search.rates.launch_ns)
        yield AdviceGroup(Remedy.FOREACH, indices, savings)


def find_chains(search: Search, free: set[int]) -> Iterator[AdviceGroup]:
    """Find consecutive memory-bound calls, each of which uses the previous one's result."""
    chain: list[int] = []
    for index in range(len(search.limits) + 1):
        fits = index in free and _is_fusible(search, index)
        if fits and chain and _has_input_from(search, chain[-1], index):
            chain.append(index)
            continue
        if len(chain) > 1:
            yield _build_chain(search, tuple(chain))
        chain = [index] if fits else []


def _is_fusible(search: Search, index: int) -> bool:
    limit = search.limits[index]
    name = search.get_operator(index)
    return (
        limit.unit.work is not None
        and limit.unit.call is not None
        and not limit.unit.work.flops
        and limit.category in _CATEGORIES
        and limit.runs == 1
        and not name.startswith(ALREADY_FUSED)
        and not _NOT_FUSIBLE.search(name)
    )


def _has_input_from(search: Search, first: int, second: int) -> bool:
    if search.is_same_call(first, second):
        return False
    shared = search.has_common_memory(first, second)
    if shared is not None:
        return shared
    call = search.get_call(second)
    writes = search.limits[first].unit.work
    if call is None or writes is None:
        return False
    if call.name.endswith("_") and search.get_operator(first) == call.name:
        # Equal operators in place, such as those for each parameter, work on different tensors.
        return False
    return any(
        tensor.elements * (tensor.element_bytes or 0) == writes.written_bytes
        for tensor in call.tensors
        if tensor.elements > 1
    )


def _build_chain(search: Search, chain: tuple[int, ...]) -> AdviceGroup:
    """Predict the saving of one kernel for a chain.

    Intermediate results are neither read nor written, except some that a backward may need.
    """
    works = [work for index in chain if (work := search.limits[index].unit.work) is not None]
    intermediate_bytes = sum(
        min(first.written_bytes, second.read_bytes) for first, second in pairwise(works)
    )
    read = max(0, sum(work.read_bytes for work in works) - intermediate_bytes)
    writes = sum(work.written_bytes for work in works)
    l2_hit = all(search.limits[index].term is not LimitTerm.MEMORY for index in chain)
    compute = search.rates.compute_memory_ns
    kept_ns = compute(read, writes, l2_hit=l2_hit)
    least_ns = compute(read, max(0, writes - intermediate_bytes), l2_hit=l2_hit)
    if not (search.get_phase(chain[0]) == "forward" and search.has_backward):
        kept_ns = least_ns
    savings = subtract_limit(search.measure_time(chain), kept_ns, search.rates.launch_ns, least_ns)
    return AdviceGroup(Remedy.FUSE, chain, savings)


def find_tiny_kernels(search: Search, free: set[int]) -> Iterator[AdviceGroup]:
    """Find kernels at the launch limit outside chains; only fewer kernels help."""
    launch_ns = search.rates.launch_ns
    tiny = tuple(
        index
        for index in sorted(free)
        if search.limits[index].term is LimitTerm.LAUNCH
        and search.limits[index].runs == 1
        and search.limits[index].time_ns <= _MAX_TINY_RATIO * launch_ns
        and search.limits[index].category in (*_CATEGORIES, Category.MEMORY)
    )
    if len(tiny) < _MIN_TINY:
        return
    total_ns = len(tiny) * (launch_ns + GAP_NS)
    yield AdviceGroup(Remedy.LAUNCH, tiny, (0.0, total_ns / 2, total_ns))
