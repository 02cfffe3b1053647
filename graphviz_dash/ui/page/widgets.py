"""Format analysis results as markup shared by several pages."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.comparison.verdict import Outcome
from graphviz_dash.analysis.failures import format_cause, format_failed_stage, get_failure_verb
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.guidance.gaps import Part, find_gaps
from graphviz_dash.guidance.narrative import build_gap_command, explain_missing_trace
from graphviz_dash.guidance.remedies import find_remedies
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.answer import build_answer, format_parts, format_statistic
from graphviz_dash.narrative.doctor import list_verdicts
from graphviz_dash.narrative.experiment import describe_run_differences
from graphviz_dash.narrative.headline import format_outcome, join_names
from graphviz_dash.narrative.memory_change import list_memory_changes
from graphviz_dash.narrative.prediction import (
    format_blocker,
    format_predicted_gain,
    format_predicted_times,
    format_prediction_verdict,
)
from graphviz_dash.ui.page.markup import escape_html, format_element, format_text
from graphviz_dash.units import format_ns, format_percent, format_ratio

ARROW: Final = "\N{RIGHTWARDS ARROW}"


def format_facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Format labels with values side by side."""
    return format_element(
        "div",
        "".join(
            format_element(
                "div",
                format_text("span", label) + format_text("b", value),
                **{"data-fact": label},
            )
            for label, value in pairs
        ),
        "facts",
    )


def format_tiles(cells: Iterable[tuple[str, str, str]], doubted: Container[str] = ()) -> str:
    """Format tiles of label, value and note; values of the labels ``doubted`` are struck out."""
    return format_element(
        "div",
        "".join(
            format_element(
                "div",
                format_text("span", label, "label")
                + format_text("span", value, "value doubted" if label in doubted else "value")
                + format_text("span", note, "note"),
                "tile",
            )
            for label, value, note in cells
        ),
        "tiles",
    )


def format_failures(comparison: Comparison) -> str:
    """Format failures with their code location; identical ones are merged."""
    grouped: dict[tuple[str, str, str | None, str], list[str]] = {}
    for run in comparison.runs:
        for failure in run.failures:
            note = (
                get_failure_verb(failure),
                format_failed_stage(failure),
                failure.location,
                format_cause(failure),
            )
            grouped.setdefault(note, []).append(run.name)
    return "".join(
        format_element(
            "div",
            f"<b>{escape_html(join_names(names))} {verb}</b> {escape_html(during)}"
            + (f" at <code>{escape_html(location)}</code>" if location else "")
            + f"<br>{escape_html(cause)}",
            "failed",
        )
        for (verb, during, location, cause), names in grouped.items()
    )


def format_doctor_verdicts(comparison: Comparison) -> str:
    """Format the verdict of each doctor report with findings and each check with faults."""
    return "".join(
        format_element(
            "div",
            f"<b>{escape_html(name)}</b>: {escape_html(verdict)}",
            "failed",
        )
        for name, verdict in list_verdicts(comparison)
    )


def format_incomplete_traces(runs: Iterable[Run]) -> str:
    """Format the data missing from the traces of ``runs``."""
    return "".join(
        format_element(
            "div",
            (
                f"<b>A trace of {escape_html(run.name)} is "
                f"incomplete</b><br>{escape_html(problem.text)}"
            ),
            "failed",
            role="note",
        )
        for run in runs
        for problem in run.completeness_problems
    )


def format_differences(first: Run, second: Run) -> str:
    """Format differences of two runs besides graphs; empty if there are none."""
    differs = describe_run_differences(first, second)
    return format_element("ul", format_text("li", differs), "notes", role="note") if differs else ""


_HERO: Final = {
    Outcome.WRONG_RESULT: "big doubted",
    Outcome.MODESTLY_FASTER: "big modest",
    Outcome.SLIGHTLY_FASTER: "big modest",
    Outcome.NO_SIGNIFICANT_DIFFERENCE: "big modest",
}
"""CSS classes of the large speedup; wrong results are struck out."""


def format_hero(best: RunComparison) -> str:
    """Format the outcome as one large value with its meaning."""
    speedup, saving = best.speedup, best.saving.value
    step_ns = best.step.value or 0.0
    slower = best.outcome is Outcome.SLOWER
    figure = speedup.metric.format(1 / (speedup.value or 1.0)) if slower else speedup.text
    verdict = format_outcome(best)
    times = (
        ""
        if saving is None
        else _format_step_times(
            f"{format_ns(step_ns + saving)} {ARROW} {format_ns(step_ns)}",
            format_statistic(best),
        )
    )
    return format_element(
        "div",
        format_text("span", figure, _HERO.get(best.outcome, "big"))
        + format_element(
            "span",
            format_text("b", verdict) + format_element("small", times, "mono"),
            "what",
        ),
        "hero",
    )


