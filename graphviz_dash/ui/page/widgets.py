"""Pieces of markup that several pages use, made from analysis results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.comparison.verdict import Outcome
from graphviz_dash.analysis.failures import cause_text, when
from graphviz_dash.analysis.step.time_by_category import TimeByCategory
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.palette import CATEGORY
from graphviz_dash.charts.shades import Theme, shade
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import FileRole, Run
from graphviz_dash.narrative.doctor import report_verdict
from graphviz_dash.narrative.headline import names_in_common, outcome_text
from graphviz_dash.narrative.summary import signed_text
from graphviz_dash.ui.page.markup import element, text
from graphviz_dash.units import format_ns, format_percent

ARROW: Final = "\N{RIGHTWARDS ARROW}"


def time_bars(comparison: Comparison, theme: Theme) -> str:
    """A bar for each run that can be divided, on one scale, with its key; empty without any."""
    divided = [(run, run.where) for run in comparison.runs if not isinstance(run.where, Missing)]
    if not divided:
        return ""
    longest = max(max(where.step_ns, where.busy_ns) for _, where in divided)
    cells = []
    seen: set[Category] = set()
    for run, where in divided:
        seen |= {part.category for part in where.parts}
        cells.append(element("span", text(run.name), "name"))
        cells.append(_bar(run, where, longest, theme))
        star = "" if where.excess_ns is None else element("sup", "*")
        cells.append(element("span", text(format_ns(where.step_ns)) + star, "time"))
    key = "".join(
        element("span", _swatch(shade(CATEGORY[category], theme)) + text(category.value))
        for category in Category
        if category in seen
    )
    idle = element("span", '<i class="idle"></i>GPU idle')
    longer = any(where.excess_ns is not None for _, where in divided)
    note = element("span", "* GPU work takes longer than that when traced") if longer else ""
    return element("div", "".join(cells), "bars") + element("div", key + idle + note, "key")


def waiting_bars(comparison: Comparison) -> str:
    """The place of :func:`time_bars`, with what is known before the traces are read."""
    timed = [run for run in comparison.runs if run.step.value is not None and has_trace(run.run)]
    if not timed:
        return ""
    cells = [
        element("span", text(run.name), "name")
        + element("div", "", "bar")
        + element("span", text(run.step.text), "time")
        for run in timed
    ]
    key = element("span", "Reading the traces…", role="status")
    return element("div", "".join(cells), "bars") + element("div", key, "key")


def _bar(run: RunComparison, where: TimeByCategory, longest: float, theme: Theme) -> str:
    parts = [
        _piece(
            part.ns / longest,
            part.category.value,
            part.ns,
            where,
            shade(CATEGORY[part.category], theme),
        )
        for part in where.parts
    ]
    if where.idle_ns:
        width = f"width:{where.idle_ns / longest * 100:.3f}%"
        title = f"GPU idle: {format_ns(where.idle_ns)}, {format_percent(where.idle_fraction)}"
        parts.append(element("i", "", "idle", style=width, title=title))
    busy = format_percent(where.busy_ns / where.step_ns)
    label = f"{run.name}: {format_ns(where.step_ns)} per step, GPU busy {busy}"
    return element("div", "".join(parts), "bar", role="img", **{"aria-label": label})


def _piece(share: float, name: str, ns: float, where: TimeByCategory, colour: str) -> str:
    title = f"{name}: {format_ns(ns)}, {format_percent(ns / where.step_ns)} of the step"
    return element("i", "", style=f"width:{share * 100:.3f}%;background:{colour}", title=title)


def _swatch(colour: str) -> str:
    return f'<i style="background:{colour}"></i>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Labels with values, side by side."""
    return element(
        "div",
        "".join(
            element("div", element("span", text(label)) + element("b", text(value)))
            for label, value in pairs
        ),
        "facts",
    )


def tiles(cells: Iterable[tuple[str, str, str]]) -> str:
    """Figures side by side: for each its label, its value, and a note below."""
    return element(
        "div",
        "".join(
            element(
                "div",
                element("span", text(label), "label")
                + element("span", text(value), "value")
                + element("span", text(note), "note"),
                "tile",
            )
            for label, value, note in cells
        ),
        "tiles",
    )


