"""Which runs of an experiment measured something, and which run another is compared with: the
baseline's run of its own rank."""

from __future__ import annotations

from collections.abc import Sequence
from string import digits

from msgspec.structs import replace

from graphviz_dash.model.run import BASELINE_MODE, Experiment, Pass, Run


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
    """What the ranks of one run have in common: the mode, of a recorded program its name, and of
    imported traces the job, as far as they tell it."""
    if not run.mode.is_recorded:
        return run.mode.value
    if run.manifest.group is not None and run.manifest.group.job is not None:
        return run.manifest.group.job
    return run.name.removesuffix(f"-rank{run.manifest.rank}")


def ran_eagerly(run: Run) -> bool:
    """Whether it is a recorded program that replayed no graph: a baseline for those that did."""
    recording = run.recording
    return (
        recording is not None
        and not recording.earlier_replays
        and not any(graph.replays for graph in recording.graphs)
    )


def usual_baseline(runs: Sequence[Run]) -> Run | None:
    """The run that others are compared with unless another is named: the one called eager, or of
    that mode; of recorded programs the first that replayed no graph, nor was compiled; else of
    recordings of one program the one with the lowest number, where their names differ in a number
    alone, or the one made first: the others were changed from it. None where no run is any of
    these."""
    candidates = (
        *(run for run in runs if run.name == BASELINE_MODE.value),
        *(run for run in runs if run.mode is BASELINE_MODE),
        *(run for run in runs if ran_eagerly(run) and run.compilation is None),
        *_in_order_of_change(runs),
    )
    return next(iter(candidates), None)


def _in_order_of_change(runs: Sequence[Run]) -> list[Run]:
    """Several recordings of one program, by the numbers in which alone their names differ, or the
    earliest first; none where they are of different programs, or where there is one alone."""
    recordings = [run for run in runs if run.recording is not None]
    programs = {run.manifest.workload.name for run in recordings}
    if len(programs) != 1 or len({family(run) for run in recordings}) == 1:
        return []
    stems = {run.name.rstrip(digits) for run in recordings}
    if len(stems) == 1 and not stems & {run.name for run in recordings}:
        (stem,) = stems
        return sorted(recordings, key=lambda run: int(run.name.removeprefix(stem)))
    return sorted(recordings, key=lambda run: run.manifest.measured)


def may_be_eager(run: Run) -> bool:
    """Whether nothing but its trace can tell that its steps ran from graphs: a run of the baseline
    mode, a recorded program that replayed none, or an imported trace."""
    if run.mode.is_baseline or ran_eagerly(run):
        return True
    return run.mode.is_recorded and run.recording is None


def untimed(experiment: Experiment) -> bool:
    """Whether no run of ``experiment`` was timed without a profiler: traces are all there is."""
    return not any(
        (run.clean is not None and run.clean.steps) or (run.recording and run.recording.step_ns)
        for run in experiment.runs
    )


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
