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
        """Duration of an empty kernel."""
        self.l2_bytes = ceilings.l2_bytes
        self._curves = {
            (traffic, l2_hit): _build_curve(
                (
                    (point.bytes, min(point.duration_ns))
                    for point in ceilings.memory
                    if point.traffic is traffic and point.l2_hit is l2_hit
                ),
                self.launch_ns,
            )
            for traffic in Traffic
            for l2_hit in (True, False)
        }
        self._flop_rates = _find_best_rates(ceilings)

    def compute_memory_ns(self, read: float, writes: float, *, l2_hit: bool) -> float:
        """Compute the time to read and write bytes in device memory or L2, which is never slower.

        Equal numbers of bytes read and written take as long as a copy; the remaining bytes take as
        long as a kernel that only reads or only writes.
        """
        total = read + writes
        if total <= 0:
            return 0.0
        copy_bytes = 2 * min(read, writes)
        remaining = Traffic.READ if read >= writes else Traffic.WRITE
        copy_ns = self._interpolate(Traffic.COPY, total, l2_hit=l2_hit)
        if copy_bytes == total:
            return copy_ns
        remaining_ns = self._interpolate(remaining, total, l2_hit=l2_hit)
        return (copy_bytes * copy_ns + (total - copy_bytes) * remaining_ns) / total

    def _interpolate(self, traffic: Traffic, size: float, *, l2_hit: bool) -> float:
        uncached_ns = _interpolate(self._curves[traffic, False], size)
        if not l2_hit:
            return uncached_ns
        return min(uncached_ns, _interpolate(self._curves[traffic, True], size))

    def get_flop_rate(self, pipe: Pipe) -> float | None:
        """Return operations per second of matrix products; None if not measured."""
        return self._flop_rates.get(pipe)

    def compute_bandwidth(self, traffic: Traffic, *, l2_hit: bool) -> float:
        """Return the highest measured bandwidth, in bytes per second."""
        return max(
            (
                point.bytes / min(point.duration_ns) * _NS_PER_S
                for point in self.ceilings.memory
                if point.traffic is traffic and point.l2_hit is l2_hit
            ),
            default=0.0,
        )


_Curve = tuple[list[float], list[float]]
"""Bytes and durations in ns, ascending."""


def _build_curve(points: Iterable[tuple[int, int]], launch_ns: float) -> _Curve:
    """Start at the duration of an empty kernel."""
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


def _find_best_rates(ceilings: Ceilings) -> dict[Pipe, float]:
    rates: dict[Pipe, float] = {}
    for entry in ceilings.arithmetic:
        if entry.is_matrix and entry.duration_ns:
            rate = entry.flops / max(1, min(entry.duration_ns)) * _NS_PER_S
            rates[entry.pipe] = max(rate, rates.get(entry.pipe, 0.0))
    return rates