def failure_notes(comparison: Comparison) -> str:
    """What failed, with its place in the user's code; what failed alike in several runs once."""
    alike: dict[tuple[str, str | None, str], list[str]] = {}
    for run in comparison.runs:
        for failure in run.failures:
            note = (when(failure), failure.location, cause_text(failure))
            alike.setdefault(note, []).append(run.name)
    return "".join(
        element(
            "div",
            f"<b>{text(names_in_common(names))} failed</b> {text(during)}"
            + (f" at <code>{text(location)}</code>" if location else "")
            + f"<br>{text(cause)}",
            "failed",
        )
        for (during, location, cause), names in alike.items()
    )


def doctor_notes(comparison: Comparison) -> str:
    """The verdict of each doctor's report that found something."""
    return "".join(
        element("div", f"<b>{text(name)}</b>: {text(report_verdict(report))}", "failed")
        for name, report in comparison.examinations
    )


def incomplete_notes(runs: Iterable[Run]) -> str:
    """What is missing from the traces of ``runs``, whose figures lack it."""
    return "".join(
        element(
            "div",
            f"<b>A trace of {text(run.name)} is not whole</b><br>{text(problem.text)}",
            "failed",
            role="note",
        )
        for run in runs
        for problem in run.incomplete
    )


def has_trace(run: Run) -> bool:
    """Whether the bundle of ``run`` has a traced pass, be it read or not."""
    return any(file.role is FileRole.REPLAY_TRACE for file in run.manifest.files)


def hero(best: RunComparison) -> str:
    """The outcome of ``best`` in one large figure and what it means."""
    speedup, saving = best.speedup, best.saving.value
    own = best.step.value or 0.0
    slower = best.outcome is Outcome.SLOWER
    figure = speedup.metric.format(1 / (speedup.value or 1.0)) if slower else speedup.text
    verdict = outcome_text(best)
    times = "" if saving is None else f"{format_ns(own + saving)} {ARROW} {format_ns(own)} per step"
    if times and best.run.recording:
        times += " in its own loop, recorded once"
    return element(
        "div",
        element("span", text(figure), "big" if best.replays_match else "big doubted")
        + element(
            "span", element("b", text(verdict)) + element("small", text(times), "mono"), "what"
        ),
        "hero",
    )


def why(result: Comparison, best: RunComparison | None, *, reading: bool = False) -> str:
    """What changed from the baseline to ``best``, and what it cost; only the baseline's figures
    where nothing was compared. While traces are read, what they tell keeps its place."""
    base = result[result.baseline] if result.baseline else None
    if best is not None:
        base = result[best.baseline] if best.baseline else None
    elif len(result.runs) == 1:
        base = result.runs[0]
    pairs = [
        ("Launches", _change(base, best, "launches")),
        ("Launch CPU time", _change(base, best, "launch_cpu_time")),
        ("GPU idle", _arrow(_idle(base), _idle(best) if best else None)),
    ]
    if best is not None:
        replays, memory = best["break_even"], best["peak_reserved_change"]
        if replays.value is not None:
            pairs.append(("Break-even after", f"{replays.text} replays"))
        if memory.value is not None:
            pairs.append(("Peak memory", signed_text(memory)))
    if reading:
        pairs = [(label, value or "…") for label, value in pairs]
    return facts((label, value) for label, value in pairs if value)


def _change(base: RunComparison | None, best: RunComparison | None, metric: str) -> str:
    before = base[metric].text if base and base[metric].value is not None else None
    after = best[metric].text if best and best[metric].value is not None else None
    return _arrow(before, after)


def _arrow(before: str | None, after: str | None) -> str:
    return f" {ARROW} ".join(part for part in (before, after) if part)


def _idle(run: RunComparison | None) -> str | None:
    if run is None or isinstance(run.where, Missing):
        return None
    where = run.where
    # The traced work fills the clean step and more: no idle time is left that could be told.
    return "none" if where.idle_fraction is None else format_percent(where.idle_fraction)
