"""Reasons for low confidence in metrics, as numbers and names; narrative/low_confidence.py holds
the texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

HOST_METRICS: Final = ("step_time", "launch_cpu_time", "speedup", "step_saving")
"""Metrics that depend on the host's processors."""

_BUSY_METRICS: Final = ("gpu_busy", "busy_fraction", "busy_of_clean")


class CaveatCode(StrEnum):
    """Kinds of caveats, with their values. Times are in ns, shares from 0 to 1."""

    FEW_ITERATIONS = "few-iterations"
    """``count`` iterations of a clean series, fewer than FEW_ITERATIONS."""
    DRIFT = "drift"
    """The medians of the halves of a clean series, ``first`` and ``second``, differ by more than
    DRIFT of its median. The halves of several processes are pooled.
    """
    WIDE_SPREAD = "wide-spread"
    """The quartiles ``spread`` of a clean series are further apart than WIDE_RELATIVE_SPREAD of its
    median, by ``share``.
    """
    NO_DIFFERENCE = "no-difference"
    """The 95% interval of the speedup ``value`` contains 1."""
    EXTENDED_SPREAD = "extended-spread"
    """The 95% interval of the samples was extended because it misses the ``value`` of the metric.
    """
    LARGE_REMAINDER = "large-remainder"
    """The equation leaves ``ns`` unexplained, ``share`` of the baseline's step."""
    WHILE_LOOPS = "loops"
    """The trace shows only the last iteration of each of ``nodes`` While nodes."""
    NO_GPU_WORK = "no-gpu-work"
    """The traced pass contains no GPU work, for a ``reason``."""
    NO_STEPS = "no-steps"
    """The traced pass marks no steps; ``step`` covers all of it."""
    SEVERAL_GPUS = "several-gpus"
    """The traced work ran on several ``devices``, and the figures cover all of them."""
    FOREIGN_STEPS = "profiler-steps"
    """Another program marked the steps by a ``method``, so they may not end synchronised."""
    FEW_TRACED_STEPS = "few-traced-steps"
    """``count`` traced steps, fewer than FEW_TRACED_STEPS. No more can be collected if
    ``imported``.
    """
    OBSERVER = "observer"
    """A traced step is ``ratio`` times as long as a clean one, at least STRONG_OBSERVER."""
    PASS_MISMATCH = "passes-unlike"
    """A traced step is ``ratio`` times as long as a clean one, below MIN_OBSERVER_EFFECT."""
    BUSY_ABOVE_CLEAN = "busy-above-clean"
    """Traced GPU busy time is ``share`` of the clean step time, above 1. ``is_rank``: one of
    several ranks.
    """
    TRACE_DEFECT = "trace"
    """A ``problem`` of a trace. ``trace`` names the affected one of the run's two traces; None for
    both or the only one.
    """
    UNSUPPORTED_CLAIMS = "trace-integrity"
    """Conclusions (``claims``) that the traced pass does not support, for one ``reason``."""
    EMPTY_STEPS = "empty-steps"
    """``count`` of ``steps`` contain no event."""
    INCOMPLETE_LAUNCHES = "incomplete-launches"
    """``count`` of ``steps`` lack work of others that ran the same operators."""
    PARTIAL_REPLAYS = "partial-replays"
    """``count`` graph launches lack work of other launches of the same graph."""
    COMMUNICATION = "communication"
    """Communication is ``share`` of a rank's GPU busy time, above MUCH_COMMUNICATION."""
    ENVIRONMENT = "environment"
    """A ``component`` differs between the run (``value``) and its ``baseline``
    (``baseline_value``); None if unknown."""
    WORKLOAD = "workload"
    """The run and its ``baseline`` have different workloads or seeds, ``work`` and
    ``baseline_work``."""
    PARAMETERS = "parameters"
    """Different parameters of a workload; ``rows`` holds name, the run's and the baseline's
    value."""
    FEW_RECORDED_STEPS = "few-recorded-steps"
    """``count`` timed steps of a recorded program, fewer than FEW_STEPS."""
    UNEVEN_STEPS = "uneven-steps"
    """A recorded program spends ``share`` of its loop in ``long_count`` of ``count`` steps, which
    exceed LONG_STEP_MEDIANS medians. Profiled steps (``traced``) are also shorter than the mean by
    more than MIN_OBSERVER_EFFECT allows, so the mean is not representative.
    """
    CAPTURE_PROBLEM = "capture-problem"
    """A ``problem`` of the capture of a ``graph`` at ``location``, which is ``file:line``."""
    UNKNOWN_GRAPHS = "unseen-graphs"
    """``count`` of ``launches`` graph launches in a trace have no known graph, only times.
    ``time_share`` is their fraction of the duration of all GPU work; None if they are unidentified.
    ``source`` is the source of the run's graphs.
    """
    BUSY_HOST = "busy-host"
    """The mean time of the fixed CPU loop exceeds its fastest by more than BUSY_HOST (``loop``):
    other processes used the host.
    """
    HOST_MISMATCH = "unlike-hosts"
    """The CPU loop medians of a run (``run_ns``) and its ``baseline`` (``baseline_ns``) differ by
    more than DRIFT."""
    PROCESS_VARIANCE = "unlike-processes"
    """The ``medians`` of a run's processes differ by more than DRIFT of the smallest. The machine
    causes this variation, and the interval covers it.
    """
    CLOCK_VARIANCE = "unlike-clocks"
    """The GPU clocks differed between processes, from ``lowest`` to ``highest`` MHz."""
    SLOW_GPU = "slow-gpu"
    """The GPU clocks were throttled, for ``causes`` reported by NVML."""


_METRICS: Final[dict[CaveatCode, tuple[str, ...]]] = {
    CaveatCode.LARGE_REMAINDER: ("remainder", "gaps_removed", "kernel_change"),
    CaveatCode.WHILE_LOOPS: (
        *_BUSY_METRICS,
        "kernels",
        "copies",
        "sets",
        "graph_work",
        "graph_work_share",
        "graph_time_share",
    ),
    CaveatCode.FEW_TRACED_STEPS: (*_BUSY_METRICS, "observer_effect"),
    CaveatCode.OBSERVER: ("busy_fraction", "traced_step_time"),
    CaveatCode.PASS_MISMATCH: ("observer_effect", "busy_of_clean"),
    CaveatCode.BUSY_ABOVE_CLEAN: ("busy_of_clean",),
    CaveatCode.COMMUNICATION: ("gpu_busy", "busy_fraction", "kernel_change", "gaps_removed"),
    CaveatCode.FEW_RECORDED_STEPS: ("recorded_step", "recorded_speedup"),
    CaveatCode.UNEVEN_STEPS: ("recorded_step", "recorded_speedup"),
    CaveatCode.BUSY_HOST: HOST_METRICS,
    CaveatCode.HOST_MISMATCH: HOST_METRICS,
    CaveatCode.CLOCK_VARIANCE: ("step_time", "step_interval"),
    CaveatCode.SLOW_GPU: ("step_time", "step_interval"),
}


class Caveat(Struct, frozen=True):
    """A reason for low confidence in metrics."""

    code: CaveatCode
    values: Mapping[str, Any]
    """Values named as in its code's description; ``metric`` is the affected metric."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Ids of the affected metrics; empty for all."""
        metric = self.values.get("metric")
        return _METRICS.get(self.code, ()) if metric is None else (metric,)


def make_caveat(code: CaveatCode, /, **values: object) -> Caveat:
    """Make a caveat."""
    return Caveat(code, values)
