"""Recommendations for calls above their limit, with predicted savings.

Each call belongs to at most one recommendation, so savings can be added.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.features.efficiency.analysis.items import WorkItem
from graphviz_dash.features.efficiency.analysis.limits import UnitLimit
from graphviz_dash.features.efficiency.analysis.rates import Rates
from graphviz_dash.features.efficiency.analysis.rules.fusion import (
    find_chains,
    find_equal_calls,
    find_tiny_kernels,
    find_undone_casts,
)
from graphviz_dash.features.efficiency.analysis.rules.optimizer import find_unfused_optimizer
from graphviz_dash.features.efficiency.analysis.rules.products import (
    find_partial_waves,
    find_siblings,
    find_slow_types,
)
from graphviz_dash.features.efficiency.analysis.rules.search import (
    AdviceGroup,
    Calls,
    Remedy,
    Search,
)
from graphviz_dash.model.ceilings import Pipe

MIN_SAVING_NS: Final = 1_000.0

_RULES: Final[tuple[Callable[[Search, set[int]], Iterator[AdviceGroup]], ...]] = (
    find_unfused_optimizer,
    find_undone_casts,
    find_equal_calls,
    find_chains,
    find_slow_types,
    find_siblings,
    find_partial_waves,
    find_tiny_kernels,
)
"""The first rule that finds a call keeps it."""

_SUMMARY_REMEDIES: Final = (
    Remedy.KERNEL,
    Remedy.OPTIMIZER,
    Remedy.DTYPE,
    Remedy.LAUNCH,
    Remedy.WAVES,
)
"""Reported once, with all their operators."""


class Advice(Struct, frozen=True):
    """A recommendation for similar groups of calls, such as those of each layer."""

    remedy: Remedy
    operators: tuple[str, ...]
    """Operators of one group in order; of all groups if the kind is reported once."""
    groups: tuple[tuple[int, ...], ...]
    """Indices of the calls of each group."""
    time_ns: float
    """Time of all groups per replay or step, with the gaps between their kernels."""
    saving_ns: float
    """Predicted saving per replay or step, in ns."""
    low_ns: float
    high_ns: float
    kernels: int
    source: str | None
    """Most frequent line; None if unknown."""
    module: str | None
    """Most frequent module; None if unknown."""
    pipe: Pipe | None = None
    """Faster data type. None for other kinds."""

    def scale(self, replays: float, offset: int) -> Advice:
        """Return the recommendation for ``replays`` replays, its calls moved by ``offset``."""
        return replace(
            self,
            groups=tuple(tuple(offset + index for index in group) for group in self.groups),
            time_ns=self.time_ns * replays,
            saving_ns=self.saving_ns * replays,
            low_ns=self.low_ns * replays,
            high_ns=self.high_ns * replays,
        )


def merge_advice(advice: Iterable[Advice]) -> tuple[Advice, ...]:
    """Merge equal recommendations of several graphs, largest saving first.

    The source line and module are those of the largest saving.
    """
    by_kind: defaultdict[tuple[Remedy, tuple[str, ...]], list[Advice]] = defaultdict(list)
    for entry in advice:
        names = () if entry.remedy in _SUMMARY_REMEDIES else entry.operators
        by_kind[entry.remedy, names].append(entry)
    sums = (_add_advice(members) for members in by_kind.values())
    significant = (entry for entry in sums if entry.saving_ns >= MIN_SAVING_NS)
    return tuple(sorted(significant, key=lambda entry: -entry.saving_ns))


def _add_advice(members: Sequence[Advice]) -> Advice:
    return replace(
        max(members, key=lambda entry: entry.saving_ns),
        operators=tuple(dict.fromkeys(name for entry in members for name in entry.operators))
        if members[0].remedy in _SUMMARY_REMEDIES
        else members[0].operators,
        groups=tuple(group for entry in members for group in entry.groups),
        time_ns=sum(entry.time_ns for entry in members),
        saving_ns=sum(entry.saving_ns for entry in members),
        low_ns=sum(entry.low_ns for entry in members),
        high_ns=sum(entry.high_ns for entry in members),
        kernels=sum(entry.kernels for entry in members),
    )


def find_advice(
    items: Sequence[WorkItem],
    limits: Sequence[UnitLimit],
    rates: Rates | None,
    multiprocessors: int | None = None,
    eager_choices: Sequence[AdviceGroup] = (),
) -> tuple[Advice, ...]:
    """Find recommendations, largest saving first.

    Without ``rates`` these are only ``eager_choices``, whose savings are measured.
    """
    calls = Calls(items, limits)
    free = set(range(len(limits)))
    groups = list(eager_choices)
    free.difference_update(index for group in groups for index in group.limits)
    search = (
        None
        if rates is None
        else Search(
            items,
            limits,
            rates,
            multiprocessors or rates.ceilings.gpu.multiprocessors,
            any(item.origin is not None and item.origin.phase == "backward" for item in items),
        )
    )
    for rule in _RULES:
        if search is None:
            break
        for group in tuple(rule(search, free)):
            if free.issuperset(group.limits) and group.savings_ns[1] > 0:
                groups.append(group)
                free.difference_update(group.limits)
    advice = (entry for entry in _merge_groups(calls, groups) if entry.saving_ns >= MIN_SAVING_NS)
    return tuple(sorted(advice, key=lambda entry: -entry.saving_ns))


def _merge_groups(search: Calls, groups: Iterable[AdviceGroup]) -> Iterator[Advice]:
    by_kind: defaultdict[tuple[Remedy, tuple[str, ...]], list[AdviceGroup]] = defaultdict(list)
    for group in groups:
        names = tuple(map(search.get_operator, group.limits))
        if group.remedy in _SUMMARY_REMEDIES:
            names = ()
        elif group.remedy is Remedy.FOREACH:
            names = names[:1]
        by_kind[group.remedy, names].append(group)
    for (remedy, names), members in by_kind.items():
        indices = [index for group in members for index in group.limits]
        origins = [search.items[search.limits[index].unit.items[0]].origin for index in indices]
        low, middle, high = (sum(group.savings_ns[end] for group in members) for end in range(3))
        yield Advice(
            remedy,
            names or tuple(dict.fromkeys(map(search.get_operator, indices))),
            tuple(group.limits for group in members),
            sum(search.measure_time(group.limits) for group in members),
            middle,
            low,
            high,
            sum(map(search.count_kernels, indices)),
            _find_most_frequent(origin.source for origin in origins if origin is not None),
            _find_most_frequent(origin.module for origin in origins if origin is not None),
            members[0].pipe,
        )


def _find_most_frequent(names: Iterable[str | None]) -> str | None:
    counts = Counter(name for name in names if name is not None)
    return counts.most_common(1)[0][0] if counts else None
