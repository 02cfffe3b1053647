"""Selection of measured runs and of the run to compare each with."""

from __future__ import annotations

from collections.abc import Sequence
from string import digits

from msgspec.structs import replace

from graphviz_dash.errors import InputError
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import BASELINE_MODE, ExecutionMode, Experiment, Pass, Run


def find_baseline(experiment: Experiment, baseline: str | None) -> Run | None:
    """Return the run with the name or the mode ``baseline``; the default run if it is None.

    Raises:
        InputError: no run has this name or mode.
    """
    if baseline is None:
        return select_baseline(experiment.runs)
    for run in experiment.runs:
        if run.name == baseline:
            return run
    for run in experiment.runs:
        if run.mode.value == baseline:
            return run
    names = dict.fromkeys(name for run in experiment.runs for name in (run.name, run.mode.value))
    raise InputError(
        experiment.path,
        f"no run or mode {baseline!r}",
        f"one of {', '.join(names) or 'its runs (the experiment has none)'}",
    )


def find_baseline_of(run: Run, baseline_run: Run | None, experiment: Experiment) -> Run | Missing:
    """Return the run to compare ``run`` with, or why there is none."""
    if baseline_run is None:
        kind = "recorded run without graphs" if run.recording else "eager run"
        return Missing(Fact.BASELINE, f"the experiment has no {kind}; choose another baseline")
    baseline = find_partner(run, baseline_run, experiment)
    if baseline is None:
        reason = f"{baseline_run.mode.value} has no run of rank {run.manifest.rank}"
        return Missing(Fact.BASELINE, reason)
    return (
        Missing(Fact.BASELINE, "this run is the baseline")
        if baseline.name == run.name
        else baseline
    )


def find_partner(run: Run, baseline: Run, experiment: Experiment) -> Run | None:
    """Return ``baseline``, or the run of its family with the rank of ``run``; None if absent.

    Ranks may do different work.
    """
    rank = run.manifest.rank
    if rank == baseline.manifest.rank:
        return baseline
    return next(
        (
            other
            for other in experiment.runs
            if get_family(other) == get_family(baseline) and other.manifest.rank == rank
        ),
        None,
    )


def find_run_without_graphs(run: Run, experiment: Experiment) -> Run | Missing:
    """Find the run of the same rank compiled without graphs."""
    if not (run.mode.is_compiled and run.mode.captures_graphs):
        reason = f"mode {run.mode.value} does not both compile and capture graphs"
        return Missing(Fact.COMPILED_STEP, reason)
    rank = run.manifest.rank
    for other in experiment.runs:
        if other.mode is ExecutionMode.COMPILE_DEFAULT and other.manifest.rank == rank:
            return other
    reason = "the experiment has no run of mode compile-default; collect one"
    return Missing(Fact.COMPILED_STEP, reason)


def get_family(run: Run) -> str:
    """Return the key shared by the ranks of one run.

    This is the mode, the name of a recorded program, or the known job of imported traces.
    """
    if not run.mode.is_recorded:
        return run.mode.value
    if run.manifest.group is not None and run.manifest.group.job is not None:
        return run.manifest.group.job
    return run.name.removesuffix(f"-rank{run.manifest.rank}")


def is_eager_recording(run: Run) -> bool:
    """Return whether the run is a recorded program that replayed no graph."""
    recording = run.recording
    return (
        recording is not None
        and not recording.earlier_replays
        and not any(graph.replays for graph in recording.graphs)
    )


def select_baseline(runs: Sequence[Run]) -> Run | None:
    """Return the default run for comparisons; None if no run qualifies.

    The order is: the run named eager, a run of that mode, the first recorded program that neither
    replayed a graph nor was compiled, then among recordings of one program the one with the lowest
    number (if names differ only in a number) or the earliest.
    """
    candidates = (
        *(run for run in runs if run.name == BASELINE_MODE.value),
        *(run for run in runs if run.mode is BASELINE_MODE),
        *(run for run in runs if is_eager_recording(run) and run.compilation is None),
        *_sort_recordings(runs),
    )
    return next(iter(candidates), None)


def _sort_recordings(runs: Sequence[Run]) -> list[Run]:
    """Sort several recordings of one program by the number in their names, or else by time.

    Empty for different programs or a single recording.
    """
    recordings = [run for run in runs if run.recording is not None]
    programs = {run.manifest.workload.name for run in recordings}
    if len(programs) != 1 or len({get_family(run) for run in recordings}) == 1:
        return []
    stems = {run.name.rstrip(digits) for run in recordings}
    if len(stems) == 1 and not stems & {run.name for run in recordings}:
        (stem,) = stems
        return sorted(recordings, key=lambda run: int(run.name.removeprefix(stem)))
    return sorted(recordings, key=lambda run: run.manifest.recorded_or_created_at)


def has_other_program(run: Run, baseline: Run) -> bool:
    """Return whether the runs execute different programs, so that costs do not carry over.

    False if unknown, as for imported traces.
    """
    if run.manifest.sources or baseline.manifest.sources:
        return False
    return run.manifest.workload.factory != baseline.manifest.workload.factory


def has_same_mode(run: Run, baseline: Run) -> bool:
    """Return whether the runs are versions of one mode, not a program with and without graphs.

    Recordings of one experiment differ on purpose, so they are no versions.
    """
    if run.recording is not None and baseline.recording is not None:
        separate = run.path.parent != baseline.path.parent
        return separate and is_eager_recording(run) == is_eager_recording(baseline)
    return run.mode is baseline.mode and not run.mode.is_recorded


def may_be_eager(run: Run) -> bool:
    """Return whether only the trace can show that the steps ran from graphs.

    True for the baseline mode, a recorded program without replays, or an imported trace.
    """
    if run.mode.is_baseline or is_eager_recording(run):
        return True
    return run.mode.is_recorded and run.recording is None


def is_untimed(experiment: Experiment) -> bool:
    """Return whether no run of ``experiment`` was timed without a profiler."""
    return not any(
        (run.clean is not None and run.clean.steps) or (run.recording and run.recording.step_ns)
        for run in experiment.runs
    )


def is_examination(run: Run) -> bool:
    """Return whether a run holds only a doctor's report or a check of replays.

    False if a collection added the report to a failed mode, to keep the failure visible.
    """
    was_tried = any(failure.stage is Pass.CLEAN for failure in run.manifest.failures)
    has_report = run.doctor is not None or run.replay_check is not None
    return has_report and run.clean is None and not was_tried


def exclude_examinations(experiment: Experiment) -> Experiment:
    """Return ``experiment`` without examinations, unless it holds nothing else."""
    runs = tuple(run for run in experiment.runs if not is_examination(run))
    return replace(experiment, runs=runs) if runs else experiment
