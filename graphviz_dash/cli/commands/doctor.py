"""``graphviz-dash doctor``: why a capture fails, and what a replay would silently not do."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

from graphviz_dash.analysis.compiled.report import CompileReport, compile_report
from graphviz_dash.analysis.doctor import (
    EXIT_CODES,
    CaptureOutcome,
    Diagnosis,
    diagnose,
)
from graphviz_dash.cli.loading import loaded_run
from graphviz_dash.cli.text.doctor import print_diagnosis
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.cli.text.programs.compiled import print_causes, print_rules
from graphviz_dash.errors import GraphvizDashError, InputError, MissingRequirementError
from graphviz_dash.exports.documents.doctor import doctor_document
from graphviz_dash.model.absence import Missing

_INSTALL = "pip install 'graphviz-dash[collect]'"
_STDERR: Final = 2
_CAUSES: Final = 10
_PROGRAM_FAILED: Final = 7
"""Exit code of the examining process: done, and the program itself ended with an error."""


@click.command()
@click.option("--workload", metavar="NAME", help="A built-in workload, or package.module:factory.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the workload, such as layers=24; as often as needed.",
)
@click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    help="Tell again what the doctor found in this run bundle; needs no GPU.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of an experiment to write the run bundle into, as DIR/doctor.",
)
@click.option(
    "--warmup",
    default=3,
    show_default=True,
    type=click.IntRange(1),
    help="Steps before anything is watched.",
)
@click.option(
    "--steps",
    default=3,
    show_default=True,
    type=click.IntRange(2),
    help="Steps that are watched and compared with each other.",
)
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of torch's generator.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document (docs/cli.md).")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def doctor(
    workload: str | None,
    settings: tuple[str, ...],
    bundle: Path | None,
    output: Path | None,
    warmup: int,
    steps: int,
    seed: int,
    as_json: bool,
    program: tuple[str, ...],
) -> None:
    """Find what breaks the capture of a workload, or of a PROGRAM given after --.

    Names the first illegal call with its line, operator, stream and rule, then the other findings,
    those included that no error tells of, and what to do instead. docs/doctor.md has the rules.

    Exit code: 0 nothing found, 1 a capture fails, 3 a capture succeeds but replays do not do what
    the step does.
    """
    given = [bool(workload), bundle is not None, bool(program)]
    if sum(given) != 1:
        raise click.UsageError("Give one of --workload, --bundle, or a program after --.")
    if bundle is not None:
        raise click.exceptions.Exit(_tell([bundle], as_json))
    _require_collectors()
    arguments = [f"--warmup={warmup}", f"--steps={steps}", f"--seed={seed}"]
    arguments += [f"--set={setting}" for setting in settings]
    arguments += [f"--workload={workload}"] if workload else ["--", *program]
    if output is not None:
        raise click.exceptions.Exit(_examine(output, arguments, as_json))
    with tempfile.TemporaryDirectory(prefix="graphviz-dash-doctor-") as folder:
        raise click.exceptions.Exit(_examine(Path(folder), arguments, as_json))


def _examine(output: Path, arguments: list[str], as_json: bool) -> int:
    """Runs the examination in a process of its own and tells what it wrote."""
    typed = json.dumps(["graphviz-dash", *sys.argv[1:]])
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8", suffix=".bundles") as listing:
        process = subprocess.run(
            [
                *(sys.executable, "-m", "collectors.doctor"),
                *(f"--output={output}", f"--typed={typed}", f"--written={listing.name}"),
                *arguments,
            ],
            # What a program prints goes to stderr: stdout holds the report.
            stdout=_STDERR,
            check=False,
        )
        bundles = [Path(line) for line in listing.read().splitlines()]
    if process.returncode not in (0, _PROGRAM_FAILED) or not bundles:
        # What was wrong stands on stderr already, told by that process.
        raise click.exceptions.Exit(process.returncode or GraphvizDashError.exit_code)
    return _tell(bundles, as_json)


def _tell(bundles: list[Path], as_json: bool) -> int:
    examined = [(path.name, *_examined(path)) for path in bundles]
    if as_json:
        print_json("doctor", doctor_document([(told, compiled) for _, told, compiled in examined]))
    else:
        for name, diagnosis, compiled in examined:
            if diagnosis is not None:
                print_diagnosis(name if len(bundles) > 1 else None, diagnosis)
            if compiled is not None:
                print_causes(compiled.causes, _CAUSES)
                print_rules(compiled.rules)
    outcomes = {told.outcome for _, told, _ in examined if told is not None}
    for outcome in (CaptureOutcome.ILLEGAL, CaptureOutcome.SILENT):
        if outcome in outcomes:
            return EXIT_CODES[outcome]
    return 0


def _examined(path: Path) -> tuple[Diagnosis | None, CompileReport | None]:
    """What the doctor found in a bundle, and what became of what was compiled: one of the two at
    least.

    Raises:
        InputError: it has neither.
    """
    run = loaded_run(path)
    diagnosis = None if run.doctor is None else diagnose(run.doctor)
    compiled = None if run.compilation is None else compile_report(run)
    if diagnosis is None and compiled is None:
        raise InputError(
            path,
            "no doctor's report in it, and nothing of torch.compile",
            "a bundle that graphviz-dash doctor wrote, one of a capture that failed, or one of a "
            "program that compiles",
            "Examine the workload: graphviz-dash doctor --workload NAME -o FOLDER.",
        )
    return diagnosis, None if isinstance(compiled, Missing) else compiled


def _require_collectors() -> None:
    missing = [name for name in ("torch", "cuda.bindings") if not _found(name)]
    if missing:
        raise MissingRequirementError(
            f"The doctor needs {' and '.join(missing)}, not installed here: {_INSTALL}. "
            "Pass a report that was made elsewhere with --bundle."
        )


def _found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
