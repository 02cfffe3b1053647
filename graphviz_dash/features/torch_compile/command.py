"""``graphviz-dash compile``: what torch.compile made of a run's step, and what to mend first."""

from __future__ import annotations

import os
from pathlib import Path

import click

from graphviz_dash.cli.loading import loaded_run
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.errors import InputError
from graphviz_dash.features.torch_compile.analysis.report import compile_report
from graphviz_dash.features.torch_compile.document import compile_document
from graphviz_dash.features.torch_compile.text import print_compiled
from graphviz_dash.model.absence import Missing


@click.command("compile")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--causes",
    "count",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="Causes to list, what saves most first; 0 for none.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
def compile_command(run: Path, count: int, as_json: bool) -> None:
    """Explain what torch.compile made of a RUN: graph breaks, splits, skips, copies, recompiles.

    Where the time of its step goes, what keeps the step from being one replay, each with its line
    and with what mending it would save, and the program from user function to recorded graphs.
    """
    report = compile_report(loaded_run(Path(os.path.abspath(run))))
    if isinstance(report, Missing):
        raise InputError(
            run,
            report.reason,
            "a run with compiled code",
            "Record it with graphviz-dash collect -- python ..., or in mode compile.",
        )
    if as_json:
        print_json("compile", compile_document(report))
    else:
        print_compiled(report, count)
