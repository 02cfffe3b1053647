"""Which run another is held against: the baseline's run of its own rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment, Run


def partner(run: Run, baseline: Run, experiment: Experiment) -> Run | None:
    """``baseline``, or the run of its family that has the rank of ``run``; None if there is none.

    Ranks do not all do the same work, so that only runs of one rank are compared.
    """
    rank = run.manifest.rank
    if rank == baseline.manifest.rank:
        return baseline
    return next(
        (
            other
            for other in experiment.runs
            if family(other) == family(baseline) and other.manifest.rank == rank
        ),
        None,
    )


def family(run: Run) -> str:
    """What the ranks of one run have in common: the mode, and of a recorded program its name."""
    if not run.mode.is_recorded:
        return run.mode.value
    return run.name.removesuffix(f"-rank{run.manifest.rank}")


def ran_eagerly(run: Run) -> bool:
    """Whether it is a recorded program that replayed no graph: a baseline for those that did."""
    recording = run.recording
    return (
        recording is not None
        and not recording.earlier_replays
        and not any(graph.replays for graph in recording.graphs)
    )
