"""Additional sizes for requests above the largest graph, with their gain and cost."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.analysis.loop.size_times import interpolate
from graphviz_dash.analysis.sample_statistics import Spread
from graphviz_dash.features.ladder.analysis.ladder_data import (
    LadderData,
    TimeEstimates,
    build_problem,
    estimate_times,
)
from graphviz_dash.features.ladder.analysis.ladder_inputs import build_ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import (
    LadderCost,
    LadderProblem,
    compute_ladder_cost,
)
from graphviz_dash.features.ladder.analysis.outside_time import compute_block_spread
from graphviz_dash.features.ladder.analysis.set_memory import SetMemory
from graphviz_dash.model.absence import Missing

_MAX_ADDED: Final = 4


_MIN_SHARE: Final = 0.01
"""Minimum gain of additional sizes, as a share of the family's time."""


class Coverage(Struct, frozen=True):
    """Additional sizes that cover all requests of a family."""

    largest_graph: int
    requests: int
    requests_above: int
    new_sizes: tuple[int, ...]
    """Additional sizes, ascending. Their times are extrapolated."""
    current_use: LadderCost
    """Cost of the captured sizes."""
    use: LadderCost
    """Cost with the additional sizes."""
    step_ns: float | None
    """Time per request outside graphs; None if unknown."""
    eager_step_ns: float | None
    """Mean time of a step above the largest graph today, from medians by size. None if none was
    timed."""
    eager_step_spread: Spread | None
    """Range of ``eager_step_ns`` from the variation of consecutive steps. None if too few."""
    graph_step_ns: float | None
    """Predicted mean of these steps with the additional sizes. None if unknown."""
    graph_step_spread: Spread | None
    """Range of ``graph_step_ns`` from the variation of consecutive steps. None if too few."""
    all_steps_ns: float | None
    """Time of the steps of all families today. None if unknown."""
    memory_limit: Missing | None
    """Reason why the memory of ``use`` is an upper limit. None if it is predicted."""

    @property
    def gain_ns(self) -> float | None:
        """Gain per request above the largest graph. None if unknown."""
        if self.eager_step_ns is None or self.graph_step_ns is None:
            return None
        return self.eager_step_ns - self.graph_step_ns

    @property
    def gain_share(self) -> float | None:
        """Gain as a share of the time of all requests, 0 to 1. None if unknown."""
        if self.step_ns is None or self.gain_ns is None:
            return None
        total_ns = self.step_ns * self.requests + self.current_use.total_ns
        return self.gain_ns * self.requests_above / total_ns if total_ns > 0 else None

    @property
    def throughput_gain(self) -> float | None:
        """Predicted gain in throughput of all steps, 0.2 for 20%. None if unknown."""
        if self.eager_step_ns is None or self.graph_step_ns is None:
            return None
        return self._compute_throughput_gain(self.eager_step_ns, self.graph_step_ns)

    @property
    def throughput_spread(self) -> Spread | None:
        """Range of ``throughput_gain``: the effects of both steps' ranges, as if they varied
        independently. None if unknown."""
        eager, graph, gain = self.eager_step_spread, self.graph_step_spread, self.throughput_gain
        if eager is None or graph is None or gain is None:
            return None
        loss = self._find_change(gain, eager.low, graph.high)
        rise = self._find_change(gain, eager.high, graph.low)
        if loss is None or rise is None:
            return None
        samples = min(eager.samples, graph.samples)
        return Spread(gain - loss, gain + rise, graph.kind, samples)

    def _find_change(
        self, gain: float, eager_ns: float | None, graph_ns: float | None
    ) -> float | None:
        """Find the change of ``gain`` with other times of both steps."""
        if eager_ns is None or graph_ns is None:
            return None
        assert self.eager_step_ns is not None
        assert self.graph_step_ns is not None
        by_eager = self._compute_throughput_gain(eager_ns, self.graph_step_ns)
        by_graph = self._compute_throughput_gain(self.eager_step_ns, graph_ns)
        if by_eager is None or by_graph is None:
            return None
        return math.hypot(by_eager - gain, by_graph - gain)

    def _compute_throughput_gain(self, eager_ns: float, graph_ns: float) -> float | None:
        if self.all_steps_ns is None or self.eager_step_ns is None:
            return None
        before_ns = self.all_steps_ns + (eager_ns - self.eager_step_ns) * self.requests_above
        after_ns = before_ns - (eager_ns - graph_ns) * self.requests_above
        return before_ns / after_ns - 1 if after_ns > 0 else None

    @property
    def is_worthwhile(self) -> bool:
        """True if the gain is a considerable share of the family's time."""
        return self.gain_share is not None and not self.is_insignificant

    @property
    def is_insignificant(self) -> bool:
        """True if the gain is known and too small, or its range includes none."""
        if self.gain_ns is None:
            return False
        spread, share = self.throughput_spread, self.gain_share
        has_no_gain = self.gain_ns <= 0 or (spread is not None and spread.low <= 0)
        return has_no_gain or (share is not None and share < _MIN_SHARE)

    @property
    def memory_bytes(self) -> float:
        """Additional device memory. An upper limit with ``memory_limit``; graphs may fit unused
        space of the pool."""
        return self.use.memory_bytes - self.current_use.memory_bytes

    @property
    def startup_ns(self) -> float:
        """Additional startup time."""
        return self.use.startup_ns - self.current_use.startup_ns


