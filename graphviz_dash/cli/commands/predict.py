"""``graphviz-dash predict``: what CUDA graphs would gain, from an eager trace alone."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.prediction.predict import Estimate, Prediction, predict
from graphviz_dash.analysis.prediction.shipped_calibration import shipped_calibration
from graphviz_dash.bundle.calibration import read_calibration
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.loading import loaded_experiment, loaded_run, loaded_trace
from graphviz_dash.cli.text.output import cell, plain_table, print_heading, print_json, print_table
from graphviz_dash.errors import InputError, printable
from graphviz_dash.exports.documents.prediction import prediction_document
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.timings import CleanTimings
from graphviz_dash.model.trace import Trace
from graphviz_dash.narrative.prediction import (
    not_checked_texts,
    one_off_text,
    prediction_reasons,
    prediction_verdict,
    seen_text,
    warning_texts,
)
from graphviz_dash.units import format_count, format_ns, format_ratio


@click.command("predict")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--calibration",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Of the GPU that is meant, from `graphviz-dash calibrate`.  [default: an H200's]",
)
@click.option(
    "--modules",
    default=12,
    show_default=True,
    type=click.IntRange(0),
    help="Modules to list, largest saving first; 0 for none.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document (docs/cli.md).")
def predict_command(trace: Path, file: Path | None, modules: int, as_json: bool) -> None:
    """Predict what CUDA graphs would gain for the step in an eager TRACE.

    TRACE is a trace of torch.profiler (plain, gzip or zstd), a run bundle, or an experiment with an
    eager run. No graph and no GPU are needed. Tells the graphed step time and the speedup with
    intervals, when a graph is paid back, what would stop a capture, and which modules are worth a
    graph of their own.
    """
    calibration = read_calibration(file) if file else shipped_calibration()
    loaded, clean, gpu = _opened(trace)
    found = predict(loaded, calibration, clean, gpu)
    if isinstance(found, Missing):
        raise InputError(trace, found.reason, "a trace of torch.profiler with an eager step in it")
    if as_json:
        print_json("predict", prediction_document(found, file is None))
        return
    _print(found, modules, file is None)


def _opened(path: Path) -> tuple[Trace, CleanTimings | None, str | None]:
    """The eager trace at ``path``, clean timings of the same step, and the GPU's name."""
    if not path.is_dir():
        return loaded_trace(path), None, None
    if is_bundle(path):
        run = loaded_run(path)
    else:
        runs = loaded_experiment(path).runs
        eager = [run for run in runs if run.mode.is_baseline]
        if not eager:
            raise InputError(path, "no eager run in it", "an experiment with one, or a trace")
        run = eager[0]
    if run.replay_trace is None:
        raise InputError(run.path, "no trace of its steps", "a run with a traced pass")
    gpu = run.manifest.environment.gpu
    return run.replay_trace, run.clean, gpu.name if gpu else None


def _print(found: Prediction, modules: int, shipped: bool) -> None:
    click.echo(prediction_verdict(found))
    click.echo(_used(found, shipped))
    _print_figures(found)
    _print_notes(found)
    _print_reasons(found)
    _print_blockers(found)
    if modules:
        _print_parts(found, modules)


def _used(found: Prediction, shipped: bool) -> str:
    machine = found.calibration.environment
    which = "the calibration that is shipped" if shipped else "the calibration given"
    return printable(
        f"By {which}: {found.calibration.gpu.name}, driver {machine.driver or 'unknown'}, "
        f"torch {machine.torch}, recorded {found.calibration.recorded[:10]} from "
        f"{len(found.calibration.samples)} workloads."
    )


def _print_figures(found: Prediction) -> None:
    print_heading("Predicted")
    table = plain_table("", "", "90% from", "to", right=(1, 2, 3))

    def row(title: str, value: Estimate, show: object) -> None:
        assert callable(show)
        high = "never" if value.high is None else show(value.high)
        table.add_row(
            cell(title), *(cell(text) for text in (show(value.value), show(value.low), high))
        )

    table.add_row(
        cell(f"Eager step, {found.eager_side.value}"), cell(format_ns(found.eager_ns)), "", ""
    )
    row("Graphed step", found.step_ns, format_ns)
    row("Graphed step, back to back", found.interval_ns, format_ns)
    row("Speedup", found.speedup, format_ratio)
    row("Saved per step", found.saving_ns, format_ns)
    if not isinstance(found.break_even, Missing):
        row("Break-even replays", found.break_even, format_count)
    print_table(table)
    click.echo()
    click.echo(f"  Once it costs {one_off_text(found)}.")
    if isinstance(found.break_even, Missing):
        click.echo(f"  No break-even: {found.break_even.reason}.")


def _print_reasons(found: Prediction) -> None:
    print_heading("Why")
    for reason in prediction_reasons(found):
        click.echo(f"  - {reason}")


def _print_blockers(found: Prediction) -> None:
    if not found.blockers:
        print_heading("What would stop a capture: nothing that the trace shows")
    else:
        print_heading("What would stop a capture")
    for number, one in enumerate(found.blockers, 1):
        sure = one.rule.severity.value if one.certain else f"perhaps {one.rule.severity.value}"
        times = "" if one.count == 1 else f", {one.count} times in a step"
        cost = f", {format_ns(one.cpu_ns)} in a traced step" if one.cpu_ns else ""
        click.echo(printable(f"  {number}. {sure}: {one.rule.title} [{one.rule.id.value}]"))
        around = [("op", one.op), ("module", one.module), ("at", one.source)]
        told = ", ".join(f"{label} {value}" for label, value in around if value)
        click.echo(
            printable(f"     {seen_text(one.seen)}{times}{cost}{'; ' if told else ''}{told}")
        )
        click.echo(f"     do instead: {one.rule.advice}")
    for text in not_checked_texts(found):
        click.echo(f"  Not told: {text}")


def _print_parts(found: Prediction, most: int) -> None:
    if isinstance(found.modules, Missing):
        print_heading("Modules alone")
        click.echo(f"  Absent: {found.modules.reason}")
        return
    shown = found.modules[:most]
    print_heading(f"Modules alone, {len(shown)} of {len(found.modules)}, by {found.modules_by}")
    headings = ("module", "kernels", "of the eager step", "GPU busy", "graphs", "graphed", "saved")
    table = plain_table(*headings, right=range(1, 7))
    for one in shown:
        table.add_row(
            cell(one.name or "(in none)"),
            cell(format_count(one.kernels)),
            *(cell(format_ns(value)) for value in (one.eager_ns, one.busy_ns)),
            cell(format_count(one.graphs)),
            *(cell(format_ns(value)) for value in (one.graphed_ns, one.saving_ns)),
        )
    print_table(table)
    for one in shown:
        if one.blockers:
            click.echo(printable(f"  {one.name}: {one.blockers} of the findings above are in it"))


def _print_notes(found: Prediction) -> None:
    if found.warnings:
        print_heading("Weak figures")
        for text in warning_texts(found):
            click.echo(printable(f"  - {text}"))
