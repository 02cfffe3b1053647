"""``graphviz-dash gate``: fails a build when an experiment got worse than its baseline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from graphviz_dash.bundle.baseline import read_baseline
from graphviz_dash.cli.loading import loaded_experiment
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.errors import printable
from graphviz_dash.features.gate.document import gate_document
from graphviz_dash.features.gate.gate import GateResult, baseline_of, gate
from graphviz_dash.features.gate.markdown import (
    summary,
    write_baseline,
    write_summary,
)
from graphviz_dash.features.gate.text import print_gate
from graphviz_dash.model.baseline import Baseline

_DEFAULT_LIMIT: Final = "5%"


class Share(click.ParamType[float]):
    """A share of one, given as ``5%`` or ``0.05``."""

    name = "share"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The share as a fraction; 0 to 10 (1000%)."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(%?)\s*", str(value), re.ASCII)
        share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
        if not 0 <= share <= 10:
            self.fail(f"{value!r} is no share such as 5% or 0.05", param, ctx)
        return share


@click.command("gate")
@click.argument("experiments", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--baseline",
    "baseline",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Baseline to hold the experiment against: a file, or the folder of an experiment.",
)
@click.option(
    "--max-regression",
    "limit",
    default=_DEFAULT_LIMIT,
    show_default=True,
    type=Share(),
    help="How much worse a figure may be.",
)
@click.option(
    "--summary",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Write the result in Markdown, for a pull request; - for stdout, instead of the text.",
)
@click.option(
    "--write-baseline",
    "target",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the baseline of the experiment, and gate nothing.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
def gate_command(
    experiments: tuple[Path, ...],
    baseline: Path | None,
    limit: float,
    file: Path | None,
    target: Path | None,
    as_json: bool,
) -> None:
    """Exit with 1 when an EXPERIMENT is worse than its baseline by more than is allowed.

    Times are compared with their spread: only what is surely worse fails. Counts and memory are
    exact. A run that failed, or is missing, fails too. docs/gate.md says how, and how often it is
    wrong.

    A baseline is written with --write-baseline, of one EXPERIMENT, or of several recordings of the
    same thing.
    """
    if (baseline is None) == (target is None):
        raise click.UsageError("give one of --baseline and --write-baseline")
    if target is not None:
        if file is not None or as_json:
            raise click.UsageError("--write-baseline gates nothing, so there is no result to write")
        _write(experiments, target)
        return
    if len(experiments) > 1:
        raise click.UsageError("one EXPERIMENT is gated; several make a baseline")
    to_stdout = file is not None and str(file) == "-"
    if to_stdout and as_json:
        raise click.UsageError("--summary - and --json both take stdout")
    result = _gate(experiments[0], baseline or Path(), limit)
    if file is not None and not to_stdout:
        write_summary(result, file)
    if as_json:
        print_json("gate", gate_document(result))
    elif to_stdout:
        click.echo(summary(result), nl=False)
    else:
        print_gate(result)
    if not result.passed:
        raise click.exceptions.Exit(1)


def _write(experiments: tuple[Path, ...], target: Path) -> None:
    baseline = baseline_of([loaded_experiment(path) for path in experiments])
    write_baseline(baseline, target)
    for recording in baseline.recordings:
        for run in recording.runs:
            held = ", ".join((*run.series, *run.counts)) or "nothing to compare"
            failed = f"; {run.failure}" if run.failure is not None else ""
            click.echo(printable(f"{recording.name}/{run.name}: {held}{failed}"), err=True)
    click.echo(printable(str(target)))


def _gate(experiment: Path, baseline_path: Path, limit: float) -> GateResult:
    held = _baseline(baseline_path)
    return gate(loaded_experiment(experiment), held, baseline_path, limit)


def _baseline(path: Path) -> Baseline:
    """A baseline from its file, or made of the experiment in a folder."""
    return baseline_of([loaded_experiment(path)]) if path.is_dir() else read_baseline(path)