def select_family(report: LoopReport) -> FamilyReport:
    """Select the family to show first: the largest gain from additional sizes, or else the most
    steps among known sizes."""
    gains = []
    for family in report.families:
        data = build_ladder_data(report, family)
        coverage = None if isinstance(data, Missing) else build_coverage(data)
        if coverage is not None and coverage.is_worthwhile:
            gains.append(((coverage.gain_ns or 0.0) * coverage.requests_above, family))
    if gains:
        return max(gains, key=lambda pair: pair[0])[1]
    return next((family for family in report.families if family.has_sizes), report.families[0])


def build_coverage(data: LadderData) -> Coverage | None:
    """Build the sizes that cover the requests above the largest graph. None without any."""
    times, current = estimate_times(data), data.current_sizes
    requests_above = data.requests[data.requests > current[-1]]
    if not len(requests_above):
        return None
    new_sizes = _choose_sizes(current, int(requests_above.max()))
    requests, counts = np.unique(data.requests, return_counts=True)
    sizes = np.array([*current, *new_sizes], dtype=np.int64)
    problem = build_problem(data, times, sizes, requests, counts.astype(float))
    problem = replace(
        problem,
        pool_bytes=_estimate_pool_bytes(problem.pool_bytes, sizes, current),
        exclusive_bytes=_estimate_exclusive_bytes(problem.exclusive_bytes, sizes, current),
    )
    eager_ns, graph_ns, spread = _predict_steps(data, problem, requests_above)
    memory = SetMemory(data)
    return Coverage(
        largest_graph=current[-1],
        requests=len(data.requests),
        requests_above=len(requests_above),
        new_sizes=new_sizes,
        current_use=memory.correct(compute_ladder_cost(problem, current), current),
        use=memory.correct(compute_ladder_cost(problem, sizes.tolist()), sizes.tolist()),
        step_ns=data.step_ns,
        eager_step_ns=eager_ns,
        eager_step_spread=_measure_eager_variation(data, times, eager_ns),
        graph_step_ns=graph_ns,
        graph_step_spread=spread,
        all_steps_ns=data.all_steps_ns,
        memory_limit=data.pool if isinstance(data.pool, Missing) else None,
    )


def _predict_steps(
    data: LadderData, problem: LadderProblem, requests: Ints
) -> tuple[float | None, float | None, Spread | None]:
    """Predict the mean time of steps today and in graphs.

    Graph times are extrapolated by size, the time outside graphs by number of requests.
    """
    eager_ns = problem.fallback_ns[np.searchsorted(problem.requests, requests)]
    eager_step_ns = float(eager_ns.mean()) + data.fallback_base_ns
    today = eager_step_ns if math.isfinite(eager_step_ns) else None
    if data.outside is None:
        return today, None, None
    replay_ns = float(problem.replay_ns[np.searchsorted(problem.sizes, requests)].mean())
    outside_ns = float(data.outside.estimate(requests).mean())
    ratios = data.outside.ratios
    if ratios is None:
        return today, replay_ns + outside_ns, None
    high = None if ratios.high is None else replay_ns + outside_ns * ratios.high
    spread = Spread(replay_ns + outside_ns * ratios.low, high, ratios.kind, ratios.samples)
    return today, replay_ns + outside_ns, spread.include(replay_ns + outside_ns)


def _measure_eager_variation(
    data: LadderData, times: TimeEstimates, eager_ns: float | None
) -> Spread | None:
    """Measure the distance of consecutive eager steps above the largest graph from the medians of
    their sizes."""
    has_no_graph = data.fallback_sizes > data.current_sizes[-1]
    if eager_ns is None or not has_no_graph.any():
        return None
    base_ns, sizes = data.fallback_base_ns, data.fallback_sizes[has_no_graph]
    medians_ns = interpolate(sizes, times.fallback_sizes, times.fallback_ns) + base_ns
    ratios = (data.fallback_ns[has_no_graph] + base_ns) / np.maximum(medians_ns, 1.0)
    spread = compute_block_spread(ratios)
    if spread is None or spread.high is None:
        return None
    return replace(spread, low=spread.low * eager_ns, high=spread.high * eager_ns).include(eager_ns)


def _estimate_pool_bytes(pool_bytes: Floats, sizes: Ints, current: tuple[int, ...]) -> Floats:
    """Extrapolate the pool from the two largest present sizes."""
    count = len(current)
    if count < 2:
        proportional: Floats = pool_bytes * (sizes / sizes[0])
        return proportional
    slope = (pool_bytes[count - 1] - pool_bytes[count - 2]) / (current[-1] - current[-2])
    growth: Floats = pool_bytes + np.maximum(sizes - current[-1], 0) * max(float(slope), 0.0)
    return growth


def _estimate_exclusive_bytes(
    exclusive_bytes: Floats, sizes: Ints, current: tuple[int, ...]
) -> Floats:
    """Extrapolate exclusive memory from the smallest and the largest present size."""
    count = len(current)
    if count < 2:
        return exclusive_bytes
    slope = (exclusive_bytes[count - 1] - exclusive_bytes[0]) / (current[-1] - current[0])
    growth: Floats = exclusive_bytes + np.maximum(sizes - current[-1], 0) * max(float(slope), 0.0)
    return growth


def _choose_sizes(current: tuple[int, ...], largest: int) -> tuple[int, ...]:
    """Choose evenly spaced sizes, in multiples of the present spacing."""
    top = current[-1]
    spacing = top - current[-2] if len(current) > 1 else top
    steps = -(-(largest - top) // spacing)
    count = min(_MAX_ADDED, steps)
    return tuple(top + spacing * (steps * number // count) for number in range(1, count + 1))
