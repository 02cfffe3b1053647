"""``graphviz-dash gate``: fails a build on a regression against a baseline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from graphviz_dash.bundle.baseline import read_baseline
from graphviz_dash.cli.loading import open_experiment
from graphviz_dash.cli.options import JSON_OPTION
from graphviz_dash.cli.text.output import print_json, print_text
from graphviz_dash.features.gate.document import build_gate_document
from graphviz_dash.features.gate.gate import GateResult, build_baseline, check_gate
from graphviz_dash.features.gate.markdown import format_summary, write_baseline, write_summary
from graphviz_dash.features.gate.text import print_gate
from graphviz_dash.model.baseline import Baseline

_DEFAULT_LIMIT: Final = "5%"


def parse_share(text: str) -> float:
    """Convert ``5%`` or ``0.05`` to a fraction from 0 to 10 (1000%).

    Raises:
        click.BadParameter: the text is not a share.
    """
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(%?)\s*", text, re.ASCII)
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share <= 10:
        raise click.BadParameter(f"{text!r} is not a share such as 5% or 0.05")
    return share


@click.command("gate")
@click.argument("experiments", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--baseline",
    "baseline",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Baseline to compare with: a file or an experiment folder.",
)
@click.option(
    "--max-regression",
    "limit",
    default=_DEFAULT_LIMIT,
    show_default=True,
    metavar="SHARE",
    type=parse_share,
    help="Maximum regression of a figure.",
)
@click.option(
    "--summary",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Write the result as Markdown for a pull request; - replaces the text on stdout.",
)
@click.option(
    "--write-baseline",
    "target",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a baseline instead of gating.",
)
@JSON_OPTION
def gate_command(
    experiments: tuple[Path, ...],
    baseline: Path | None,
    limit: float,
    file: Path | None,
    target: Path | None,
    as_json: bool,
) -> None:
    """Exit with 1 if an EXPERIMENT is worse than its baseline by more than allowed.

    Times are compared with their spread: only significant regressions fail. Counts and memory are
    exact. A failed or missing run fails too. docs/how-to/fail-a-build.md describes the method and
    its error rate.

    --write-baseline builds a baseline from one EXPERIMENT, or from several recordings of the same
    workload.
    """
    if (baseline is None) == (target is None):
        raise click.UsageError("Give either --baseline or --write-baseline")
    if target is not None:
        if file is not None or as_json:
            raise click.UsageError("--write-baseline produces no result to write")
        _write_baseline_file(experiments, target)
        return
    if len(experiments) > 1:
        raise click.UsageError("only one EXPERIMENT can be gated; several build a baseline")
    to_stdout = file is not None and str(file) == "-"
    if to_stdout and as_json:
        raise click.UsageError("--summary - and --json both use stdout")
    result = _gate_experiment(experiments[0], baseline or Path(), limit)
    if file is not None and not to_stdout:
        write_summary(result, file)
    if as_json:
        print_json("gate", build_gate_document(result))
    elif to_stdout:
        click.echo(format_summary(result), nl=False)
    else:
        print_gate(result)
    if not result.passed:
        raise click.exceptions.Exit(1)


def _write_baseline_file(experiments: tuple[Path, ...], target: Path) -> None:
    baseline = build_baseline([open_experiment(path) for path in experiments])
    write_baseline(baseline, target)
    for recording in baseline.recordings:
        for run in recording.runs:
            contents = ", ".join((*run.series, *run.counts)) or "nothing to compare"
            failed = f"; {run.failure}" if run.failure is not None else ""
            print_text(f"{recording.name}/{run.name}: {contents}{failed}", err=True)
    print_text(str(target))


def _gate_experiment(experiment: Path, baseline_path: Path, limit: float) -> GateResult:
    baseline = _load_baseline(baseline_path)
    return check_gate(open_experiment(experiment), baseline, baseline_path, limit)


def _load_baseline(path: Path) -> Baseline:
    """Read a baseline from its file, or build one from the experiment in a folder."""
    return build_baseline([open_experiment(path)]) if path.is_dir() else read_baseline(path)
