"""Render the sections about graph families of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphviz_dash.analysis.loop.family_report import (
    FamilyReport,
    LoopReport,
    build_loop_report,
    has_many_graphs,
)
from graphviz_dash.app.report.report_tables import escape_html
from graphviz_dash.features.ladder.analysis.coverage import build_coverage
from graphviz_dash.features.ladder.analysis.ladder_advice import (
    build_ladder_basis,
    recommend_ladder,
)
from graphviz_dash.features.ladder.analysis.ladder_inputs import build_ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget
from graphviz_dash.features.ladder.narrative import (
    describe_advice,
    describe_coverage,
    format_mode,
    list_coverage_options,
    summarize_loop,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.engine_steps import describe_eager_steps, format_size_range
from graphviz_dash.units import format_count, format_percent


def generate_family_sections(runs: Iterable[Run]) -> Iterator[str]:
    """Generate a section for each run with several graphs of a family."""
    for run in runs:
        if not has_many_graphs(run.loop):
            continue
        report = build_loop_report(run)
        if isinstance(report, Missing):
            continue
        yield f"<h2>Graphs: {escape_html(run.name)}</h2>"
        yield f"<p>{escape_html(summarize_loop(report))}</p>"
        if report.engine is not None:
            yield _format_modes(report)
            yield from _generate_paragraphs(describe_eager_steps(report))
        for family in report.families:
            yield from _generate_advice(report, family)


def _format_modes(report: LoopReport) -> str:
    rows = "".join(
        f"<tr><th>{escape_html(mode.phase or '–')}</th>"
        f"<td>{escape_html(format_mode(report, mode))}</td>"
        f'<td class="n">{format_count(mode.steps)}</td>'
        f'<td class="n">{format_size_range(mode.sizes)}</td>'
        f'<td class="n">{"–" if mode.time_share is None else format_percent(mode.time_share)}</td>'
        "</tr>"
        for mode in report.modes
    )
    head = "".join(f"<th>{title}</th>" for title in ("Phase", "Mode", "Steps", "Size", "Time"))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _generate_advice(report: LoopReport, family: FamilyReport) -> Iterator[str]:
    """Generate the recommended sizes of a family of known sizes."""
    data = build_ladder_data(report, family)
    if isinstance(data, Missing):
        return
    basis = build_ladder_basis(data)
    coverage, advice = build_coverage(data), recommend_ladder(basis, Budget())
    sentences, options = [], []
    if coverage is not None and coverage.is_worthwhile:
        sentences.append(describe_coverage(family, coverage))
        options = list_coverage_options(report, family, coverage)
    if not isinstance(advice, Missing):
        sentences.append(describe_advice(advice))
    yield f"<h3>{escape_html(family.family.name)}</h3>"
    yield from _generate_paragraphs(sentences)
    yield from (f"<pre>{escape_html(option)}</pre>" for option in options)


def _generate_paragraphs(sentences: Iterable[str]) -> Iterator[str]:
    yield from (f"<p>{escape_html(sentence)}</p>" for sentence in sentences)
