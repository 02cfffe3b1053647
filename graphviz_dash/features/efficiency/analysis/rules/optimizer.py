"""Find optimizer steps of many kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from graphviz_dash.features.efficiency.analysis.formulas.lists import find_element_bytes
from graphviz_dash.features.efficiency.analysis.rules.search import (
    ALREADY_FUSED,
    AdviceGroup,
    Remedy,
    Savings,
    Search,
    subtract_limit,
)

_ADAM_TRAFFIC: Final = (4, 3)
_AMSGRAD_TRAFFIC: Final = (5, 4)
_MOMENTUM_TRAFFIC: Final = (3, 2)
_PLAIN_TRAFFIC: Final = (2, 1)
"""Tensors of parameter size that a fused optimizer reads and writes."""

_MIN_SHARE: Final = 0.1
"""Share of the longest operator below which an operator handles numbers."""

_SPREAD: Final = 0.2
"""Uncertainty of a saving that is estimated from times alone."""


def find_unfused_optimizer(search: Search, free: set[int]) -> Iterator[AdviceGroup]:
    """Find optimizer calls that a fused one replaces."""
    indices = [index for index in sorted(free) if search.get_phase(index) == "optimizer"]
    # A fused optimizer still counts its steps with another operator.
    if any(search.get_operator(index).startswith(ALREADY_FUSED) for index in indices):
        return
    if sum(map(search.count_kernels, indices)) < 2:
        return
    savings = _compute_savings(search, indices)
    if savings is not None:
        yield AdviceGroup(Remedy.OPTIMIZER, tuple(indices), savings)


def _compute_savings(search: Search, indices: Sequence[int]) -> Savings | None:
    names = "".join(map(search.get_operator, indices))
    if "addcdiv" in names:
        reads, writes = _AMSGRAD_TRAFFIC if "maximum" in names else _ADAM_TRAFFIC
        parameter_bytes = _measure_updates(search, indices, "addcdiv")
    elif parameter_bytes := _measure_updates(search, indices, "mul"):
        # The momentum has the size of the parameters; Nesterov's adds it to the gradient too.
        reads, writes = _MOMENTUM_TRAFFIC
    else:
        reads, writes = _PLAIN_TRAFFIC
        parameter_bytes = _measure_updates(search, indices, "add")
    time_ns = search.measure_time(indices)
    if parameter_bytes:
        limit_ns = search.rates.compute_memory_ns(
            reads * parameter_bytes, writes * parameter_bytes, l2_hit=False
        )
        return subtract_limit(time_ns, limit_ns, search.rates.launch_ns)
    passes = _count_passes(search, indices)
    if passes <= reads + writes:
        return None
    saving = time_ns * (1 - (reads + writes) / passes)
    return saving * (1 - _SPREAD), saving, min(time_ns, saving * (1 + _SPREAD))


def _measure_updates(search: Search, indices: Iterable[int], operation: str) -> int:
    """Return the bytes of the updated tensors; 0 if unknown."""
    total = 0
    for index in indices:
        call = search.get_call(index)
        if call is None or call.name not in (f"{operation}_", f"_foreach_{operation}_"):
            continue
        tensor = call.get_tensor(0)
        if tensor is not None:
            total += tensor.elements * (tensor.element_bytes or 0)
            continue
        names = [search.items[position].name for position in search.limits[index].unit.items]
        elements = sum(entry.elements for entry in call.get_list(0))
        total += elements * (find_element_bytes(names) or 0)
    return total


def _count_passes(search: Search, indices: Sequence[int]) -> int:
    """Count how often operators move data of parameter size."""
    longest_ns = max(search.limits[index].time_ns for index in indices)
    passes = 0
    for index in indices:
        call = search.get_call(index)
        if call is None or search.limits[index].time_ns < _MIN_SHARE * longest_ns:
            continue
        passes += len(call.lists) + 1
    return passes
