"""Rates of a GPU from its measured ceilings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from graphviz_dash.model.ceilings import Ceilings, Pipe, Traffic

_NS_PER_S: Final = 1e9


class Rates:
    """Limits of one GPU, for time estimates."""

    def __init__(self, ceilings: Ceilings) -> None:
        self.ceilings = ceilings
        self.launch_ns = float(np.median(ceilings.empty_kernel_ns))
        """Duration of an empty kernel, in ns."""
        self.l2_bytes = ceilings.l2_bytes
        self._curves = {
            (traffic, cached): _build_curve(
                (
                    (point.bytes, min(point.duration_ns))
                    for point in ceilings.memory
                    if point.traffic is traffic and point.is_cached is cached
                ),
                self.launch_ns,
            )
            for traffic in Traffic
            for cached in (True, False)
        }
        self._matrix = _find_best_rates(ceilings, is_matrix=True)
        self._vector = _find_best_rates(ceilings, is_matrix=False)

    def compute_memory_ns(self, read: float, written: float, *, cached: bool) -> float:
        """Compute the time to read and write bytes in device memory, or in L2, in ns.

        L2 is never slower than device memory.

        Equal numbers of bytes read and written take as long as a copy; the remaining bytes take as
        long as a kernel that only reads or only writes.
        """
        total = read + written
        if total <= 0:
            return 0.0
        paired = 2 * min(read, written)
        remaining = Traffic.READ if read >= written else Traffic.WRITE
        copy_ns = self._interpolate(Traffic.COPY, total, cached=cached)
        if paired == total:
            return copy_ns
        remaining_ns = self._interpolate(remaining, total, cached=cached)
        return (paired * copy_ns + (total - paired) * remaining_ns) / total

    def _interpolate(self, traffic: Traffic, size: float, *, cached: bool) -> float:
        uncached_ns = _interpolate(self._curves[traffic, False], size)
        if not cached:
            return uncached_ns
        return min(uncached_ns, _interpolate(self._curves[traffic, True], size))

    def get_flop_rate(self, pipe: Pipe, *, is_matrix: bool = True) -> float | None:
        """Return operations per second; None if not measured."""
        return (self._matrix if is_matrix else self._vector).get(pipe)

    def compute_bandwidth(self, traffic: Traffic, *, cached: bool) -> float:
        """Compute the highest measured bandwidth, in bytes per second."""
        return max(
            (
                point.bytes / min(point.duration_ns) * _NS_PER_S
                for point in self.ceilings.memory
                if point.traffic is traffic and point.is_cached is cached
            ),
            default=0.0,
        )


_Curve = tuple[list[float], list[float]]
"""Bytes and durations in ns, ascending."""


def _build_curve(points: Iterable[tuple[int, int]], launch_ns: float) -> _Curve:
    """Build an ascending curve that starts at the duration of an empty kernel."""
    sizes, durations = [0.0], [launch_ns]
    for size, duration in sorted(points):
        sizes.append(float(size))
        durations.append(max(float(duration), durations[-1]))
    return sizes, durations


def _interpolate(curve: _Curve, size: float) -> float:
    """Interpolate linearly; beyond the last point, use its bandwidth."""
    sizes, durations = curve
    if size > sizes[-1]:
        return durations[-1] * size / sizes[-1] if sizes[-1] else 0.0
    return float(np.interp(size, sizes, durations))


def _find_best_rates(ceilings: Ceilings, *, is_matrix: bool) -> dict[Pipe, float]:
    rates: dict[Pipe, float] = {}
    for measured in ceilings.arithmetic:
        if measured.is_matrix is is_matrix and measured.duration_ns:
            rate = measured.flops / max(1, min(measured.duration_ns)) * _NS_PER_S
            rates[measured.pipe] = max(rate, rates.get(measured.pipe, 0.0))
    return rates
