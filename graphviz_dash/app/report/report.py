"""Write a comparison as a single HTML file without scripts, network access or other files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from graphviz_dash import __version__
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.failures import format_failure
from graphviz_dash.analysis.ledger.report import list_ledger_reports
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.replay_check import ReplayDiagnosis, WrongOperator
from graphviz_dash.app.report.families import generate_family_sections
from graphviz_dash.app.report.report_tables import (
    Row,
    escape_html,
    format_kernels_section,
    format_metrics_section,
    format_row_table,
    format_shares_table,
    format_table,
    generate_notes_sections,
    generate_plan_sections,
)
from graphviz_dash.exports.files import replace_file
from graphviz_dash.features.efficiency.analysis.advice import Advice
from graphviz_dash.features.efficiency.analysis.report import measure_run_efficiency
from graphviz_dash.features.efficiency.narrative import (
    REMEDY_INSTRUCTIONS,
    describe_ceilings,
    describe_efficiency,
    format_advice_title,
    format_range,
    is_mostly_unknown,
)
from graphviz_dash.features.ledger.narrative import (
    SAVING_COLUMNS,
    TIME_COLUMNS,
    build_size_columns,
    describe_losses,
    describe_memory,
    describe_process,
    describe_startup,
    describe_workspaces,
    list_size_rows,
    list_time_rows,
)
from graphviz_dash.features.torch_compile.analysis.report import CompileReport, build_compile_report
from graphviz_dash.features.torch_compile.narrative import (
    format_saving,
    get_cause_location,
    get_cause_title,
    summarize_compilation,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compile_rules import COMPILE_RULES
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.answer import AnswerPart, build_answer
from graphviz_dash.narrative.break_even import format_break_even
from graphviz_dash.narrative.doctor import list_verdicts
from graphviz_dash.narrative.equation import describe_compile_savings, describe_waterfall_method
from graphviz_dash.narrative.headline import build_headline
from graphviz_dash.narrative.prediction import format_prediction_score
from graphviz_dash.narrative.replay_check import (
    CAUSE_ADVICE,
    CAUSE_TITLES,
    format_element_difference,
    format_fault,
    list_fault_facts,
)
from graphviz_dash.narrative.summary import (
    Tile,
    build_summary_tiles,
    format_break_even_title,
    list_provenance,
)
from graphviz_dash.units import format_ns

_STYLE: Final = Path(__file__).with_name("report.css")
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""Content security policy: only the page's own style."""


def write_report(
    comparison: Comparison,
    kernels: KernelTable,
    pictures: Mapping[str, str],
    colours: tuple[str, str],
    file: Path,
) -> int:
    """Write :func:`render_report` to ``file`` and return its size in bytes.

    Raises:
        InputError: the file cannot be written.
    """
    content = render_report(comparison, kernels, pictures, colours)
    with replace_file(file) as target:
        target.write(content)
    return len(content)


def render_report(
    comparison: Comparison,
    kernels: KernelTable,
    pictures: Mapping[str, str],
    colours: tuple[str, str],
) -> bytes:
    """Render the page.

    Args:
        comparison: the comparison; its fastest run is described in detail.
        kernels: kernels of its runs; the first are listed.
        pictures: SVG by subject: waterfall, where, break-even, timeline, graph,
            replay-stops.
        colours: CSS that declares their colours, for light and dark pages.
    """
    light, dark = colours
    style = (
        f"{_STYLE.read_text(encoding='utf-8')}:root{{{light}}}"
        f"@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}"
    )
    name = escape_html(comparison.experiment.name)
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}: CUDA graph comparison</title><style>{style}</style></head><body>"
    )
    body = "".join(_generate_sections(comparison, kernels, pictures))
    return f"{head}{body}</body></html>\n".encode()


