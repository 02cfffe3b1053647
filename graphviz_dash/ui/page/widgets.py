"""Format analysis results as markup shared by several pages."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.comparison.verdict import Outcome
from graphviz_dash.analysis.failures import cause_text, when
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.answer import answer, answer_text
from graphviz_dash.narrative.doctor import report_verdict
from graphviz_dash.narrative.experiment import difference_text
from graphviz_dash.narrative.headline import names_in_common, outcome_text
from graphviz_dash.narrative.prediction import (
    blocker_text,
    predicted_gain,
    predicted_times,
    prediction_verdict,
)
from graphviz_dash.narrative.summary import signed_text
from graphviz_dash.ui.page.markup import element, text
from graphviz_dash.units import format_ns, format_percent, format_ratio

ARROW: Final = "\N{RIGHTWARDS ARROW}"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Format labels with values side by side."""
    return element(
        "div",
        "".join(
            element("div", element("span", text(label)) + element("b", text(value)))
            for label, value in pairs
        ),
        "facts",
    )


def tiles(cells: Iterable[tuple[str, str, str]], doubted: Container[str] = ()) -> str:
    """Format tiles of label, value and note; values of the labels ``doubted`` are struck out."""
    return element(
        "div",
        "".join(
            element(
                "div",
                element("span", text(label), "label")
                + element("span", text(value), "value doubted" if label in doubted else "value")
                + element("span", text(note), "note"),
                "tile",
            )
            for label, value, note in cells
        ),
        "tiles",
    )


def failure_notes(comparison: Comparison) -> str:
    """Format failures with their code location; identical failures of several runs are merged."""
    grouped: dict[tuple[str, str | None, str], list[str]] = {}
    for run in comparison.runs:
        for failure in run.failures:
            note = (when(failure), failure.location, cause_text(failure))
            grouped.setdefault(note, []).append(run.name)
    return "".join(
        element(
            "div",
            f"<b>{text(names_in_common(names))} failed</b> {text(during)}"
            + (f" at <code>{text(location)}</code>" if location else "")
            + f"<br>{text(cause)}",
            "failed",
        )
        for (during, location, cause), names in grouped.items()
    )


def doctor_notes(comparison: Comparison) -> str:
    """Format the verdict of each doctor report with findings."""
    return "".join(
        element("div", f"<b>{text(name)}</b>: {text(report_verdict(report))}", "failed")
        for name, report in comparison.examinations
    )


def incomplete_notes(runs: Iterable[Run]) -> str:
    """Format the data missing from the traces of ``runs``."""
    return "".join(
        element(
            "div",
            f"<b>A trace of {text(run.name)} is incomplete</b><br>{text(problem.text)}",
            "failed",
            role="note",
        )
        for run in runs
        for problem in run.incomplete
    )


def difference_note(first: Run, second: Run) -> str:
    """Format differences of two runs besides graphs; empty if there are none."""
    differs = difference_text(first, second)
    return element("ul", element("li", text(differs)), "notes", role="note") if differs else ""


_HERO: Final = {
    Outcome.WRONG_RESULT: "big doubted",
    Outcome.MODESTLY_FASTER: "big modest",
    Outcome.SLIGHTLY_FASTER: "big modest",
    Outcome.NO_SIGNIFICANT_DIFFERENCE: "big modest",
}
"""CSS classes of the large speedup; wrong results are struck out."""


def hero(best: RunComparison) -> str:
    """Format the outcome of ``best`` as one large value with its meaning."""
    speedup, saving = best.speedup, best.saving.value
    step_ns = best.step.value or 0.0
    slower = best.outcome is Outcome.SLOWER
    figure = speedup.metric.format(1 / (speedup.value or 1.0)) if slower else speedup.text
    verdict = outcome_text(best)
    times = (
        ""
        if saving is None
        else f"{format_ns(step_ns + saving)} {ARROW} {format_ns(step_ns)} per step"
    )
    if times and best.run.recording:
        times += ", as recorded"
    return element(
        "div",
        element("span", text(figure), _HERO.get(best.outcome, "big"))
        + element(
            "span", element("b", text(verdict)) + element("small", text(times), "mono"), "what"
        ),
        "hero",
    )


def predicted_hero(prediction: Prediction) -> str:
    """Format the predicted gain as one large value with its interval and blockers."""
    stops = [blocker for blocker in prediction.blockers if blocker.certain]
    more = f", and {len(stops) - 1} more" if len(stops) > 1 else ""
    blockers = f"Blocks capture: {blocker_text(stops[0])}{more}" if stops else ""
    blocker_markup = element("small", text(blockers)) if blockers else ""
    speedup = prediction.speedup
    if isinstance(speedup, Missing):
        return element("p", text(prediction_verdict(prediction)), "uncompared")
    summary = f"predicted with CUDA graphs: {predicted_gain(prediction)}"
    return element(
        "div",
        element("span", text(format_ratio(speedup.value)), "big predicted")
        + element(
            "span",
            element("b", text(summary))
            + element("small", text(f"{predicted_times(prediction)} per step"), "mono")
            + blocker_markup,
            "what",
        ),
        "hero",
    )


def uncompared(result: Comparison, *, reading: bool) -> str:
    """Format the prediction, or the reason that nothing was compared.

    Failures have a separate note. While ``reading``, the traces may still provide the reason.
    """
    predicted = result.predicted
    if predicted is not None and not isinstance(predicted.outlook, Missing):
        return predicted_hero(predicted.outlook)
    if any(run.failures for run in result.runs):
        return ""
    reason = "Loading the traces…" if reading else answer_text(answer(result))
    return element("p", text(reason), "uncompared")


def why(result: Comparison, best: RunComparison | None, *, reading: bool = False) -> str:
    """Format the changes from the baseline to ``best`` and their cost.

    Without a comparison only the baseline's values. While ``reading``, placeholders keep the
    layout.
    """
    base = result[result.baseline] if result.baseline else None
    if best is not None:
        base = result[best.baseline] if best.baseline else None
    elif len(result.runs) == 1:
        base = result.runs[0]
    pairs = [
        ("Launches", _change(base, best, "launches")),
        ("Launch CPU time", _change(base, best, "launch_cpu_time")),
        ("GPU idle", _arrow(_idle(base), _idle(best) if best else None, compared=best is not None)),
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
    return _arrow(before, after, compared=best is not None)


def _arrow(before: str | None, after: str | None, *, compared: bool) -> str:
    """Format both sides; an unknown side is a dash."""
    if not compared or not (before or after):
        return before or after or ""
    return f"{before or '–'} {ARROW} {after or '–'}"


def _idle(run: RunComparison | None) -> str | None:
    if run is None or isinstance(run.where, Missing):
        return None
    where = run.where
    # The traced work exceeds the clean step, so the idle time is unknown.
    return "unknown" if where.idle_fraction is None else format_percent(where.idle_fraction)