def _format_step_times(times: str, statistic: str = "") -> str:
    """Format step times; the unit is hidden in tables, whose heading has it."""
    return escape_html(times) + format_element("span", f" per step{statistic}", "per-step")


def format_predicted_hero(prediction: Prediction) -> str:
    """Format the predicted gain with its interval and blockers."""
    stops = [blocker for blocker in prediction.blockers if blocker.certain]
    more = f", and {len(stops) - 1} more" if len(stops) > 1 else ""
    blockers = f"Blocks capture: {format_blocker(stops[0])}{more}" if stops else ""
    blocker_markup = format_text("small", blockers) if blockers else ""
    speedup = prediction.speedup
    if isinstance(speedup, Missing):
        return format_text("p", format_prediction_verdict(prediction), "uncompared")
    summary = f"predicted with CUDA graphs: {format_predicted_gain(prediction)}"
    return format_element(
        "div",
        format_text("span", format_ratio(speedup.value), "big predicted")
        + format_element(
            "span",
            format_text("b", summary)
            + format_element(
                "small", _format_step_times(format_predicted_times(prediction)), "mono"
            )
            + blocker_markup,
            "what",
        ),
        "hero",
    )


def format_uncompared(result: Comparison, *, reading: bool) -> str:
    """Format the prediction, or the reason that nothing was compared.

    Failures have a separate note. While ``reading``, the traces may still provide the reason.
    """
    predicted = result.predicted_run
    if predicted is not None and not isinstance(predicted.graph_prediction, Missing):
        return format_predicted_hero(predicted.graph_prediction)
    if any(run.failures for run in result.runs):
        return ""
    answer = build_answer(result)
    reason = "Loading the traces…" if reading or answer is None else format_parts(answer.verdict)
    return format_text("p", reason, "uncompared")


def format_changes(result: Comparison, best: RunComparison | None, *, reading: bool = False) -> str:
    """Format the changes from the baseline to ``best``, or the baseline's values. While
    ``reading``, placeholders keep the layout."""
    base = result[result.baseline] if result.baseline else None
    if best is not None:
        base = result[best.baseline] if best.baseline else None
    elif len(result.runs) == 1:
        base = result.runs[0]
    pairs = [
        ("Launches", _format_change(base, best, "launches")),
        ("Launch CPU time", _format_change(base, best, "launch_cpu_time")),
        (
            "GPU idle",
            _format_arrow(
                _format_idle(base), _format_idle(best) if best else None, compared=best is not None
            ),
        ),
    ]
    if best is not None:
        if best.payback is not None:
            pairs.append(("Break-even after", f"{best.payback.text} replays"))
        pairs += [(item.label, item.text) for item in list_memory_changes(best)]
    if reading:
        pairs = [(label, value or "…") for label, value in pairs]
    return format_facts((label, value) for label, value in pairs if value)


def _format_change(base: RunComparison | None, best: RunComparison | None, metric: str) -> str:
    before = base[metric].text if base and base[metric].value is not None else None
    after = best[metric].text if best and best[metric].value is not None else None
    return _format_arrow(before, after, compared=best is not None)


def _format_arrow(before: str | None, after: str | None, *, compared: bool) -> str:
    """Format both sides; an unknown side is a dash."""
    if not compared or not (before or after):
        return before or after or ""
    return f"{before or '–'} {ARROW} {after or '–'}"


def _format_idle(run: RunComparison | None) -> str | None:
    if run is None or isinstance(run.time_by_category, Missing):
        return None
    breakdown = run.time_by_category
    # The traced work exceeds the clean step, so the idle time is unknown.
    return "unknown" if breakdown.idle_fraction is None else format_percent(breakdown.idle_fraction)


def format_gap(part: str, runs: Sequence[Run], title: str, lines: Iterable[str]) -> str:
    """Format the empty state of ``part`` for ``runs``: reason and remedy."""
    gap = find_gaps(runs).get(Part(part))
    remedy = None if gap is None else build_gap_command(gap)
    command = (
        "" if remedy is None else _format_paragraphs(remedy[:1]) + format_text("pre", remedy[1])
    )
    return format_element(
        "div",
        format_text("h2", title) + _format_paragraphs(lines) + command,
        "empty",
    )


def format_trace_gap(runs: Sequence[Run]) -> str:
    """Format the empty state of ``runs`` without step traces."""
    title, reasons = "No trace in this experiment", explain_missing_trace(runs)
    if any(map(find_remedies, runs)):
        # For a recorded program the reason names a suitable window.
        return format_element(
            "div", format_text("h2", title) + _format_paragraphs(reasons), "empty"
        )
    return format_gap(Part.TIMELINE, runs, title, reasons)


def _format_paragraphs(lines: Iterable[str]) -> str:
    return "".join(format_text("p", line) for line in lines)
