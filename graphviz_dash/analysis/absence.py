"""Why a run has nothing of a pass or of graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphviz_dash.model.run import ExecutionMode, Pass

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run


def no_graphs(run: Run) -> str | None:
    """Why the run has no one-off costs; None when it has."""
    if run.mode is ExecutionMode.EAGER:
        return f"mode {run.mode.value} captures no graph"
    if run.clean is None:
        return pass_missing(run, Pass.CLEAN)
    return None if run.clean.graphs else "the clean pass captured no graph"


def pass_missing(run: Run, which: Pass, otherwise: str | None = None) -> str:
    """Why the run has nothing from a pass: it failed, was not reached, or was never taken."""
    for failure in run.manifest.failures:
        if failure.during is which:
            return f"the {which.value} pass failed: {failure.error}"
    for fact in run.manifest.absent:
        if fact.fact == f"{which.value} pass":
            return fact.reason
    return otherwise or f"the bundle has no {which.value} pass"
