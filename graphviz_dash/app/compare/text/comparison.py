"""Comparison on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.metrics.kernel_table import KernelRow, KernelTable
from graphviz_dash.analysis.ranks.ranks import ModeRanks
from graphviz_dash.analysis.step_comparison.waterfall import (
    Basis,
    Cause,
    CauseTimes,
    StepShare,
    Waterfall,
)
from graphviz_dash.app.compare.columns import UNCAPTURED_COLUMNS, list_kernel_columns
from graphviz_dash.app.compare.text.figures import (
    print_caveats,
    print_failures,
    print_figures,
    print_missing,
    print_remedies,
)
from graphviz_dash.cli.text.output import (
    build_cell,
    create_table,
    print_heading,
    print_more,
    print_rows,
    print_table,
    print_text,
    shorten,
)
from graphviz_dash.features.prediction.text import (
    print_predicted_blockers,
    print_scored_predictions,
)
from graphviz_dash.features.ranks.text import print_ranks
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import build_answer, format_answer
from graphviz_dash.narrative.break_even import format_break_even
from graphviz_dash.narrative.columns import TEXT, Column
from graphviz_dash.narrative.doctor import list_verdicts
from graphviz_dash.narrative.equation import (
    describe_compile_savings,
    describe_rank_wait_method,
    get_step_caveat,
    get_step_name,
)
from graphviz_dash.narrative.headline import build_headline
from graphviz_dash.narrative.low_confidence import describe_low_confidence
from graphviz_dash.narrative.memory_change import format_change
from graphviz_dash.narrative.summary import (
    explain_unlisted_kernels,
    format_break_even_title,
    list_provenance,
)
from graphviz_dash.units import format_count, format_ns, format_percent, pluralize


def print_comparison_summary(result: Comparison) -> None:
    """Print the answer, the main metrics of each run, failures and the number of caveats."""
    _print_answer(result)
    columns = [
        metric
        for metric in _SUMMARY_COLUMNS
        if any(run[metric].value is not None for run in result.runs)
        and (metric != "traced_step_time" or all(run.step.value is None for run in result.runs))
    ]
    click.echo()
    headings = [_SUMMARY_COLUMNS[metric] for metric in columns]
    table = create_table("run", *headings, right=range(1, len(columns) + 1))
    ordered_runs = sorted(
        result.runs, key=lambda run: (not run.is_baseline, run is not result.best)
    )
    for run in ordered_runs[:_MAX_SUMMARY_RUNS]:
        cells = [
            format_change(run[metric]) if metric.endswith("_change") else run[metric].text
            for metric in columns
        ]
        table.add_row(run.name, *cells)
    print_table(table)
    print_more(len(ordered_runs), _MAX_SUMMARY_RUNS)
    print_failures([run.run for run in result.runs])
    print_predicted_blockers(result)
    notes = {
        note.code for run in result.runs for note in describe_low_confidence(run.low_confidence)
    }
    if notes:
        click.echo()
        click.echo(f"Low-confidence metrics: {pluralize(len(notes), 'cause')}")


_SUMMARY_COLUMNS: Final = {
    "step_time": "step",
    "recorded_step": "median step",
    "recorded_mean": "mean step",
    "traced_step_time": "profiled",
    "speedup": "speedup",
    "recorded_speedup": "speedup",
    "launches": "launches",
    "graph_time_share": "in graphs",
    "peak_reserved_change": "peak mem.",
    "device_memory_change": "steady mem.",
}
_MAX_SUMMARY_RUNS: Final = 12


def _print_answer(result: Comparison) -> None:
    answer = build_answer(result)
    click.echo(build_headline(result) if answer is None else format_answer(answer))
    for name, verdict in list_verdicts(result):
        print_text(f"{name}: {verdict}")
    for text in list_provenance(result):
        print_text(text)


def print_comparison(
    result: Comparison,
    kernels: KernelTable,
    ranks: tuple[ModeRanks, ...],
    limits: tuple[int, int],
) -> None:
    """Print a comparison. ``limits``: maximum number of kernels, and of modules and operators."""
    count, parts = limits
    _print_answer(result)
    print_figures([(run.name, run.metrics) for run in result.runs])
    print_ranks(ranks)
    print_waterfalls(result.runs, result.best, parts)
    print_break_even(result.best)
    print_scored_predictions(result)
    print_predicted_blockers(result)
    print_failures([run.run for run in result.runs])
    print_caveats(result.runs)
    if count:
        print_kernels(kernels, count)
    print_uncaptured_work(result)
    print_missing([(run.name, run.metrics) for run in result.runs])
    print_remedies([run.run for run in result.runs], with_baseline=True)


def print_break_even(run: RunComparison | None) -> None:
    """Print the savings after increasing numbers of replays; nothing without a break-even."""
    if run is None or isinstance(run.break_even, Missing):
        return
    print_heading(format_break_even_title(run))
    click.echo(f"  {format_break_even(run.break_even)}")
    click.echo()
    table = create_table("replays", "saved", "95% from", "to", right=range(4))
    for count in run.break_even.list_replay_powers():
        low, middle, high = run.break_even.compute_net_saving(count)
        table.add_row(format_count(count), *(format_ns(value) for value in (middle, low, high)))
    print_table(table)


def print_uncaptured_work(result: Comparison) -> None:
    """Print the work that runs with graphs launch one by one; nothing if there is none."""
    rows = [
        (run.name, group)
        for run in result.runs
        if not isinstance(run.coverage, Missing)
        for group in run.coverage.eager
    ]
    if not rows:
        return
    print_heading("Not captured, per traced step")
    print_rows(UNCAPTURED_COLUMNS, rows)


_NAME_LENGTH: Final = 72


def print_kernels(kernels: KernelTable, count: int) -> None:
    """Print ``count`` kernels per traced step, largest change first."""
    if not kernels.rows:
        return
    rows = kernels.usual_rows[:count]
    print_heading(
        f"Kernels per traced step, {len(rows)} of {len(kernels.rows)}, largest change first"
    )
    names = Column[KernelRow](None, lambda row: row.name, TEXT, "kernel", limit=_NAME_LENGTH)
    print_rows([names, *list_kernel_columns(kernels, range(len(kernels.runs)))], rows)
    if sentence := explain_unlisted_kernels(kernels):
        click.echo(f"  {sentence}")


_LABEL_LENGTH: Final = 48


def print_waterfalls(runs: Sequence[RunComparison], best: RunComparison | None, count: int) -> None:
    """Print all equations, then ``count`` modules and operators of ``best``."""
    for basis in Basis:
        equations = [
            (run, run.waterfall)
            for run in runs
            if not isinstance(run.waterfall, Missing) and run.waterfall.basis is basis
        ]
        if equations:
            _print_equations(equations, basis)
    waterfall = best.waterfall if best is not None else None
    if waterfall is not None and not isinstance(waterfall, Missing) and count:
        _print_shares(waterfall, "module", waterfall.modules, count)
        _print_shares(waterfall, "operator", waterfall.operators, count)


def _print_equations(equations: Sequence[tuple[RunComparison, Waterfall]], basis: Basis) -> None:
    print_heading(f"Change from the baseline per {get_step_name(basis)} ({get_step_caveat(basis)})")
    waterfalls = [waterfall for _, waterfall in equations]
    causes = _list_causes(waterfalls)
    names = [cause.value for cause in causes]
    table = create_table("run", "baseline step", *names, "= step", right=range(1, 10))
    for run, waterfall in equations:
        saved = dict(waterfall.saved.list_items())
        table.add_row(
            waterfall.run,
            format_ns(waterfall.before_ns),
            *(format_signed_ns(saved[cause]) for cause in causes),
            format_ns(waterfall.after_ns),
        )
        parts = run.compile_parts
        if isinstance(parts, Missing):
            continue
        for title, part in (("by compilation", parts.compilation), ("by graphs", parts.graphs)):
            table.add_row(build_cell(f"  {title}", "dim"), "", *_build_cells(part, causes)[:-1], "")
    print_table(table)
    click.echo()
    for run, _ in equations:
        if sentence := describe_compile_savings(run):
            click.echo(f"  {sentence}")
    for waterfall in waterfalls:
        click.echo(f"  {format_pairing(waterfall)}")
    for method in dict.fromkeys(filter(None, map(describe_rank_wait_method, waterfalls))):
        click.echo(f"  {method}")


def _list_causes(waterfalls: Sequence[Waterfall]) -> list[Cause]:
    """List the causes in any of the equations, in order."""
    present = {cause for waterfall in waterfalls for cause, _ in waterfall.saved_by_cause}
    return [cause for cause in Cause if cause in present]


def format_pairing(waterfall: Waterfall) -> str:
    """Format how the work of the two steps was matched."""
    counts = ", ".join(
        f"{format_count(count)} {kind.value}"
        for kind, count in waterfall.pairs.counts.items()
        if count
    )
    share = format_percent(waterfall.remainder_share)
    return (
        f"{waterfall.run}: {counts}; the remainder is {share} of the step of {waterfall.baseline}"
    )


def format_signed_ns(value: int) -> str:
    """Format a saving as a change of the step: savings are negative."""
    return f"+{format_ns(-value)}" if value < 0 else f"-{format_ns(value)}" if value else "0 ns"


def _print_shares(
    waterfall: Waterfall, title: str, shares: tuple[StepShare, ...], count: int
) -> None:
    rows = shares[:count]
    print_heading(
        f"{waterfall.run} by {title}, {len(rows)} of {len(shares)}, largest difference first"
    )
    causes = _list_causes([waterfall])
    names = [cause.value for cause in causes]
    table = create_table(title, "work", *names, "difference", right=range(1, 10))
    for share in rows:
        before, after = share.items
        work = format_count(before) if before == after else f"{before:,} to {after:,}"
        table.add_row(shorten(share.label, _LABEL_LENGTH), work, *_build_cells(share.saved, causes))
    print_table(table)


def _build_cells(saved: CauseTimes, causes: Sequence[Cause]) -> list[str]:
    values = dict(saved.list_items())
    times = (*(values[cause] for cause in causes), saved.total)
    return [format_signed_ns(value) if value else "" for value in times]
