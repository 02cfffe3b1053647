"""Runs side by side: their first traced steps start at one instant of the exported trace. The ranks
of one mode keep their distances instead: it is the first of them that starts then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.ranks.shared_steps import SharedSteps, shared_steps
from graphviz_dash.analysis.trace.steps import Step, StepMethod, steps
from graphviz_dash.errors import InputError, printable
from graphviz_dash.model.absence import Fact

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment, Run
    from graphviz_dash.model.trace import Trace

MOST_BINS: Final = 32_768
"""Bins of the busy counter over the longest run, at most."""

_FEWEST_BIN_NS: Final = 1_000


class AlignedRun(Struct, frozen=True):
    """A run with a trace, and how its times are moved."""

    run: Run
    """The run."""
    trace: Trace
    """Its replay trace."""
    steps: tuple[Step, ...]
    """The steps of that trace."""
    shift: int
    """What is added to its times, in ns."""
    on_clock: bool = False
    """Whether its times can be compared with those of the other ranks of its mode."""

    @property
    def marked(self) -> bool:
        """Whether the trace says where its steps are; else the whole of it counts as one."""
        return self.steps[0].method is not StepMethod.WHOLE


class Alignment(Struct, frozen=True):
    """Runs whose first traced steps start together."""

    at: int
    """Where their first steps start, in ns of the exported trace: a multiple of ``bin_ns``, so that
    bins begin with the step, and late enough for nothing to lie before zero."""
    bin_ns: int
    """Width of a bin of the busy counter, in ns."""
    runs: tuple[AlignedRun, ...]
    """In the order of the experiment."""
    skipped: tuple[tuple[str, str], ...]
    """The names of the runs without a trace, and why they have none."""

    @property
    def first_step(self) -> tuple[int, int]:
        """From the common start to the end of the longest first step, in ns."""
        longest = max(run.steps[0].duration_ns for run in self.runs)
        return self.at, self.at + longest


def align(experiment: Experiment) -> Alignment:
    """The runs of ``experiment`` that have a replay trace, aligned.

    Raises:
        InputError: no run has one.
    """
    traced = [
        (run, run.replay_trace, steps(run.replay_trace))
        for run in experiment.runs
        if run.replay_trace is not None
    ]
    skipped = tuple(
        (printable(run.name), _why_untraced(run))
        for run in experiment.runs
        if run.replay_trace is None
    )
    if not traced:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped)
        raise InputError(
            experiment.path,
            f"no run with a trace of its steps ({reasons or 'no run at all'})",
            "at least one traced run",
        )
    bin_ns = _bin_width(max(trace.info.end_ns for _, trace, _ in traced))
    shared = shared_steps(experiment)
    origins = [_origin(run, own, shared) for run, _, own in traced]
    at = -(-max(origins) // bin_ns) * bin_ns
    runs = tuple(
        AlignedRun(run, trace, own, at - origin, run.name in shared)
        for (run, trace, own), origin in zip(traced, origins, strict=True)
    )
    return Alignment(at, bin_ns, runs, skipped)


def _origin(run: Run, own: tuple[Step, ...], shared: dict[str, SharedSteps]) -> int:
    """What lies at the common start, in ns of the run's trace."""
    ranks = shared.get(run.name)
    return own[0].start if ranks is None else ranks.begins[min(ranks.begins)]


def _why_untraced(run: Run) -> str:
    return printable(why_missing(run, Fact.TRACED_PASS).reason)


def _bin_width(longest_ns: int) -> int:
    """The least of 1, 2, 5, 10, ... µs that cuts ``longest_ns`` into at most MOST_BINS bins."""
    width = _FEWEST_BIN_NS
    while True:
        for factor in (1, 2, 5):
            if width * factor * MOST_BINS >= longest_ns:
                return width * factor
        width *= 10
