"""``graphviz-dash calibrate``: prediction calibration from recordings of many workloads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from graphviz_dash import __version__
from graphviz_dash.analysis.prediction.calibration import (
    CalibrationSource,
    RecordedWorkload,
    build_recorded_workload,
    calibrate,
)
from graphviz_dash.bundle.calibration import write_calibration
from graphviz_dash.cli.text.output import create_table, print_heading, print_table, print_text
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import find_experiments, load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.calibration import Calibration
from graphviz_dash.units import format_ns, pluralize


@click.command("calibrate")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON file to write.",
)
@click.option(
    "--checks",
    type=click.Path(path_type=Path),
    help="Folder of further experiments, of programs similar to those that will be predicted. They "
    "determine interval widths.  [default: FOLDER]",
)
def calibrate_command(folder: Path, output: Path, checks: Path | None) -> None:
    """Build a calibration for `predict` from the experiments under FOLDER.

    FOLDER contains recordings of `graphviz-dash bench predict -o FOLDER`, or other experiments with
    an eager and a graph run of one machine. Prints the error of each workload when it is predicted
    from the others.
    """
    recorded, source = _collect_recordings(folder)
    checked = _collect_recordings(checks)[0] if checks else []
    calibration = calibrate(recorded, source, checked)
    write_calibration(output, calibration)
    _print_calibration(calibration)
    click.echo(f"Written to {output}", err=True)


def _collect_recordings(folder: Path) -> tuple[list[RecordedWorkload], CalibrationSource]:
    """Collect the usable workloads under a folder and their source.

    Raises:
        InputError: no workload, several GPUs, or an unnamed GPU.
    """
    recorded: list[RecordedWorkload] = []
    machines, dates = [], []
    for path in find_experiments(folder):
        experiment = load_experiment(path)
        workload = build_recorded_workload(experiment)
        if isinstance(workload, Missing):
            print_text(f"Omitted: {path.name}: {workload.reason}", err=True)
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
        raise InputError(folder, "recordings without a GPU name", "recordings with a GPU name")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return recorded, CalibrationSource(gpu, machines[0], max(dates), __version__, now)


def _print_calibration(calibration: Calibration) -> None:
    print_heading("Each workload, predicted from the others")
    table = create_table(
        "workload", "nodes", "streams", "measured", "predicted", "error", right=range(1, 6)
    )
    for sample in calibration.samples:
        table.add_row(
            sample.name,
            sample.nodes,
            sample.streams,
            format_ns(sample.step_ns),
            format_ns(round(sample.predicted_ns)),
            f"{sample.predicted_ns / sample.step_ns - 1:+.1%}",
        )
    print_table(table)
    click.echo()
    scored = calibration.holdout_samples or calibration.samples
    click.echo(f"Of {pluralize(len(scored), 'workload')}, 90% are within their intervals.")
