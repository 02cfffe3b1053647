"""Cheapest path over ascending sizes within resource limits, solved exactly.

Lagrangian prices give a lower bound; a label search closes the gap. Source: G. Handler and I. Zang,
"A dual algorithm for the constrained shortest path problem" (1980); I. Dumitrescu and N. Boland,
"Improved preprocessing, labeling and scaling algorithms for the weight-constrained shortest path
problem" (2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints

_ROUNDS: Final = 60
_MAX_LABELS: Final = 20_000
"""Labels at which the search stops and returns the best path with its bound."""
_SLACK: Final = 1e-9
"""Relative tolerance for sums of the same numbers in another order."""


class SizePath(Struct, frozen=True):
    """Times along a path over ascending sizes."""

    replay_ns: Floats
    """Time of a step that replays each size, shape (sizes,)."""
    cumulative_requests: Floats
    """Number of requests up to each size, shape (sizes,)."""
    remaining_ns: Floats
    """Time of the requests above each size, shape (1 + sizes,); the first entry covers all."""

    def compute_total_ns(self, positions: Ints) -> float:
        """Compute the time of all requests on the path over ``positions``."""
        if not len(positions):
            return float(self.remaining_ns[0])
        steps = np.diff(self.cumulative_requests[positions], prepend=0.0)
        return float(
            (self.replay_ns[positions] * steps).sum() + self.remaining_ns[positions[-1] + 1]
        )


class Limits(Struct, frozen=True):
    """Resource usage as shares of the limits; a path may use at most 1 of each resource."""

    size_usage: Floats
    """Usage of each size, shape (sizes, resources)."""
    last_usage: Floats
    """Additional usage if a size is the last, non-decreasing, shape (sizes, resources)."""

    def select(self, resources: Sequence[int]) -> Limits:
        """Select resources by index."""
        return Limits(self.size_usage[:, resources], self.last_usage[:, resources])

    def compute_usage(self, positions: Ints) -> Floats:
        """Compute the usage of the path over ``positions``, shape (resources,)."""
        if not len(positions):
            return np.zeros(self.size_usage.shape[1])
        used: Floats = self.size_usage[positions].sum(axis=0) + self.last_usage[positions[-1]]
        return used

    def is_satisfied_by(self, positions: Ints) -> bool:
        """Check whether a path is within all limits."""
        return bool((self.compute_usage(positions) <= 1 + _SLACK).all())


class BoundedPath(Struct, frozen=True):
    """A path within the limits."""

    places: Ints
    """Ascending indices of the sizes on the path."""
    total_ns: float
    """Total time of all requests, in ns."""
    bound_ns: float
    """Lower bound for all paths within the limits."""


def find_priced_path(path: SizePath, limits: Limits, prices: Floats) -> Ints:
    """Find the path with the least time plus the price of its resources, shape (path sizes,).

    ``prices`` is in ns, shape (resources,).
    """
    return _find_priced_path(path, limits, prices).places


class _PricedPath(Struct, frozen=True):
    prices: Floats
    """Price of each resource in ns, shape (resources,)."""
    onward_ns: Floats
    """Least priced time after each size, excluding the size, shape (sizes,)."""
    bound_ns: float
    places: Ints


def find_cheapest_path(
    path: SizePath, limits: Limits, starts: Sequence[Ints]
) -> BoundedPath | None:
    """Find the fastest path within ``limits``, from ``starts``; None if no path has a finite time.

    Only violated limits are enforced, because each slows the search.
    """
    active: list[int] = []
    while True:
        result = _search_within(path, limits.select(active), starts)
        if result is None:
            return None
        used = limits.compute_usage(result.places)
        exceeded = [row for row in range(len(used)) if used[row] > 1 + _SLACK]
        if not exceeded:
            return result
        active.append(max(exceeded, key=lambda row: float(used[row])))


def _search_within(path: SizePath, limits: Limits, starts: Sequence[Ints]) -> BoundedPath | None:
    best, visited = _search_prices(path, limits, starts)
    incumbent = _find_fastest(path, limits, [np.zeros(0, dtype=np.int64), *starts, *visited])
    if incumbent and best.bound_ns >= incumbent.total_ns * (1 - _SLACK):
        return incumbent
    return _LabelSearch(path, limits, best, incumbent).run()


def _find_fastest(path: SizePath, limits: Limits, paths: Sequence[Ints]) -> BoundedPath | None:
    totals = [
        (path.compute_total_ns(positions), positions)
        for positions in paths
        if limits.is_satisfied_by(positions)
    ]
    total, positions = min(totals, key=lambda pair: (pair[0], len(pair[1])), default=(np.inf, None))
    return (
        BoundedPath(positions, total, total)
        if positions is not None and np.isfinite(total)
        else None
    )


def _search_prices(
    path: SizePath, limits: Limits, starts: Sequence[Ints]
) -> tuple[_PricedPath, list[Ints]]:
    """Maximize the bound by subgradient ascent; also return the visited paths."""
    incumbent = _find_fastest(path, limits, starts)
    upper = incumbent.total_ns if incumbent else np.inf
    best = priced = _find_priced_path(path, limits, np.zeros(limits.size_usage.shape[1]))
    visited, scale = [priced.places], 1.0
    for _ in range(_ROUNDS):
        slope = limits.compute_usage(priced.places) - 1
        if (slope <= _SLACK).all():
            upper = min(upper, path.compute_total_ns(priced.places))
        square = float(slope @ slope)
        if not square or best.bound_ns >= upper * (1 - _SLACK):
            break
        target = upper if np.isfinite(upper) else 2 * abs(best.bound_ns) + 1
        step = scale * max(target - priced.bound_ns, 0.0) / square
        priced = _find_priced_path(path, limits, np.maximum(priced.prices + step * slope, 0))
        visited.append(priced.places)
        if priced.bound_ns > best.bound_ns:
            best = priced
        else:
            scale *= 0.8
    return best, visited


def _find_priced_path(path: SizePath, limits: Limits, prices: Floats) -> _PricedPath:
    count = len(path.replay_ns)
    size_price, replay = limits.size_usage @ prices, path.replay_ns
    onward = path.remaining_ns[1:] + limits.last_usage @ prices
    following = np.full(count, -1)
    # Time from a size on, with the size itself counted for all requests up to it.
    arrival = size_price + onward + replay * path.cumulative_requests
    for index in range(count - 2, -1, -1):
        candidates = arrival[index + 1 :] - replay[index + 1 :] * path.cumulative_requests[index]
        best = int(candidates.argmin())
        if candidates[best] < onward[index]:
            onward[index] = candidates[best]
            following[index] = index + 1 + best
            arrival[index] = (
                size_price[index]
                + candidates[best]
                + replay[index] * path.cumulative_requests[index]
            )
    first = int(arrival.argmin()) if count else -1
    price_sum = float(prices.sum())
    if first < 0 or path.remaining_ns[0] <= arrival[first]:
        return _PricedPath(
            prices, onward, float(path.remaining_ns[0]) - price_sum, np.zeros(0, dtype=np.int64)
        )
    positions = [first]
    while following[positions[-1]] >= 0:
        positions.append(int(following[positions[-1]]))
    return _PricedPath(
        prices, onward, float(arrival[first]) - price_sum, np.array(positions, dtype=np.int64)
    )


class _LabelSearch:
    """Label search; the first label is the start before all sizes."""

    def __init__(
        self, path: SizePath, limits: Limits, best: _PricedPath, incumbent: BoundedPath | None
    ) -> None:
        self._path, self._limits, self._best = path, limits, best
        self._incumbent = incumbent
        self._upper = incumbent.total_ns if incumbent else np.inf
        self._place, self._parent = [-1], [-1]
        self._times, self._reached = np.zeros(1), np.zeros(1)
        self._used = np.zeros((1, limits.size_usage.shape[1]))

    def run(self) -> BoundedPath | None:
        """Return the best path; the best so far with its bound if there are too many labels."""
        for index in range(len(self._path.replay_ns)):
            self._extend_to(index)
            if len(self._times) > _MAX_LABELS and self._incumbent is not None:
                positions, total = self._incumbent.places, self._incumbent.total_ns
                return BoundedPath(positions, total, min(total, self._best.bound_ns))
        return self._incumbent

    def _extend_to(self, index: int) -> None:
        path, best = self._path, self._best
        times = self._times + path.replay_ns[index] * (
            path.cumulative_requests[index] - self._reached
        )
        used = self._used + self._limits.size_usage[index]
        bound = times + used @ best.prices + best.onward_ns[index] - best.prices.sum()
        is_within = (used + self._limits.last_usage[index] <= 1 + _SLACK).all(axis=1)
        kept_rows = np.flatnonzero(is_within & (bound < self._upper * (1 - _SLACK)))
        kept_rows = kept_rows[_find_undominated(times[kept_rows], used[kept_rows])]
        if not len(kept_rows):
            return
        first = len(self._place)
        self._place.extend([index] * len(kept_rows))
        self._parent.extend(kept_rows.tolist())
        self._times = np.concatenate((self._times, times[kept_rows]))
        self._used = np.concatenate((self._used, used[kept_rows]))
        self._reached = np.append(
            self._reached, np.full(len(kept_rows), path.cumulative_requests[index])
        )
        totals = times[kept_rows] + path.remaining_ns[index + 1]
        best_row = int(totals.argmin())
        if totals[best_row] < self._upper:
            self._upper = float(totals[best_row])
            self._incumbent = BoundedPath(
                self._trace_back(first + best_row), self._upper, self._upper
            )

    def _trace_back(self, label: int) -> Ints:
        positions: list[int] = []
        while label > 0:
            positions.append(self._place[label])
            label = self._parent[label]
        return np.array(positions[::-1], dtype=np.int64)


def _find_undominated(times: Floats, used: Floats) -> Ints:
    if used.shape[1] == 1:
        order = np.lexsort((used[:, 0], times))
        ordered = used[order, 0]
        running_min = np.minimum.accumulate(ordered)
        return np.sort(order[np.append(True, ordered[1:] < running_min[:-1])[: len(order)]])
    order = np.lexsort((*used.T[::-1], times))
    retained: list[int] = []
    kept_used = np.empty_like(used)
    for label in order.tolist():
        if not (kept_used[: len(retained)] <= used[label]).all(axis=1).any():
            kept_used[len(retained)] = used[label]
            retained.append(label)
    return np.array(sorted(retained), dtype=np.int64)
