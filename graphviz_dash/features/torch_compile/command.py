"""``graphviz-dash compile``: torch.compile report of a run, with the top fixes."""

from __future__ import annotations

import os
from pathlib import Path

import click

from graphviz_dash.cli.loading import open_run
from graphviz_dash.cli.options import JSON_OPTION, add_count_option
from graphviz_dash.cli.text.brief import add_all_option, limit_output
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.errors import InputError
from graphviz_dash.features.torch_compile.analysis.report import build_compile_report
from graphviz_dash.features.torch_compile.document import build_compile_document
from graphviz_dash.features.torch_compile.text import print_compiled, print_compiled_summary
from graphviz_dash.model.absence import Missing


@click.command("compile")
@click.argument("run", type=click.Path(path_type=Path))
@add_count_option("--causes", 10, "causes that --all lists, largest saving first")
@add_all_option
@JSON_OPTION
def compile_command(run: Path, count: int, everything: bool, as_json: bool) -> None:
    """Explain how torch.compile handled a RUN: graph breaks, splits, skips, copies, recompiles.

    Prints the step time breakdown and the causes that prevent a single replay, with line and
    expected saving; with --all also the advice and the program tree from user functions to recorded
    graphs.
    """
    report = build_compile_report(open_run(Path(os.path.abspath(run))))
    if isinstance(report, Missing):
        raise InputError(
            run,
            report.reason,
            "a run with compiled code",
            "Record it with graphviz-dash collect -- python ..., or in mode compile.",
        )
    if as_json:
        print_json("compile", build_compile_document(report))
    else:
        with limit_output(everything=everything):
            if everything:
                print_compiled(report, count)
            else:
                print_compiled_summary(report)
