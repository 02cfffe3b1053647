"""Write baselines, and gate results as Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.exports.files import replace_file
from graphviz_dash.features.gate.gate import GateResult, format_limit
from graphviz_dash.features.gate.gated import MetricChange, Verdict
from graphviz_dash.model.baseline import Baseline
from graphviz_dash.units import format_count, pluralize, round_significant

_MAX_CHARS: Final = 300
"""Characters shown of a name or message from a file."""

_SIGNS: Final = {Verdict.WORSE: "❌ ", Verdict.INCONCLUSIVE: "⚠️ "}


def write_baseline(baseline: Baseline, file: Path) -> None:
    """Write JSON, replacing an existing file.

    Raises:
        InputError: no file can be written there.
    """
    if file.suffix == ".gz":
        raise InputError(file, "a name of a compressed file", "a name such as baseline.json")
    with replace_file(file) as target:
        target.write(msgspec.json.encode(baseline) + b"\n")


def write_summary(result: GateResult, file: Path) -> None:
    """Write :func:`format_summary`, replacing an existing file.

    Raises:
        InputError: no file can be written there.
    """
    with replace_file(file) as target:
        target.write(format_summary(result).encode())


def format_summary(result: GateResult) -> str:
    """Format the result as Markdown for GitHub and GitLab.

    Names and messages come from files, so they are code spans: no markup, links or mentions.
    """
    parts = [
        f"### {'✅' if result.passed else '❌'} CUDA graph gate: {describe_verdict(result)}",
        "",
    ]
    parts += [
        f"{format_code_span(result.experiment)} compared with {_describe_baseline(result)}.",
        "",
    ]
    for broken in result.failures:
        parts.append(f"- ❌ {format_code_span(broken.run)}: {format_code_span(broken.text)}")
    if result.failures:
        parts.append("")
    parts += _generate_table(result)
    if result.inconclusive:
        parts += [
            "⚠️ inconclusive: too noisy to exclude a regression of more than "
            f"{format_limit(result.limit)}. Use more iterations or a quieter machine.",
            "",
        ]
    if result.host_warning is not None:
        parts += [result.host_warning, ""]
    if result.differences:
        parts += ["Differences from the baseline:", ""]
        parts += [f"- {format_code_span(text)}" for text in result.differences]
        parts.append("")
    if result.notes:
        parts += ["Not gated:", ""]
        parts += [f"- {format_code_span(text)}" for text in result.notes]
        parts.append("")
    return "\n".join(parts)


def describe_verdict(result: GateResult) -> str:
    """Summarize the outcome in a few words."""
    limit = format_limit(result.limit)
    metrics = pluralize(len(result.changes), "metric")
    if result.passed:
        if not result.changes:
            return "passed, but there was no metric to compare"
        inconclusive = (
            f" ({format_count(len(result.inconclusive))} inconclusive)"
            if result.inconclusive
            else ""
        )
        return f"passed, no significant regression above {limit} in {metrics}{inconclusive}"
    failures = []
    if result.regressions:
        failures.append(
            f"{format_count(len(result.regressions))} of {metrics} regressed by more than {limit}"
        )
    if result.failures:
        failures.append(f"{format_count(len(result.failures))} failed or missing")
    return f"failed, {' and '.join(failures)}"


def format_change(figure: MetricChange) -> str:
    """Format the change with its sign; an en dash if the baseline is 0."""
    return "–" if figure.change is None else _format_signed_percent(figure.change)


def format_interval(figure: MetricChange) -> str:
    """Format the 99% interval of the change, or "exact"."""
    if figure.low is None or figure.high is None:
        return "exact"
    return f"{_format_signed_percent(figure.low)} to {_format_signed_percent(figure.high)}"


def sort_by_verdict(figures: Iterable[MetricChange]) -> list[MetricChange]:
    """Sort by verdict: regressions first, then inconclusive metrics."""
    return sorted(figures, key=lambda metric: list(Verdict).index(metric.verdict))


def format_code_span(text: object, *, cell: bool = False) -> str:
    """Format text as a Markdown code span; ``cell`` escapes bars for tables."""
    display_name = escape_control_characters(str(text)).strip() or "(empty)"
    if len(display_name) > _MAX_CHARS:
        display_name = f"{display_name[: _MAX_CHARS - 1]}…"
    # A fence one longer than the longest run of backticks inside.
    runs = re.findall(r"`+", display_name)
    fence = "`" * (max(map(len, runs), default=0) + 1)
    pad = " " if runs else ""
    return f"{fence}{pad}{display_name}{pad}{fence}".replace("|", r"\|" if cell else "|")


def _generate_table(result: GateResult) -> Iterator[str]:
    if not result.changes:
        return
    yield "| run | metric | baseline | current | change | 99% interval | |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | --- |"
    for figure in sort_by_verdict(result.changes):
        cells = (
            format_code_span(figure.run, cell=True),
            figure.title if figure.key is None else format_code_span(figure.title, cell=True),
            figure.metric.format(figure.baseline),
            figure.metric.format(figure.current),
            format_change(figure),
            format_interval(figure),
            _SIGNS.get(figure.verdict, "") + figure.verdict.value,
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _describe_baseline(result: GateResult) -> str:
    count = result.recordings
    suffix = f", the worst of {count} recordings" if count > 1 else ""
    return (
        f"the baseline {format_code_span(result.baseline)}{suffix}; limit: "
        f"{format_limit(result.limit)} worse"
    )


def _format_signed_percent(change: float) -> str:
    text = f"{round_significant(abs(change) * 100, 2)}%"
    return text if not change else f"{'+' if change > 0 else '−'}{text}"
