"""Equation of a run and its baseline as text: savings by cause, module and operator, and the
matching of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click
from rich.console import RenderableType

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.step_comparison.waterfall import (
    Basis,
    Cause,
    CauseTimes,
    StepShare,
    Waterfall,
)
from graphviz_dash.cli.text.output import (
    build_cell,
    create_table,
    print_heading,
    print_table,
    shorten,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.equation import (
    describe_compile_savings,
    describe_rank_wait_method,
    get_step_caveat,
    get_step_name,
)
from graphviz_dash.units import format_count, format_ns, format_percent

_LABEL_LENGTH: Final = 48


def print_waterfalls(runs: Sequence[RunComparison], best: RunComparison | None, count: int) -> None:
    """Print the equation of every run that has one, then ``count`` modules and operators of
    ``best``."""
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
            build_cell(waterfall.run),
            build_cell(format_ns(waterfall.before_ns)),
            *(build_cell(format_signed_ns(saved[cause])) for cause in causes),
            build_cell(format_ns(waterfall.after_ns)),
        )
        parts = run.compile_parts
        if isinstance(parts, Missing):
            continue
        for title, part in (("by compilation", parts.compilation), ("by graphs", parts.graphs)):
            table.add_row(
                build_cell(f"  {title}", "dim"),
                build_cell(""),
                *_build_cells(part, causes)[:-1],
                build_cell(""),
            )
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
    shown = shares[:count]
    print_heading(
        f"{waterfall.run} by {title}, {len(shown)} of {len(shares)}, largest difference first"
    )
    causes = _list_causes([waterfall])
    names = [cause.value for cause in causes]
    table = create_table(title, "work", *names, "difference", right=range(1, 10))
    for share in shown:
        before, after = share.items
        work = format_count(before) if before == after else f"{before:,} to {after:,}"
        table.add_row(
            build_cell(shorten(share.label, _LABEL_LENGTH)),
            build_cell(work),
            *_build_cells(share.saved, causes),
        )
    print_table(table)


def _build_cells(saved: CauseTimes, causes: Sequence[Cause]) -> list[RenderableType]:
    values = dict(saved.list_items())
    times = (*(values[cause] for cause in causes), saved.total)
    return [build_cell(format_signed_ns(value) if value else "") for value in times]
