"""Write a comparison as a single HTML file without scripts, network access or other files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from graphviz_dash import __version__
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.failures import failure_text
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.app.report.compiled import compile_sections
from graphviz_dash.app.report.report_tables import (
    html_text,
    kernels_section,
    metrics_section,
    notes_sections,
    plans_sections,
    shares_table,
)
from graphviz_dash.exports.files import replacing
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import answer
from graphviz_dash.narrative.break_even import break_even_text
from graphviz_dash.narrative.doctor import report_verdict
from graphviz_dash.narrative.equation import compile_parts_text, waterfall_method
from graphviz_dash.narrative.headline import headline
from graphviz_dash.narrative.prediction import scored_text
from graphviz_dash.narrative.summary import (
    Tile,
    break_even_title,
    provenance,
    summary_tiles,
)

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
    """Write :func:`report` to ``file`` and return its size in bytes.

    Raises:
        InputError: the file cannot be written.
    """
    content = report(comparison, kernels, pictures, colours)
    with replacing(file) as target:
        target.write(content)
    return len(content)


def report(
    comparison: Comparison,
    kernels: KernelTable,
    pictures: Mapping[str, str],
    colours: tuple[str, str],
) -> bytes:
    """Render the page.

    Args:
        comparison: the comparison; its fastest run is described in detail.
        kernels: kernels of its runs; the first are listed.
        pictures: SVG by subject: waterfall, where, break-even, timeline, graph.
        colours: CSS that declares their colours, for light and dark pages.
    """
    light, dark = colours
    style = (
        f"{_STYLE.read_text(encoding='utf-8')}:root{{{light}}}"
        f"@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}"
    )
    name = html_text(comparison.experiment.name)
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}: CUDA graph comparison</title><style>{style}</style></head><body>"
    )
    body = "".join(_sections(comparison, kernels, pictures))
    return f"{head}{body}</body></html>\n".encode()


def _sections(
    comparison: Comparison, kernels: KernelTable, pictures: Mapping[str, str]
) -> Iterator[str]:
    best = comparison.best
    yield f"<h1>{html_text(comparison.experiment.name)}</h1>"
    yield _answer(comparison)
    for line in provenance(comparison):
        yield f'<p class="muted">{html_text(line)}</p>'
    yield from _failures(comparison)
    if best is not None:
        yield _tiles(comparison, best)
        yield from _difference(best, pictures)
    yield _picture(
        "Step time breakdown",
        pictures.get("where"),
        "Unprofiled step time (recorded step time for recorded programs), split by the GPU "
        "work of the traced pass.",
    )
    if best is not None and not isinstance(best.break_even, Missing):
        chart = pictures.get("break-even")
        yield _picture(break_even_title(best), chart, break_even_text(best.break_even))
    for run in comparison.runs:
        if not isinstance(run.prediction, Missing):
            score = scored_text(run.prediction, run["step_time"].value)
            yield f"<h2>{html_text(run.name)}: prediction</h2><p>{html_text(score)}</p>"
    yield from plans_sections(comparison)
    yield metrics_section(comparison)
    yield _picture(
        "One step of each run",
        pictures.get("timeline"),
        "The traced step of median length for each run, aligned at its start. Profiling slows "
        "the CPU down.",
        "sheet",
    )
    yield _picture(
        "The captured graph",
        pictures.get("graph"),
        "Folded: each repeated block or run of nodes is one box with a strip of its contents. "
        "Times are medians over the traced replays.",
        "graph",
    )
    yield from compile_sections(comparison.experiment.runs)
    yield kernels_section(kernels)
    yield from notes_sections(comparison)
    yield (
        f'<footer class="muted">Created by graphviz-dash {html_text(__version__)}. Clean '
        "values come from processes without a profiler. Spreads are the 25th to 75th "
        "percentile unless marked 95%.</footer>"
    )


def _answer(comparison: Comparison) -> str:
    pieces = answer(comparison)
    if not pieces:
        return f'<p class="answer">{html_text(headline(comparison))}</p>'
    parts = (
        f"<b>{html_text(piece.text)}</b>" if piece.evidence else html_text(piece.text)
        for piece in pieces
    )
    return f'<p class="answer">{"".join(parts)}</p>'


def _failures(comparison: Comparison) -> Iterator[str]:
    for run in comparison.runs:
        for failure in run.failures:
            message = failure_text(run.name, failure)
            if message != headline(comparison):
                yield f'<p class="failed">{html_text(message)}</p>'
    for name, report in comparison.examinations:
        yield f'<p class="failed">{html_text(f"{name}: {report_verdict(report)}")}</p>'


def _tiles(comparison: Comparison, run: RunComparison) -> str:
    cells = (
        f'<div class="tile"><span>{html_text(tile.label)}</span>'
        f"<b>{_struck(tile)}</b><span>{html_text(tile.note)}</span></div>"
        for tile in summary_tiles(comparison, run)
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def _struck(tile: Tile) -> str:
    value = html_text(tile.value)
    return f"<s>{value}</s>" if tile.doubted else value


def _difference(run: RunComparison, pictures: Mapping[str, str]) -> Iterator[str]:
    title = f"Step time difference vs {run.baseline}"
    waterfall = run.waterfall
    if isinstance(waterfall, Missing):
        reason = html_text(f"Not available: {waterfall.reason}.")
        yield f'<h2>{html_text(title)}</h2><p class="muted">{reason}</p>'
        return
    yield _picture(title, pictures.get("waterfall"), waterfall_method(run, waterfall))
    if parts := compile_parts_text(run):
        yield f"<p>{html_text(parts)}</p>"
    for by, shares in (("Module", waterfall.modules), ("Operator", waterfall.operators)):
        yield shares_table(by, shares)


def _picture(title: str, picture: str | None, note: str, kind: str = "") -> str:
    if picture is None:
        return ""
    return (
        f'<section class="{kind}"><h2>{html_text(title)}</h2><figure>{picture}'
        f"<figcaption>{html_text(note)}</figcaption></figure></section>"
    )
