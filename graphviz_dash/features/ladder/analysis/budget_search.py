"""The cheapest path over ascending sizes within limits on what adds up along it.

A shortest path with several resources. Prices on the resources (a Lagrangian relaxation) give what
no path goes below; labels, one for each way to reach a size that no other beats in time and in all
resources, are kept as long as that bound is below the best path starts, so that what is left in the
end is the best. Source: G. Handler and I. Zang, "A dual algorithm for the constrained shortest path
problem" (1980); I. Dumitrescu and N. Boland, "Improved preprocessing, labeling and scaling
algorithms for the weight-constrained shortest path problem" (2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints

_ROUNDS: Final = 60
"""Steps towards the best prices."""
_MOST_LABELS: Final = 20_000
"""Where this many labels are not enough the best path so far is given, with the bound."""
_SLACK: Final = 1e-9
"""Of a time or of a limit: what sums of the same numbers in another order may differ by."""


class SizePath(Struct, frozen=True):
    """Times along a path over ascending sizes."""

    replay_ns: Floats
    """What a step takes that replays each size, in ns, shape (sizes,)."""
    covered: Floats
    """How many requests are of each size or smaller, shape (sizes,)."""
    beyond_ns: Floats
    """What all requests above each size take, in ns, before them all requests; shape
    (1 + sizes,)."""

    def total_ns(self, places: Ints) -> float:
        """What all requests take on the path over ``places``."""
        if not len(places):
            return float(self.beyond_ns[0])
        steps = np.diff(self.covered[places], prepend=0.0)
        return float((self.replay_ns[places] * steps).sum() + self.beyond_ns[places[-1] + 1])


class Limits(Struct, frozen=True):
    """Resources in shares of what there is of each: a path within the limits adds up to at most
    one of each."""

    each: Floats
    """What each size takes, shape (sizes, resources)."""
    last: Floats
    """What the last size of a path takes besides, not falling, shape (sizes, resources)."""

    def only(self, resources: Sequence[int]) -> Limits:
        """Some of the resources."""
        return Limits(self.each[:, resources], self.last[:, resources])

    def used(self, places: Ints) -> Floats:
        """What the path over ``places`` takes, shape (resources,)."""
        if not len(places):
            return np.zeros(self.each.shape[1])
        used: Floats = self.each[places].sum(axis=0) + self.last[places[-1]]
        return used

    def hold(self, places: Ints) -> bool:
        """Whether the path over ``places`` is within all limits."""
        return bool((self.used(places) <= 1 + _SLACK).all())


class Path(Struct, frozen=True):
    """A path within the limits."""

    places: Ints
    """Of the sizes along it, ascending."""
    total_ns: float
    """What all requests take."""
    bound_ns: float
    """What no path within the limits goes below."""


class _Priced(Struct, frozen=True):
    """The bound at some prices."""

    prices: Floats
    """Of each resource, in ns, shape (resources,)."""
    onward_ns: Floats
    """The least priced time from each size on, itself not counted, shape (sizes,)."""
    bound_ns: float
    """What no path within the limits goes below."""
    places: Ints
    """The path that is cheapest at these prices."""


def cheapest_within(path: SizePath, limits: Limits, starts: Sequence[Ints]) -> Path | None:
    """The path that takes least within ``limits``, none of which needs to bind; None where there is
    none that takes a finite time. ``starts`` are paths to begin with.

    A limit that the search without it keeps is left out of it: each makes it much longer.
    """
    active: list[int] = []
    while True:
        result = _within(path, limits.only(active), starts)
        if result is None:
            return None
        used = limits.used(result.places)
        broken = [row for row in range(len(used)) if used[row] > 1 + _SLACK]
        if not broken:
            return result
        active.append(max(broken, key=lambda row: float(used[row])))


def _within(path: SizePath, limits: Limits, starts: Sequence[Ints]) -> Path | None:
    best, tried = _best_prices(path, limits, starts)
    incumbent = _least(path, limits, [np.zeros(0, dtype=np.int64), *starts, *tried])
    if incumbent and best.bound_ns >= incumbent.total_ns * (1 - _SLACK):
        return incumbent
    return _Search(path, limits, best, incumbent).result()


def _least(path: SizePath, limits: Limits, paths: Sequence[Ints]) -> Path | None:
    totals = [(path.total_ns(places), places) for places in paths if limits.hold(places)]
    total, places = min(totals, key=lambda pair: (pair[0], len(pair[1])), default=(np.inf, None))
    return Path(places, total, total) if places is not None and np.isfinite(total) else None


def _best_prices(
    path: SizePath, limits: Limits, starts: Sequence[Ints]
) -> tuple[_Priced, list[Ints]]:
    """The highest bound that is met on the way up its slope, and the paths on that way."""
    incumbent = _least(path, limits, starts)
    upper = incumbent.total_ns if incumbent else np.inf
    best = priced = _priced(path, limits, np.zeros(limits.each.shape[1]))
    tried, scale = [priced.places], 1.0
    for _ in range(_ROUNDS):
        slope = limits.used(priced.places) - 1
        if (slope <= _SLACK).all():
            upper = min(upper, path.total_ns(priced.places))
        square = float(slope @ slope)
        if not square or best.bound_ns >= upper * (1 - _SLACK):
            break
        aim = upper if np.isfinite(upper) else 2 * abs(best.bound_ns) + 1
        step = scale * max(aim - priced.bound_ns, 0.0) / square
        priced = _priced(path, limits, np.maximum(priced.prices + step * slope, 0))
        tried.append(priced.places)
        if priced.bound_ns > best.bound_ns:
            best = priced
        else:
            scale *= 0.8
    return best, tried


def _priced(path: SizePath, limits: Limits, prices: Floats) -> _Priced:
    """The cheapest path where resources have ``prices``, from the last size to the first."""
    count = len(path.replay_ns)
    own, replay = limits.each @ prices, path.replay_ns
    onward = path.beyond_ns[1:] + limits.last @ prices
    following = np.full(count, -1)
    # What it takes from a size on, itself counted for all requests up to it.
    entered = own + onward + replay * path.covered
    for index in range(count - 2, -1, -1):
        ways = entered[index + 1 :] - replay[index + 1 :] * path.covered[index]
        least = int(ways.argmin())
        if ways[least] < onward[index]:
            onward[index] = ways[least]
            following[index] = index + 1 + least
            entered[index] = own[index] + ways[least] + replay[index] * path.covered[index]
    first = int(entered.argmin()) if count else -1
    paid = float(prices.sum())
    if first < 0 or path.beyond_ns[0] <= entered[first]:
        return _Priced(prices, onward, float(path.beyond_ns[0]) - paid, np.zeros(0, dtype=np.int64))
    places = [first]
    while following[places[-1]] >= 0:
        places.append(int(following[places[-1]]))
    return _Priced(prices, onward, float(entered[first]) - paid, np.array(places, dtype=np.int64))


class _Search:
    """Labels, one for each way to reach a size; the first is the start, before all sizes."""

    def __init__(
        self, path: SizePath, limits: Limits, best: _Priced, incumbent: Path | None
    ) -> None:
        self._path, self._limits, self._best = path, limits, best
        self._incumbent = incumbent
        self._upper = incumbent.total_ns if incumbent else np.inf
        self._place, self._parent = [-1], [-1]
        self._times, self._reached = np.zeros(1), np.zeros(1)
        self._used = np.zeros((1, limits.each.shape[1]))

    def result(self) -> Path | None:
        """The best path; one with its bound where the labels grow too many to go on."""
        for index in range(len(self._path.replay_ns)):
            self._reach(index)
            if len(self._times) > _MOST_LABELS and self._incumbent is not None:
                places, total = self._incumbent.places, self._incumbent.total_ns
                return Path(places, total, min(total, self._best.bound_ns))
        return self._incumbent

    def _reach(self, index: int) -> None:
        """Adds the ways to reach the size at ``place`` from all that were reached."""
        path, best = self._path, self._best
        times = self._times + path.replay_ns[index] * (path.covered[index] - self._reached)
        used = self._used + self._limits.each[index]
        bound = times + used @ best.prices + best.onward_ns[index] - best.prices.sum()
        within = (used + self._limits.last[index] <= 1 + _SLACK).all(axis=1)
        keep = np.flatnonzero(within & (bound < self._upper * (1 - _SLACK)))
        keep = keep[_undominated(times[keep], used[keep])]
        if not len(keep):
            return
        first = len(self._place)
        self._place.extend([index] * len(keep))
        self._parent.extend(keep.tolist())
        self._times = np.concatenate((self._times, times[keep]))
        self._used = np.concatenate((self._used, used[keep]))
        self._reached = np.append(self._reached, np.full(len(keep), path.covered[index]))
        totals = times[keep] + path.beyond_ns[index + 1]
        least = int(totals.argmin())
        if totals[least] < self._upper:
            self._upper = float(totals[least])
            self._incumbent = Path(self._traced(first + least), self._upper, self._upper)

    def _traced(self, label: int) -> Ints:
        places: list[int] = []
        while label > 0:
            places.append(self._place[label])
            label = self._parent[label]
        return np.array(places[::-1], dtype=np.int64)


def _undominated(times: Floats, used: Floats) -> Ints:
    """Which labels no other is as good as in time and in all resources; of equal ones the first."""
    if used.shape[1] == 1:
        order = np.lexsort((used[:, 0], times))
        ordered = used[order, 0]
        before = np.minimum.accumulate(ordered)
        return np.sort(order[np.append(True, ordered[1:] < before[:-1])[: len(order)]])
    order = np.lexsort((*used.T[::-1], times))
    kept: list[int] = []
    kept_used = np.empty_like(used)
    for label in order.tolist():
        if not (kept_used[: len(kept)] <= used[label]).all(axis=1).any():
            kept_used[len(kept)] = used[label]
            kept.append(label)
    return np.array(sorted(kept), dtype=np.int64)
