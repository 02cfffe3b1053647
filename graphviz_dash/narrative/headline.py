"""The outcome of a comparison in words, built from its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from graphviz_dash.analysis.comparison.result import fastest
from graphviz_dash.analysis.failures import failure_text, when
from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.analysis.metrics.run_selection import family
from graphviz_dash.errors import printable
from graphviz_dash.model.run import Pass
from graphviz_dash.narrative.numbers import same_unit
from graphviz_dash.units import (
    counted,
    format_bytes,
    format_ns,
    format_ratio,
)

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import RunComparison
    from graphviz_dash.model.run import Run

_CLEAN = ("step_time", "speedup", "step_saving")
_RECORDED = ("recorded_step", "recorded_speedup", "recorded_saving")


def sentence(
    run: Run, against: Run | None, figures: Mapping[str, Figure], *, sound: bool = True
) -> str:
    """What became of ``run``, compared with its baseline if it has one; printable. ``sound`` is
    False where a doctor found that replays do other work than the step."""
    name = printable(run.name)
    names = _RECORDED if run.recording else _CLEAN
    step, speedup, saving = figures[names[0]], figures[names[1]], figures[names[2]].value
    own = step.value
    failures = run.manifest.failures
    if own is None:
        if failures:
            return failure_text(name, failures[0])
        return f"{name} has no step time: {step.reason}"
    if against is None or speedup.value is None or saving is None:
        where = " in its own loop" if run.recording else ""
        parts = [f"{name} takes {format_ns(own)} per step{where}"]
    else:
        verdict = _verdict(name, printable(against.name), own, own + saving, speedup)
        parts = [f"{verdict} in the program's loop" if run.recording else verdict]
        parts += _costs(figures)
        if not sound:
            parts.append("but replays do other work than the step")
    parts += [
        f"it failed {when(failure)}"
        if failure.during is Pass.RECORDED
        else f"its {failure.during.value} pass failed"
        for failure in failures
    ]
    return "; ".join(parts)


def headline(runs: Sequence[RunComparison]) -> str:
    """The sentence of the fastest run that has a baseline; else of the first that failed; else of
    the baseline. Of several ranks it is the slowest one's, and says so."""
    best = fastest(runs)
    if best is not None:
        alike = [run for run in runs if family(run.run) == family(best.run)]
        ranks = sum(run.run.manifest.rank is not None for run in alike)
        return f"{best.sentence}; the slowest of {ranks} ranks" if ranks > 1 else best.sentence
    failed = [run for run in runs if run.failures]
    if failed:
        return failed[0].sentence
    return runs[0].sentence if runs else "no runs"


def alike_text(names: Sequence[str]) -> str:
    """The names of runs that failed alike, as the subject of a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names)} each"


def _verdict(name: str, baseline: str, own: float, before: float, speedup: Figure) -> str:
    ratio, spread = speedup.value or 0.0, speedup.spread
    own_text, before_text = same_unit(own, before)
    times = f"{own_text} against {before_text} per step"
    if spread is not None and spread.high is not None and spread.low <= 1 <= spread.high:
        return (
            f"{name} and {baseline} cannot be told apart: {times} "
            f"({format_ratio(ratio)}, 95% interval {format_ratio(spread.low)} to "
            f"{format_ratio(spread.high)})"
        )
    if ratio >= 1:
        return f"{name} is {format_ratio(ratio)} faster than {baseline}: {times}"
    return f"{name} is {format_ratio(1 / ratio)} slower than {baseline}: {times}"


def _costs(figures: Mapping[str, Figure]) -> list[str]:
    parts = []
    replays = figures["break_even"].value
    if replays is not None:
        parts.append(f"paid back after {counted(round(replays), 'replay')}")
    elif figures["one_off_cost"].value is not None:
        parts.append("never paid back")
    change = figures["peak_reserved_change"].value
    if change is not None:
        sign = "+" if change > 0 else "-" if change < 0 else ""
        parts.append(f"peak memory {sign}{format_bytes(abs(change))}")
    return parts
