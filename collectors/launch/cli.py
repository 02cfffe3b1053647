"""The ``graphviz-dash bench launch`` command. Only its subprocesses import torch."""

from __future__ import annotations

import shlex
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click

from collectors.ceilings.cli import measure_limits
from collectors.collection.machine import read_machine_environment
from collectors.collection.requirements import require
from collectors.launch import processes as running
from collectors.launch import requests
from collectors.predict.cli import predict
from graphviz_dash import __version__
from graphviz_dash.bundle.launch import LAUNCH_FILE, write_launch
from graphviz_dash.errors import InputError
from graphviz_dash.model.launch import (
    LAUNCH_FORMAT_NAME,
    LAUNCH_FORMAT_VERSION,
    LaunchRecording,
)

_INTERRUPTED = 130


def _parse_counts(
    _context: click.Context, option: click.Parameter, value: str | None
) -> tuple[int, ...] | None:
    if value is None:
        return None
    try:
        counts = tuple(dict.fromkeys(int(part) for part in value.split(",") if part.strip()))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a list of whole numbers") from error
    if not counts or min(counts) < 1:
        raise click.BadParameter(f"{value!r}: give at least one number, all 1 or more")
    return counts


@click.group()
def bench() -> None:
    """Run this machine's benchmarks."""


bench.add_command(predict)
bench.add_command(measure_limits)


@bench.command(short_help="Time the life cycle of synthetic graphs.")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Folder for the recording, {LAUNCH_FILE}.",
)
@click.option(
    "--trials",
    default=12,
    show_default=True,
    type=click.IntRange(1),
    help="Trials per graph and process.",
)
@click.option(
    "--processes",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="Sequential processes. The spread includes variation between them.",
)
@click.option(
    "--lengths",
    callback=_parse_counts,
    metavar="LIST",
    help="Comma-separated node counts of the linear chains.   [default: 1 to 2048]",
)
@click.option(
    "--width", default=4, show_default=True, type=click.IntRange(2), help="Parallel chains."
)
@click.option(
    "--chain-lengths",
    callback=_parse_counts,
    metavar="LIST",
    help="Nodes per parallel chain.   [default: 10,50,100,256]",
)
@click.option(
    "--widths",
    callback=_parse_counts,
    metavar="LIST",
    help="Numbers of 10-node chains, to measure the cost of a root.   [default: 1,2,4,8,16,32]",
)
def launch(
    output: Path,
    trials: int,
    processes: int,
    lengths: tuple[int, ...] | None,
    width: int,
    chain_lengths: tuple[int, ...] | None,
    widths: tuple[int, ...] | None,
) -> None:
    """Time the life cycle of synthetic graphs: creation, instantiation, upload, launches.

    Follows NVIDIA's sample cudaGraphsPerfScaling, in processes without a profiler. Keeps every
    sample, also after an interrupt.
    """
    require("torch", "cuda.bindings")
    if (output / LAUNCH_FILE).exists():
        raise InputError(
            output / LAUNCH_FILE,
            "the folder already holds a recording",
            "an empty or new folder",
            "Choose another -o, or delete that recording.",
        )
    with tempfile.TemporaryDirectory() as scratch:
        environment = read_machine_environment(Path(scratch))
    topologies = requests.build_topologies(
        lengths or requests.LENGTHS,
        width,
        chain_lengths or requests.CHAIN_LENGTHS,
        widths or requests.WIDTHS,
    )
    trial_count = trials * processes
    click.echo(
        f"{environment.gpu_name}: {len(topologies)} graphs, {trial_count} trials each", err=True
    )
    measured = running.measure_in_processes(
        topologies, trials, processes, lambda line: click.echo(line, err=True)
    )
    if measured.series:
        write_launch(
            output,
            LaunchRecording(
                format=LAUNCH_FORMAT_NAME,
                version=LAUNCH_FORMAT_VERSION,
                tool_version=__version__,
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                command=("graphviz-dash", *sys.argv[1:]),
                environment=environment,
                trials=trial_count,
                complete=measured.complete,
                call_ns=measured.call_ns,
                clock_ns=measured.clock_ns,
                series=measured.series,
                process_trials=trials,
            ),
        )
        click.echo(output)
        click.echo(f"View: graphviz-dash launch {shlex.quote(str(output))}", err=True)
    if not measured.complete:
        sampled = sum(len(series.samples) > 0 for series in measured.series)
        click.echo(f"interrupted; kept samples of {sampled} of {len(topologies)} graphs", err=True)
        raise click.exceptions.Exit(_INTERRUPTED)
