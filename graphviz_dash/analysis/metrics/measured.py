"""The runs of an experiment that measured something: a doctor's examination is a run without."""

from __future__ import annotations

from dataclasses import replace

from graphviz_dash.model.run import Experiment, Pass, Run


def is_examination(run: Run) -> bool:
    """Whether a run holds a doctor's report and nothing else, as `graphviz-dash doctor` writes it.

    One that a collection added to a mode that failed is none: that mode's failure is to be seen.
    """
    tried = any(failure.during is Pass.CLEAN for failure in run.manifest.failures)
    return run.doctor is not None and run.clean is None and not tried


def measured(experiment: Experiment) -> Experiment:
    """``experiment`` without examinations; as it is where there is nothing else."""
    runs = tuple(run for run in experiment.runs if not is_examination(run))
    return replace(experiment, runs=runs) if runs else experiment
