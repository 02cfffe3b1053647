"""Write baselines, and gate results as Markdown for a pull request."""

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
"""Maximum number of characters shown of a name or message from a file."""

_MARKS: Final = {
    Verdict.WORSE: "❌ worse",
    Verdict.UNSURE: "⚠️ inconclusive",
    Verdict.WITHIN: "within the limit",
    Verdict.BETTER: "better",
}


def write_baseline(baseline: Baseline, file: Path) -> None:
    """Write ``baseline`` as JSON, replacing an existing file.


    Raises:
        InputError: no file can be written there.
    """
    if file.suffix == ".gz":
        raise InputError(file, "a name of a compressed file", "a name such as baseline.json")
    with replacing(file) as target:
        target.write(msgspec.json.encode(baseline) + b"\n")


def write_summary(result: GateResult, file: Path) -> None:
    """Write :func:`summary`, replacing an existing file.

    Raises:
        InputError: no file can be written there.
    """
    with replacing(file) as target:
        target.write(summary(result).encode())


def summary(result: GateResult) -> str:
    """Format the result as Markdown for GitHub and GitLab.

    Names and messages come from files, so they are code spans: no markup, links or mentions.
    """
    parts = [f"### {'✅' if result.passed else '❌'} CUDA graph gate: {verdict_text(result)}", ""]
    parts += [f"{code(result.experiment)} compared with {_against(result)}.", ""]
    for broken in result.broken:
        parts.append(f"- ❌ {code(broken.run)}: {code(broken.text)}")
    if result.broken:
        parts.append("")
    parts += _table(result)
    if result.unsure:
        parts += [
            "⚠️ inconclusive: too noisy to exclude a regression of more than "
            f"{limit_text(result.limit)}. Use more iterations or a quieter machine.",
            "",
        ]
    if result.host is not None:
        parts += [result.host, ""]
    if result.differences:
        parts += ["Differences from the baseline:", ""]
        parts += [f"- {code(text)}" for text in result.differences]
        parts.append("")
    if result.notes:
        parts += ["Not gated:", ""]
        parts += [f"- {code(text)}" for text in result.notes]
        parts.append("")
    return "\n".join(parts)


def verdict_text(result: GateResult) -> str:
    """Summarize the outcome in a few words."""
    limit = limit_text(result.limit)
    metrics = counted(len(result.figures), "metric")
    if result.passed:
        if not result.figures:
            return "passed, but there was no metric to compare"
        inconclusive = (
            f" ({format_count(len(result.unsure))} inconclusive)" if result.unsure else ""
        )
        return f"passed, no significant regression above {limit} in {metrics}{inconclusive}"
    failures = []
    if result.worse:
        failures.append(
            f"{format_count(len(result.worse))} of {metrics} regressed by more than {limit}"
        )
    if result.broken:
        failures.append(f"{format_count(len(result.broken))} failed or missing")
    return f"failed, {' and '.join(failures)}"


def change_text(figure: GatedFigure) -> str:
    """Format the change with its sign; an en dash if the baseline is 0."""
    return "–" if figure.change is None else _percent(figure.change)


def interval_text(figure: GatedFigure) -> str:
    """Format the 99% interval of the change, or "exact"."""
    if figure.low is None or figure.high is None:
        return "exact"
    return f"{_percent(figure.low)} to {_percent(figure.high)}"


def in_order(figures: Iterable[GatedFigure]) -> list[GatedFigure]:
    """Sort by verdict: regressions first, then inconclusive metrics."""
    return sorted(figures, key=lambda metric: list(Verdict).index(metric.verdict))


def code(text: object, *, cell: bool = False) -> str:
    """Format any text as a Markdown code span; ``cell`` escapes bars for use in a table."""
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
    yield "| run | metric | baseline | current | change | 99% interval | |"
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
    suffix = f", the worst of {count} recordings" if count > 1 else ""
    return f"the baseline {code(result.baseline)}{suffix}; limit: {limit_text(result.limit)} worse"


def _percent(change: float) -> str:
    text = f"{significant(abs(change) * 100, 2)}%"
    return text if not change else f"{'+' if change > 0 else '−'}{text}"