def _generate_sections(
    comparison: Comparison, kernels: KernelTable, pictures: Mapping[str, str]
) -> Iterator[str]:
    best = comparison.best
    yield f"<h1>{escape_html(comparison.experiment.name)}</h1>"
    yield _format_answer(comparison)
    for line in list_provenance(comparison):
        yield f'<p class="muted">{escape_html(line)}</p>'
    yield from _generate_failures(comparison)
    yield _format_picture("Stopped replays", pictures.get("replay-stops"), "", "sheet")
    if best is not None:
        yield _format_tiles(comparison, best)
        yield from _generate_difference(best, pictures)
    yield _format_picture(
        "Step time breakdown",
        pictures.get("where"),
        "Unprofiled step time (recorded step time for recorded programs), split by the GPU "
        "work of the traced pass.",
    )
    if best is not None and not isinstance(best.break_even, Missing):
        chart = pictures.get("break-even")
        yield _format_picture(
            format_break_even_title(best), chart, format_break_even(best.break_even)
        )
    for run in comparison.runs:
        if not isinstance(run.prediction, Missing):
            score = format_prediction_score(run.prediction, run["step_time"].value)
            yield f"<h2>{escape_html(run.name)}: prediction</h2><p>{escape_html(score)}</p>"
    yield from generate_plan_sections(comparison)
    yield format_metrics_section(comparison)
    yield _format_picture(
        "One step of each run",
        pictures.get("timeline"),
        "The traced step of median length for each run, aligned at its start. Profiling slows "
        "the CPU down.",
        "sheet",
    )
    yield _format_picture(
        "The captured graph",
        pictures.get("graph"),
        "Folded: each repeated block or run of nodes is one box with a strip of its contents. "
        "Times are medians over the traced replays.",
        "graph",
    )
    if comparison.main_graph_run is not None:
        yield from generate_efficiency_section(comparison.main_graph_run)
    yield from generate_family_sections(comparison.experiment.runs)
    yield from generate_compile_sections(comparison.experiment.runs)
    yield from generate_ledger_sections(comparison.experiment.runs)
    yield format_kernels_section(kernels)
    yield from generate_notes_sections(comparison)
    yield (
        f'<footer class="muted">Created by graphviz-dash {escape_html(__version__)}. Clean '
        "values come from processes without a profiler. Spreads are the 25th to 75th "
        "percentile unless marked 95%.</footer>"
    )


def _format_answer(comparison: Comparison) -> str:
    answer = build_answer(comparison)
    if answer is None:
        return f'<p class="answer">{escape_html(build_headline(comparison))}</p>'
    rows = (
        f"<dt>{escape_html(label)}</dt><dd>{_format_parts(parts)}</dd>"
        for label, parts in answer.rows
    )
    return (
        f'<p class="answer">{_format_parts(answer.verdict)}</p>'
        f'<dl class="reasons">{"".join(rows)}</dl>'
    )


def _format_parts(parts: Sequence[AnswerPart]) -> str:
    return "".join(
        f"<b>{escape_html(part.text)}</b>" if part.evidence else escape_html(part.text)
        for part in parts
    )


def _generate_failures(comparison: Comparison) -> Iterator[str]:
    for run in comparison.runs:
        for failure in run.failures:
            message = format_failure(run.name, failure)
            if message != build_headline(comparison):
                yield f'<p class="failed">{escape_html(message)}</p>'
    for name, verdict in list_verdicts(comparison):
        yield f'<p class="failed">{escape_html(f"{name}: {verdict}")}</p>'
    for name, diagnosis in comparison.replay_diagnoses:
        yield from _generate_replay_faults(name, diagnosis)


def _generate_replay_faults(name: str, diagnosis: ReplayDiagnosis) -> Iterator[str]:
    for fault in diagnosis.faults:
        yield f"<h2>{escape_html(f'{name}: {CAUSE_TITLES[fault.cause]}')}</h2>"
        yield f"<p>{escape_html(format_fault(fault))}</p>"
        rows: list[Row] = [[label, text] for label, text in list_fault_facts(fault)]
        if isinstance(fault, WrongOperator) and fault.elements is not None:
            rows += [
                [f"Element {list(item.index)}", format_element_difference(item)]
                for item in fault.elements.first
            ]
        yield format_table(["", ""], [("", rows)])
        yield f"<p>Fix: {escape_html(CAUSE_ADVICE[fault.cause])}</p>"


