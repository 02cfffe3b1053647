"""A baseline as a file, and a gate's result as Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.errors import InputError, printable
from graphviz_dash.exports.files import replacing
from graphviz_dash.features.gate.gate import GateResult, limit_text
from graphviz_dash.features.gate.gated import GatedFigure, Verdict
from graphviz_dash.model.baseline import Baseline
from graphviz_dash.units import counted, format_count, significant

_LONGEST: Final = 300
"""Characters of a name or message from a file that are shown."""

_MARKS: Final = {
    Verdict.WORSE: "❌ worse",
    Verdict.UNSURE: "⚠️ unsure",
    Verdict.WITHIN: "within the limit",
    Verdict.BETTER: "better",
}


def write_baseline(baseline: Baseline, file: Path) -> None:
    """Writes ``baseline`` as JSON, in place of what is there.

    Raises:
        InputError: no file can be written there.
    """
    if file.suffix == ".gz":
        raise InputError(file, "a name of a compressed file", "a name such as baseline.json")
    with replacing(file) as target:
        target.write(msgspec.json.encode(baseline) + b"\n")


def write_summary(result: GateResult, file: Path) -> None:
    """Writes :func:`summary` in place of what is there; InputError where no file can be."""
    with replacing(file) as target:
        target.write(summary(result).encode())


def summary(result: GateResult) -> str:
    """The result in Markdown, as GitHub and GitLab read it. Names and messages come from files and
    stand in code spans, where nothing is markup, a link or a mention."""
    parts = [f"### {'✅' if result.passed else '❌'} CUDA graph gate: {verdict_text(result)}", ""]
    parts += [f"{code(result.experiment)} against {_against(result)}.", ""]
    for broken in result.broken:
        parts.append(f"- ❌ {code(broken.run)}: {code(broken.text)}")
    if result.broken:
        parts.append("")
    parts += _table(result)
    if result.unsure:
        parts += [
            f"⚠️ unsure: too noisy to exclude more than {limit_text(result.limit)}. More "
            "iterations, or a quieter machine, would decide it.",
            "",
        ]
    if result.host is not None:
        parts += [result.host, ""]
    if result.differences:
        parts += ["Not the same as in the baseline:", ""]
        parts += [f"- {code(text)}" for text in result.differences]
        parts.append("")
    if result.notes:
        parts += ["Not gated:", ""]
        parts += [f"- {code(text)}" for text in result.notes]
        parts.append("")
    return "\n".join(parts)


def verdict_text(result: GateResult) -> str:
    """The outcome in a few words."""
    limit = limit_text(result.limit)
    figures = counted(len(result.figures), "figure")
    if result.passed:
        if not result.figures:
            return "passed, but there was no figure to compare"
        unsure = f" ({format_count(len(result.unsure))} too noisy to tell)" if result.unsure else ""
        return f"passed, none of {figures} is surely more than {limit} worse{unsure}"
    said = []
    if result.worse:
        said.append(f"{format_count(len(result.worse))} of {figures} more than {limit} worse")
    if result.broken:
        said.append(f"{format_count(len(result.broken))} failed or missing")
    return f"failed, {' and '.join(said)}"


def change_text(figure: GatedFigure) -> str:
    """The change with its sign; an en dash where the baseline is 0."""
    return "–" if figure.change is None else _percent(figure.change)


def interval_text(figure: GatedFigure) -> str:
    """The 99% interval of the change, or that the figure is exact."""
    if figure.low is None or figure.high is None:
        return "exact"
    return f"{_percent(figure.low)} to {_percent(figure.high)}"


def in_order(figures: Iterable[GatedFigure]) -> list[GatedFigure]:
    """Figures that offend first, then the unsure, then the others; else as they were."""
    return sorted(figures, key=lambda one: list(Verdict).index(one.verdict))


def code(text: object, *, cell: bool = False) -> str:
    """Any text as a Markdown code span that shows it as it is; ``cell`` inside a table, where a
    bar ends the cell even in code."""
    shown = printable(str(text)).strip() or "(empty)"
    if len(shown) > _LONGEST:
        shown = f"{shown[: _LONGEST - 1]}…"
    # A fence one longer than the longest run of backticks inside.
    runs = re.findall(r"`+", shown)
    fence = "`" * (max(map(len, runs), default=0) + 1)
    pad = " " if runs else ""
    return f"{fence}{pad}{shown}{pad}{fence}".replace("|", r"\|" if cell else "|")


def _table(result: GateResult) -> Iterator[str]:
    if not result.figures:
        return
    yield "| run | figure | baseline | now | change | 99% interval | |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | --- |"
    for figure in in_order(result.figures):
        cells = (
            code(figure.run, cell=True),
            figure.title if figure.key is None else code(figure.title, cell=True),
            figure.metric.format(figure.before),
            figure.metric.format(figure.now),
            change_text(figure),
            interval_text(figure),
            _MARKS[figure.verdict],
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _against(result: GateResult) -> str:
    count = result.recordings
    of = f", the worst of {count} recordings" if count > 1 else ""
    return f"the baseline {code(result.baseline)}{of}; at most {limit_text(result.limit)} worse"


def _percent(change: float) -> str:
    text = f"{significant(abs(change) * 100, 2)}%"
    return text if not change else f"{'+' if change > 0 else '−'}{text}"
