"""Which run another is held against: the baseline's run of its own rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment, Run


def partner(run: Run, baseline: Run, experiment: Experiment) -> Run | None:
    """``baseline``, or the run of its mode that has the rank of ``run``; None if there is none.

    Ranks do not all do the same work, so that only runs of one rank are compared.
    """
    rank = run.manifest.rank
    if rank == baseline.manifest.rank:
        return baseline
    return next(
        (
            other
            for other in experiment.runs
            if other.mode is baseline.mode and other.manifest.rank == rank
        ),
        None,
    )
