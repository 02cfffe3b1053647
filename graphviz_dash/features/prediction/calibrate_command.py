"""``graphviz-dash calibrate``: a calibration of predictions from recordings of many workloads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from graphviz_dash import __version__
from graphviz_dash.analysis.prediction.calibration import (
    CalibrationSource,
    RecordedWorkload,
    calibrate,
    recorded_workload,
)
from graphviz_dash.bundle.calibration import write_calibration
from graphviz_dash.cli.text.output import cell, plain_table, print_heading, print_table
from graphviz_dash.errors import InputError, printable
from graphviz_dash.ingest.load import find_experiments, load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.calibration import Calibration
from graphviz_dash.units import counted, format_ns


@click.command("calibrate")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the calibration, JSON.",
)
@click.option(
    "--checks",
    type=click.Path(path_type=Path),
    help="Folder of further experiments, of programs like those that will be predicted: they give "
    "the width of intervals.  [default: FOLDER's own]",
)
def calibrate_command(folder: Path, output: Path, checks: Path | None) -> None:
    """Make a calibration for `predict` of the experiments under FOLDER.

    FOLDER is what `graphviz-dash bench predict -o FOLDER` recorded, or any experiments with an
    eager and a graph run of one machine. Prints how far each workload is off when it is predicted
    from the others.
    """
    recorded, source = _recordings(folder)
    checked = _recordings(checks)[0] if checks else []
    calibration = calibrate(recorded, source, checked)
    write_calibration(output, calibration)
    _print(calibration)
    click.echo(f"Written to {output}", err=True)


def _recordings(folder: Path) -> tuple[list[RecordedWorkload], CalibrationSource]:
    """The workloads under a folder that can be used, and where they are from.

    Raises:
        InputError: none, or of several GPUs, or of one that is not named.
    """
    recorded: list[RecordedWorkload] = []
    machines, dates = [], []
    for path in find_experiments(folder):
        experiment = load_experiment(path)
        workload = recorded_workload(experiment)
        if isinstance(workload, Missing):
            click.echo(printable(f"Left out: {path.name}: {workload.reason}"), err=True)
            continue
        recorded.append(workload)
        machines.append(experiment.runs[0].manifest.environment)
        dates.append(experiment.runs[0].manifest.created)
    names = dict.fromkeys(machine.gpu_name for machine in machines)
    if len(names) > 1:
        raise InputError(folder, f"recordings of {', '.join(names)}", "recordings of one GPU")
    if not recorded:
        raise InputError(
            folder,
            "no experiment with an eager and a graph run",
            "recordings of `graphviz-dash bench predict`",
        )
    gpu = machines[0].gpu
    if gpu is None:
        raise InputError(folder, "recordings that do not say of which GPU", "ones that do")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return recorded, CalibrationSource(gpu, machines[0], max(dates), __version__, now)


def _print(calibration: Calibration) -> None:
    print_heading("Each workload predicted from the others")
    table = plain_table(
        "workload", "nodes", "streams", "measured", "predicted", "off by", right=range(1, 6)
    )
    for sample in calibration.samples:
        table.add_row(
            cell(sample.name),
            cell(sample.nodes),
            cell(sample.streams),
            cell(format_ns(sample.step_ns)),
            cell(format_ns(round(sample.predicted_ns))),
            cell(f"{sample.predicted_ns / sample.step_ns - 1:+.1%}"),
        )
    print_table(table)
    click.echo()
    scored = calibration.checks or calibration.samples
    click.echo(f"Nine of ten of {counted(len(scored), 'workload')} lie inside their intervals.")