def _format_tiles(comparison: Comparison, run: RunComparison) -> str:
    cells = (
        f'<div class="tile"><span>{escape_html(tile.label)}</span>'
        f"<b>{_strike_through(tile)}</b><span>{escape_html(tile.note)}</span></div>"
        for tile in build_summary_tiles(comparison, run)
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def _strike_through(tile: Tile) -> str:
    value = escape_html(tile.value)
    return f"<s>{value}</s>" if tile.is_invalid else value


def _generate_difference(run: RunComparison, pictures: Mapping[str, str]) -> Iterator[str]:
    title = f"Step time difference vs {run.baseline}"
    waterfall = run.waterfall
    if isinstance(waterfall, Missing):
        reason = escape_html(f"Not available: {waterfall.reason}.")
        yield f'<h2>{escape_html(title)}</h2><p class="muted">{reason}</p>'
        return
    yield _format_picture(
        title, pictures.get("waterfall"), describe_waterfall_method(run, waterfall)
    )
    if parts := describe_compile_savings(run):
        yield f"<p>{escape_html(parts)}</p>"
    for by, shares in (("Module", waterfall.modules), ("Operator", waterfall.operators)):
        yield format_shares_table(by, shares)


def _format_picture(title: str, picture: str | None, note: str, kind: str = "") -> str:
    if picture is None:
        return ""
    return (
        f'<section class="{kind}"><h2>{escape_html(title)}</h2><figure>{picture}'
        f"<figcaption>{escape_html(note)}</figcaption></figure></section>"
    )


_MAX_CAUSES = 12


def generate_compile_sections(runs: Iterable[Run]) -> Iterator[str]:
    """Generate a section for each run with recorded compilation data."""
    for run in runs:
        if run.compilation is None:
            continue
        report = build_compile_report(run)
        if not isinstance(report, Missing):
            yield f"<h2>torch.compile: {escape_html(run.name)}</h2>"
            yield f"<p>{escape_html(summarize_compilation(report))}</p>"
            yield _format_causes(report)


def _format_causes(report: CompileReport) -> str:
    if not report.causes:
        return ""
    rows = "".join(
        f"<tr><th>{escape_html(get_cause_title(cause))}</th><td><code>{escape_html(get_cause_location(cause))}"
        f"</code></td><td>{escape_html(format_saving(cause))}</td><td>{escape_html(cause.reason)}</td>"
        f"<td>{escape_html(COMPILE_RULES[cause.rule].advice)}</td></tr>"
        for cause in report.causes[:_MAX_CAUSES]
    )
    head = "".join(
        f"<th>{title}</th>" for title in ("Fix", "Line", "Saving", "torch reports", "Instead")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


_MAX_NODES = 5_000
_MAX_ADVICE = 8


def generate_efficiency_section(best: RunComparison) -> Iterator[str]:
    """Generate the section of a run whose graphs have known limits or recommendations."""
    run = best.run
    if not run.graphs or sum(len(graph.nodes) for graph in run.graphs) > _MAX_NODES:
        return
    pairs = None if isinstance(best.waterfall, Missing) else best.waterfall.pairs
    report = measure_run_efficiency(run, pairs=pairs)
    if isinstance(report, Missing) or (is_mostly_unknown(report) and not report.advice):
        return
    yield f"<h2>Hardware limits: {escape_html(run.name)}</h2>"
    yield f"<p>{escape_html(describe_efficiency(report))}</p>"
    if report.advice:
        yield _format_advice(report.advice[:_MAX_ADVICE])
    if not isinstance(report.choice, Missing):
        yield f'<p class="muted">{escape_html(describe_ceilings(report.choice))}</p>'


def _format_advice(advice: tuple[Advice, ...]) -> str:
    rows = "".join(
        f"<tr><th>{escape_html(format_ns(entry.saving_ns))}</th>"
        f"<td>{escape_html(format_range(entry))}</td>"
        f"<td>{escape_html(format_advice_title(entry))}</td>"
        f"<td><code>{escape_html(entry.source or '')}</code></td>"
        f"<td>{escape_html(REMEDY_INSTRUCTIONS[entry.remedy])}</td></tr>"
        for entry in advice
    )
    titles = ("Saving", "Interval", "By", "Line", "Change")
    head = "".join(f"<th>{title}</th>" for title in titles)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def generate_ledger_sections(runs: Iterable[Run]) -> Iterator[str]:
    """Generate a section for each run with a ledger."""
    for report in list_ledger_reports(runs):
        yield f"<h2>Memory and start-up: {escape_html(report.run)}</h2>"
        yield f"<p>{escape_html(describe_process(report.process))}</p>"
        if report.memory is not None:
            yield f"<p>{escape_html(describe_memory(report.memory))}</p>"
            columns = build_size_columns(label for label, _ in report.key_moments)
            yield format_row_table(columns, "device memory", *list_size_rows(report))
            for text in (describe_workspaces(report.memory), *describe_losses(report)):
                if text is not None:
                    yield f"<p>{escape_html(text)}</p>"
        yield f"<p>{escape_html(describe_startup(report.startup))}</p>"
        yield format_row_table(TIME_COLUMNS, "start-up", *list_time_rows(report.startup))
        if report.savings:
            yield format_row_table(SAVING_COLUMNS, "possible saving", report.savings)
