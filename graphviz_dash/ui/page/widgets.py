"""Pieces of markup that several pages use, made from analysis results."""

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
    """Labels with values, side by side."""
    return element(
        "div",
        "".join(
            element("div", element("span", text(label)) + element("b", text(value)))
            for label, value in pairs
        ),
        "facts",
    )


def tiles(cells: Iterable[tuple[str, str, str]], doubted: Container[str] = ()) -> str:
    """Figures side by side: for each its label, its value, and a note below; values of the labels
    ``doubted`` are struck out."""
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


def difference_note(first: Run, second: Run) -> str:
    """In what two runs of any experiments differ besides graphs; nothing where that is nothing."""
    differs = difference_text(first, second)
    return element("ul", element("li", text(differs)), "notes", role="note") if differs else ""


_HERO: Final = {
    Outcome.WRONG_RESULT: "big doubted",
    Outcome.MODESTLY_FASTER: "big modest",
    Outcome.SLIGHTLY_FASTER: "big modest",
    Outcome.NO_SIGNIFICANT_DIFFERENCE: "big modest",
}
"""How large a speedup is written: one that is wrong is struck out."""


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
        element("span", text(figure), _HERO.get(best.outcome, "big"))
        + element(
            "span", element("b", text(verdict)) + element("small", text(times), "mono"), "what"
        ),
        "hero",
    )


def predicted_hero(prediction: Prediction) -> str:
    """What one graph of an eager step is predicted to gain, in one large figure, its interval, and
    what stops a capture."""
    stops = [blocker for blocker in prediction.blockers if blocker.certain]
    more = f", and {len(stops) - 1} more" if len(stops) > 1 else ""
    found = f"What stops a capture: {blocker_text(stops[0])}{more}" if stops else ""
    stopping = element("small", text(found)) if found else ""
    speedup = prediction.speedup
    if isinstance(speedup, Missing):
        return element("p", text(prediction_verdict(prediction)), "uncompared")
    what = f"predicted as one graph: {predicted_gain(prediction)}"
    return element(
        "div",
        element("span", text(format_ratio(speedup.value)), "big predicted")
        + element(
            "span",
            element("b", text(what))
            + element("small", text(f"{predicted_times(prediction)} per step"), "mono")
            + stopping,
            "what",
        ),
        "hero",
    )


def uncompared(result: Comparison, *, reading: bool) -> str:
    """What is predicted where nothing was compared, or why nothing is, which may hang on the
    traces; what failed has its own note."""
    predicted = result.predicted
    if predicted is not None and not isinstance(predicted.outlook, Missing):
        return predicted_hero(predicted.outlook)
    if any(run.failures for run in result.runs):
        return ""
    reason = "Reading the traces…" if reading else answer_text(answer(result))
    return element("p", text(reason), "uncompared")


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
    """Both sides; a dash for one of them that is unknown, so that the other is not taken for it."""
    if not compared or not (before or after):
        return before or after or ""
    return f"{before or '–'} {ARROW} {after or '–'}"


def _idle(run: RunComparison | None) -> str | None:
    if run is None or isinstance(run.where, Missing):
        return None
    where = run.where
    # The traced work fills the clean step and more: how long the GPU is idle in it is not known.
    return "not known" if where.idle_fraction is None else format_percent(where.idle_fraction)
