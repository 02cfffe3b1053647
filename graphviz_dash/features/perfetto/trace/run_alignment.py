"""Alignment of runs: first traced steps start at the same time of the exported trace. Ranks of one
mode keep their offsets; only the first rank starts then."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.ranks.shared_steps import SharedSteps, find_shared_steps
from graphviz_dash.analysis.trace.steps import Step, StepMethod, find_steps
from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.model.trace import Trace

MAX_BINS: Final = 32_768
"""Busy counter bins over the longest run."""

_MIN_BIN_NS: Final = 1_000


class AlignedRun(Struct, frozen=True):
    """Run with a trace and its time shift."""

    run: Run
    trace: Trace
    steps: tuple[Step, ...]
    shift: int
    """Added to its times, in ns."""
    shares_clock: bool = False
    """Its times are comparable with those of other ranks of its mode."""

    @property
    def has_marked_steps(self) -> bool:
        """True if the trace marks steps; otherwise the full trace counts as one step."""
        return self.steps[0].method is not StepMethod.WHOLE


class Alignment(Struct, frozen=True):
    """Runs whose first traced steps start together."""

    at: int
    """Start of the first steps in ns: a multiple of ``bin_ns``, late enough that no time is
    negative."""
    bin_ns: int
    runs: tuple[AlignedRun, ...]
    """In the order of the experiment."""
    skipped: tuple[tuple[str, str], ...]
    """Names of runs without a trace, with reasons."""

    @property
    def first_step(self) -> tuple[int, int]:
        """Interval from the common start to the end of the longest first step, in ns."""
        longest = max(run.steps[0].duration_ns for run in self.runs)
        return self.at, self.at + longest


def align_runs(experiment: Experiment) -> Alignment:
    """Align the runs that have a replay trace.

    Raises:
        InputError: no run has one.
    """
    traced = [
        (run, run.replay_trace, find_steps(run.replay_trace))
        for run in experiment.runs
        if run.replay_trace is not None
    ]
    skipped = tuple(
        (escape_control_characters(run.name), _explain_missing_trace(run))
        for run in experiment.runs
        if run.replay_trace is None
    )
    if not traced:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped)
        raise InputError(
            experiment.path,
            f"no run with a trace of its steps ({reasons or 'no runs'})",
            "at least one traced run",
        )
    bin_ns = _choose_bin_width(max(trace.info.end_ns for _, trace, _ in traced))
    shared = find_shared_steps(experiment)
    origins = [_get_origin(run, run_steps, shared) for run, _, run_steps in traced]
    at = -(-max(origins) // bin_ns) * bin_ns
    runs = tuple(
        AlignedRun(run, trace, run_steps, at - origin, run.name in shared)
        for (run, trace, run_steps), origin in zip(traced, origins, strict=True)
    )
    return Alignment(at, bin_ns, runs, skipped)


def _get_origin(run: Run, run_steps: tuple[Step, ...], shared: dict[str, SharedSteps]) -> int:
    """Return the common start, in ns of the run's trace."""
    ranks = shared.get(run.name)
    return run_steps[0].start if ranks is None else ranks.starts[min(ranks.starts)]


def _explain_missing_trace(run: Run) -> str:
    return escape_control_characters(explain_missing(run, Fact.TRACED_PASS).reason)


def _choose_bin_width(longest_ns: int) -> int:
    """Return the smallest of 1, 2, 5, 10, ... µs that needs at most MAX_BINS bins."""
    width = _MIN_BIN_NS
    while True:
        for factor in (1, 2, 5):
            if width * factor * MAX_BINS >= longest_ns:
                return width * factor
        width *= 10
