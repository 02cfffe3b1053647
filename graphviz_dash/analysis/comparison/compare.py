"""The comparison of an experiment's runs: every figure with its spread, its pass, or the reason why
it is absent. Pages, command line and exports all take this one result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from graphviz_dash import progress
from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.comparison.break_even import break_even
from graphviz_dash.analysis.comparison.recorded_metrics import (
    recorded_figures,
    recorded_relative,
    recorded_weaknesses,
)
from graphviz_dash.analysis.comparison.relative_metrics import EQUATION, relative_figures
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.doctor import diagnose, replays_differ
from graphviz_dash.analysis.memory.report import memory_pass_figures
from graphviz_dash.analysis.metrics.graph_coverage import Coverage, coverage
from graphviz_dash.analysis.metrics.low_confidence import communication_share, weaknesses
from graphviz_dash.analysis.metrics.measured import measured
from graphviz_dash.analysis.metrics.registry import METRICS, MUCH_COMMUNICATION
from graphviz_dash.analysis.metrics.run_metrics import (
    Figure,
    absent,
    coverage_figures,
    graph_figures,
    life_figures,
    memory_figures,
    one_off_cost,
    present,
    step_figures,
    traced_figures,
)
from graphviz_dash.analysis.metrics.run_selection import family, partner, ran_eagerly
from graphviz_dash.analysis.metrics.throughput import throughput_figures
from graphviz_dash.analysis.prediction.evaluation import prediction_figures, prediction_for
from graphviz_dash.analysis.ranks.ranks import families
from graphviz_dash.analysis.ranks.waits import rank_waits
from graphviz_dash.analysis.step.time_by_category import TimeByCategory, time_by_category
from graphviz_dash.analysis.step.typical_step import TypicalStep, typical_step
from graphviz_dash.analysis.step.waterfall import Cause, Waterfall, collective_arrivals, waterfall
from graphviz_dash.analysis.trace.steps import Step, steps
from graphviz_dash.errors import InputError
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import BASELINE_MODE
from graphviz_dash.narrative.answer import answer
from graphviz_dash.narrative.headline import headline, sentence
from graphviz_dash.units import format_percent

if TYPE_CHECKING:
    from graphviz_dash.analysis.replays.replays import ReplayMatch
    from graphviz_dash.model.run import Experiment, Run


def compare(
    experiment: Experiment,
    baseline: str | None = None,
    replays: Mapping[str, ReplayMatch | None] = MappingProxyType({}),
    taken: Mapping[str, tuple[Step, ...]] = MappingProxyType({}),
) -> Comparison:
    """Compares the runs of ``experiment``; ``baseline`` is a run's name or a mode (default: eager;
    of recorded programs the first that replayed no graph). ``replays`` are the matched replays and
    ``taken`` the traced steps of runs by name, where they are known already.

    With several ranks each run is compared with the baseline's run of its own rank. A run that is
    nothing but a doctor's examination is left out, unless there is no other.

    Raises:
        InputError: no run has the name or the mode ``baseline``.
    """
    examined = [(run.name, run.doctor) for run in experiment.runs if run.doctor]
    sound = not any(replays_differ(report) for _, report in examined)
    verdicts = tuple(
        (name, diagnose(report).verdict) for name, report in examined if report.findings
    )
    experiment = measured(experiment)
    chosen = _choose(experiment, baseline)
    waits = rank_waits(experiment) if chosen else {}
    taken = {run.name: taken.get(run.name) or _steps(run) for run in experiment.runs}
    works: dict[str, TypicalStep | Missing] = {}
    count = len(experiment.runs)
    for place, run in enumerate(experiment.runs if chosen else ()):
        with progress.subtask(place, 2 * count):
            works[run.name] = typical_step(
                run, waits.get(run.name), replays.get(run.name), taken[run.name]
            )
    last = {
        name: collective_arrivals([(run, works[run.name]) for run in ranks])
        for name, ranks in (families(experiment).items() if chosen else ())
    }
    runs = []
    for place, run in enumerate(experiment.runs):
        with progress.subtask(count + place, 2 * count):
            found = _compare_run(run, chosen, experiment, _Works(works, last, taken), sound)
            runs.append(found)
    base = chosen.name if chosen else None
    return Comparison(experiment, base, tuple(runs), headline(runs), verdicts)


@dataclass(frozen=True)
class _Works:
    """The typical steps of runs by name, or why they have none; by mode when the last of its ranks
    arrives at each of their collectives, None where that is not known; and all steps of runs."""

    steps: Mapping[str, TypicalStep | Missing]
    last: Mapping[str, dict[int, int] | None]
    taken: Mapping[str, tuple[Step, ...]]


def _steps(run: Run) -> tuple[Step, ...]:
    return steps(run.replay_trace) if run.replay_trace is not None else ()


def _choose(experiment: Experiment, baseline: str | None) -> Run | None:
    wanted = baseline or BASELINE_MODE.value
    for run in experiment.runs:
        if run.name == wanted:
            return run
    for run in experiment.runs:
        if run.mode.value == wanted:
            return run
    if baseline is None:
        return next(filter(ran_eagerly, experiment.runs), None)
    names = dict.fromkeys(name for run in experiment.runs for name in (run.name, run.mode.value))
    raise InputError(
        experiment.path,
        f"no run or mode {baseline!r}",
        f"a baseline out of {', '.join(names) or 'its runs, of which there are none'}",
    )


def _against(run: Run, chosen: Run | None, experiment: Experiment) -> Run | Missing:
    """The run that ``run`` is compared with, or why there is none."""
    if chosen is None:
        kind = "recorded run without graphs" if run.recording else "eager run"
        return Missing(Fact.BASELINE, f"the experiment has no {kind}; name another baseline")
    found = partner(run, chosen, experiment)
    if found is None:
        reason = f"{chosen.mode.value} has no run of rank {run.manifest.rank}"
        return Missing(Fact.BASELINE, reason)
    return Missing(Fact.BASELINE, "it is the baseline") if found.name == run.name else found


def _compare_run(
    run: Run, chosen: Run | None, experiment: Experiment, works: _Works, sound: bool
) -> RunComparison:
    taken = works.taken[run.name]
    covered = _coverage(run, taken)
    against = _against(run, chosen, experiment)
    base = None if isinstance(against, Missing) else against
    sound = sound or not (_as_one_graph(run) or (base is not None and _as_one_graph(base)))
    figures = {
        figure.metric.id: figure
        for figure in (
            *step_figures(run),
            *life_figures(run),
            *memory_figures(run),
            *memory_pass_figures(run),
            *traced_figures(run, taken),
            *coverage_figures(run, covered),
            *graph_figures(run),
            *recorded_figures(run),
            *recorded_relative(run, against),
        )
    }
    figures |= {figure.metric.id: figure for figure in _joined(run, figures, taken)}
    figures |= {
        figure.metric.id: figure for figure in throughput_figures(run, figures["step_interval"])
    }
    figures |= {
        figure.metric.id: figure
        for figure in relative_figures(run, against, figures["one_off_cost"])
    }
    equation = _equation(run, against, works)
    figures |= {figure.metric.id: figure for figure in _equation_figures(run, equation)}
    foretold = prediction_for(run, against, works.taken)
    figures |= {
        figure.metric.id: figure for figure in prediction_figures(foretold, figures["step_time"])
    }
    where, where_reason = _where(run, figures, taken)
    pays = against.reason if isinstance(against, Missing) else break_even(run, against, figures)
    return RunComparison(
        run=run,
        baseline=base.name if base else None,
        is_baseline=chosen is not None and base is None and family(run) == family(chosen),
        figures=tuple(figures[metric] for metric in METRICS),
        where=where,
        where_reason=where_reason,
        coverage=None if isinstance(covered, str) else covered,
        coverage_reason=covered if isinstance(covered, str) else None,
        weaknesses=(*weaknesses(run, base, figures, taken), *recorded_weaknesses(run)),
        sentence=sentence(run, base, figures, sound=sound),
        waterfall=None if isinstance(equation, Missing) else equation,
        waterfall_reason=equation.reason if isinstance(equation, Missing) else None,
        answer=answer(run, base, figures, sound=sound),
        pays=None if isinstance(pays, str) else pays,
        pays_reason=pays if isinstance(pays, str) else None,
        prediction=None if isinstance(foretold, Missing) else foretold,
        prediction_reason=foretold.reason if isinstance(foretold, Missing) else None,
        sound=sound,
    )


def _as_one_graph(run: Run) -> bool:
    """Whether its replays are what a doctor examined: those of the whole step. Graphed callables,
    layers and compiled regions are given their inputs anew, and the rest of the step stays eager.
    """
    mode = run.mode
    return not (mode.is_baseline or mode.captures_parts or ran_eagerly(run))


def _joined(run: Run, figures: Mapping[str, Figure], taken: tuple[Step, ...]) -> Iterator[Figure]:
    """The figures made of others of the same run."""
    step = figures["step_time"]
    share = communication_share(run, taken)
    for metric, part in (("observer_effect", "traced_step_time"), ("busy_of_clean", "gpu_busy")):
        figure = figures[part]
        if part == "gpu_busy" and share > MUCH_COMMUNICATION:
            yield absent(
                metric,
                f"{format_percent(share)} of the traced GPU busy time is communication, which "
                "waits for other ranks, and not as long without the profiler",
            )
        elif figure.value is None or not step.value:
            yield absent(metric, figure.reason or step.reason or "its step time is 0")
        else:
            yield present(metric, figure.value / step.value)
    if run.clean is None or not run.clean.graphs:
        yield absent("one_off_cost", why_missing(run, Fact.GRAPH_COSTS).reason)
    elif step.value is None:
        yield absent("one_off_cost", step.reason or "")
    else:
        cost = one_off_cost(run.mode, run.clean, step.value)
        if isinstance(cost, str):
            yield absent("one_off_cost", cost)
        else:
            yield present("one_off_cost", cost)


def _coverage(run: Run, taken: tuple[Step, ...]) -> Coverage | str:
    if run.mode.is_baseline:
        return why_missing(run, Fact.GRAPHS).reason
    if run.replay_trace is None:
        return why_missing(run, Fact.TRACED_PASS).reason
    return coverage(run.replay_trace, taken)


def _equation(run: Run, against: Run | Missing, works: _Works) -> Waterfall | Missing:
    if isinstance(against, Missing):
        return against
    known = [work.return_ns for work in works.steps.values() if not isinstance(work, Missing)]
    return waterfall(
        run,
        against,
        works.steps[run.name],
        works.steps[against.name],
        return_ns=min(known, default=0),
        last=(works.last.get(family(against)), works.last.get(family(run))),
    )


def _equation_figures(run: Run, equation: Waterfall | Missing) -> Iterator[Figure]:
    metrics = zip(EQUATION, Cause, strict=True)
    parts = {} if isinstance(equation, Missing) else dict(equation.saved.items())
    for metric, cause in metrics:
        if isinstance(equation, Missing):
            yield absent(metric, equation.reason)
        elif cause is Cause.RANKS and run.manifest.rank is None:
            yield absent(metric, "it was collected by one process, which has no other to wait for")
        else:
            yield present(metric, parts[cause])


def _where(
    run: Run, figures: Mapping[str, Figure], taken: tuple[Step, ...]
) -> tuple[TimeByCategory | None, str | None]:
    step, busy = figures["recorded_step" if run.recording else "step_time"], figures["gpu_busy"]
    if step.value is None or busy.value is None or run.replay_trace is None:
        return None, step.reason or busy.reason
    return time_by_category(step.value, run.replay_trace, taken), None
