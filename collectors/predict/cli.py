"""The ``graphviz-dash bench predict`` command. Imports torch only for the names of the suite."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from collectors.collection.requirements import require
from graphviz_dash.errors import InputError, escape_control_characters

CALIBRATION = "collectors.predict.calibration"


@click.command(short_help="Record workloads that calibrate predictions.")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the experiments, one per workload.",
)
@click.option(
    "--suite",
    default=CALIBRATION,
    show_default=True,
    metavar="MODULE",
    help="Module with a dictionary SUITE of workloads.",
)
@click.option("--only", metavar="LIST", help="Comma-separated workload names.")
@click.option("--iterations", default=100, show_default=True, type=click.IntRange(1))
@click.option("--eager-iterations", default=30, show_default=True, type=click.IntRange(1))
@click.option("--traced-iterations", default=4, show_default=True, type=click.IntRange(1))
@click.option("--warmup", default=5, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True, type=int)
def predict(
    output: Path,
    suite: str,
    only: str | None,
    iterations: int,
    eager_iterations: int,
    traced_iterations: int,
    warmup: int,
    seed: int,
) -> None:
    """Record many workloads, eager and graphed, to calibrate predictions.

    One process times the eager and the graphed step of each workload without a profiler. Another
    one traces the eager step. `graphviz-dash calibrate` creates a calibration from the result.
    """
    require("torch", "cuda.bindings")
    from collectors.predict.run import SuiteRecording, record_suite
    from collectors.predict.suites import load_suite

    factories = load_suite(suite)
    names = tuple(part.strip() for part in only.split(",")) if only else tuple(factories)
    for name in names:
        if name not in factories:
            raise InputError(f"--only {name}", "no such workload", f"one of {', '.join(factories)}")
    failures = record_suite(
        SuiteRecording(
            suite=suite,
            names=names,
            factories={
                name: f"{factory.__module__}:{getattr(factory, '__name__', name)}"
                for name, factory in factories.items()
            },
            output=output,
            iterations=iterations,
            eager_iterations=eager_iterations,
            traced_iterations=traced_iterations,
            warmup=warmup,
            seed=seed,
            command=("graphviz-dash", *sys.argv[1:]),
        ),
        lambda text: click.echo(text, err=True),
    )
    click.echo(output)
    click.echo(
        f"Next: graphviz-dash calibrate {shlex.quote(str(output))} -o calibration.json",
        err=True,
    )
    for name, failure in failures:
        click.echo(
            escape_control_characters(f"{name}: {failure.error}: {failure.message}"), err=True
        )
    if failures:
        raise click.exceptions.Exit(1)
