"""``graphviz-dash launch``: what recordings of launch costs say, one or several over each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from graphviz_dash.analysis.launch_costs import Extra, LaunchCosts, Row
    from graphviz_dash.analysis.samples import Spread, Summary

SCHEMA_VERSION: Final = 1


@click.command("launch")
@click.argument("recordings", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document (docs/cli.md).")
def launch_command(recordings: tuple[Path, ...], as_json: bool) -> None:
    """Show RECORDINGS of launch costs, made by bench launch; several are laid over each other.

    Prints how launch time grows with the graph, what roots and other kinds of nodes add, and the
    median of every measure; with several recordings their medians, divided by the first one's.
    """
    from graphviz_dash.analysis.launch_costs import launch_costs
    from graphviz_dash.bundle.launch import read_launch
    from graphviz_dash.cli.output import print_json, shown

    costs = [launch_costs(read_launch(path)) for path in recordings]
    if as_json:
        documents = [
            {"path": shown(path), **_document(one)}
            for path, one in zip(recordings, costs, strict=True)
        ]
        print_json("launch", SCHEMA_VERSION, {"recordings": documents})
        return
    for path, one in zip(recordings, costs, strict=True):
        _print_recording(shown(path), one)
    if len(costs) > 1:
        _print_ratios([shown(path) for path in recordings], costs)


def _print_recording(path: str, costs: LaunchCosts) -> None:
    from graphviz_dash.analysis.launch_costs import TITLES, ends, extras, name_of
    from graphviz_dash.cli.output import ABSENT, cell, plain_table, print_heading, print_table
    from graphviz_dash.errors import printable
    from graphviz_dash.units import format_count, format_ns

    recording = costs.recording
    machine = recording.environment
    click.echo(printable(costs.sentence))
    whole = "" if recording.complete else ", interrupted"
    trials = max((len(v) for s in recording.series for v in s.samples.values()), default=0)
    click.echo(
        printable(
            f"{path}: {machine.cpu}, driver {machine.driver or 'unknown'}, CUDA "
            f"{machine.cuda_runtime}, {recording.created[:10]}, {trials} trials{whole}"
        )
    )
    for text in extras(costs):
        click.echo(text)
    print_heading("How each grows along straight lines")
    table = plain_table("measure", "base", "95%", "a node", "95%", "from nodes", right=(1, 3, 5))
    for measure, fit in costs.lines.items():
        table.add_row(
            cell(TITLES[measure]),
            cell(format_ns(fit.base_ns)),
            cell(ends(fit.base_interval), "dim"),
            cell(f"{fit.slope_ns:.2f} ns"),
            cell(ends(fit.slope_interval), "dim"),
            cell(format_count(fit.knee)),
        )
    print_table(table)
    print_heading("Medians")
    measures = [one for one in TITLES if any(one in row.timings for row in costs.rows)]
    headings = ["graph", *(TITLES[one] for one in measures)]
    table = plain_table(*headings, right=range(1, len(headings)))
    for row in costs.rows:
        values = (row.median(one) for one in measures)
        texts = (ABSENT if value is None else format_ns(value) for value in values)
        table.add_row(cell(name_of(row.topology)), *(cell(text) for text in texts))
    print_table(table)


def _print_ratios(paths: list[str], costs: list[LaunchCosts]) -> None:
    from graphviz_dash.analysis.launch_costs import TITLES, name_of
    from graphviz_dash.cli.output import ABSENT, cell, plain_table, print_heading, print_table
    from graphviz_dash.units import format_ratio

    first = {row.topology: row for row in costs[0].rows}
    for path, other in zip(paths[1:], costs[1:], strict=True):
        print_heading(f"{path} divided by {paths[0]}, medians")
        shared = [row for row in other.rows if row.topology in first]
        measures = [one for one in TITLES if any(one in row.timings for row in shared)]
        headings = ["graph", *(TITLES[one] for one in measures)]
        table = plain_table(*headings, right=range(1, len(headings)))
        for row in shared:
            cells = [cell(name_of(row.topology))]
            for measure in measures:
                left, right = first[row.topology].median(measure), row.median(measure)
                known = left and right is not None
                cells.append(cell(format_ratio((right or 0) / (left or 1)) if known else ABSENT))
            table.add_row(*cells)
        print_table(table)


def _document(costs: LaunchCosts) -> dict[str, object]:
    recording = costs.recording
    return {
        "sentence": costs.sentence,
        "gpu": recording.environment.gpu_name,
        "driver": recording.environment.driver,
        "created": recording.created,
        "trials": recording.trials,
        "complete": recording.complete,
        "constant_time": costs.constant,
        "fits": {
            measure.value: {
                "base": fit.base_ns,
                "base_interval": _ends(fit.base_interval),
                "slope": fit.slope_ns,
                "slope_interval": _ends(fit.slope_interval),
                "knee": fit.knee,
            }
            for measure, fit in costs.lines.items()
        },
        "root": _extra_document(costs.root) if costs.root is not None else None,
        "others": {kind: _extra_document(extra) for kind, extra in costs.others.items()},
        "call": _summary(costs.call),
        "clock": _summary(costs.clock),
        "rows": [_row_document(row) for row in costs.rows],
    }


def _row_document(row: Row) -> dict[str, object]:
    one = row.topology
    return {
        "width": one.width,
        "length": one.length,
        "single_root": one.single_root,
        "other": one.other,
        "nodes": one.nodes,
        "measures": {
            measure.value: {**(_summary(timing.summary) or {}), "min": timing.shortest}
            for measure, timing in row.timings.items()
        },
        "absent": {measure.value: reason for measure, reason in row.absent.items()},
    }


def _summary(summary: Summary | None) -> dict[str, object] | None:
    if summary is None:
        return None
    spread = summary.spread
    return {
        "median": summary.median,
        "p25": spread.low,
        "p75": spread.high,
        "samples": spread.samples,
    }


def _extra_document(extra: Extra) -> dict[str, object]:
    return {"ns": extra.ns, "interval": _ends(extra.interval)}


def _ends(spread: Spread) -> list[float | None]:
    return [spread.low, spread.high]
