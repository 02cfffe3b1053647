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
from msgspec import Struct

from graphviz_dash.analysis.doctor import (
    EXIT_CODES,
    CaptureOutcome,
    Diagnosis,
    diagnose,
)
from graphviz_dash.analysis.metrics.run_selection import may_be_eager
from graphviz_dash.analysis.prediction.evaluation import predict_run
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.prediction.shipped_calibration import shipped_calibration
from graphviz_dash.cli.loading import loaded_run
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.errors import GraphvizDashError, InputError, MissingRequirementError
from graphviz_dash.features.doctor.document import doctor_document
from graphviz_dash.features.doctor.support_report import support_report
from graphviz_dash.features.doctor.text import print_diagnosis, print_traced
from graphviz_dash.features.torch_compile.analysis.report import CompileReport, compile_report
from graphviz_dash.features.torch_compile.text import print_causes, print_rules
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.doctor import Severity

_INSTALL = "pip install 'graphviz-dash[collect]'"
_STDERR: Final = 2
_CAUSES: Final = 10
_OUTCOMES: Final = {
    Severity.ILLEGAL: CaptureOutcome.ILLEGAL,
    Severity.SILENT: CaptureOutcome.SILENT,
}
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
    help="Show the findings stored in this run bundle, or in its trace; needs no GPU.",
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
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
@click.option(
    "--report",
    is_flag=True,
    help="Print versions, GPU and a summary of the recording in --bundle, for a bug report.",
)
@click.option("--redact", is_flag=True, help="Omit names, paths and messages from the report.")
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
    report: bool,
    redact: bool,
    program: tuple[str, ...],
) -> None:
    """Find what breaks the capture of a workload, or of a PROGRAM given after --.

    Names the first illegal call with its line, operator, stream and rule, then the other findings,
    those included that no error tells of, and what to do instead. docs/reference/rules.md has the
    rules.

    Exit code: 0 nothing found, 1 a capture fails, 3 a capture succeeds but replays do not do what
    the step does.

    With --report, examines nothing: prints the facts that a bug report needs.
    """
    if redact and not report:
        raise click.UsageError("--redact needs --report.")
    if report:
        if workload or program:
            raise click.UsageError("--report takes --bundle only.")
        click.echo(support_report(bundle, redact), nl=False)
        return
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


class _Examined(Struct, frozen=True):
    """What is known of a bundle; one of the three at least."""

    name: str
    """The bundle's folder."""
    diagnosis: Diagnosis | None
    """What the doctor found in it."""
    compiled: CompileReport | None
    """What became of what was compiled."""
    traced: Prediction | None
    """What the trace of its eager steps shows, where there is nothing else."""

    @property
    def outcomes(self) -> set[CaptureOutcome]:
        """What came of captures, or would."""
        if self.diagnosis is not None:
            return {self.diagnosis.outcome}
        blockers = self.traced.blockers if self.traced is not None else ()
        return {_OUTCOMES[blocker.rule.severity] for blocker in blockers if blocker.certain}


def _tell(bundles: list[Path], as_json: bool) -> int:
    examined = [_examined(path) for path in bundles]
    if as_json:
        rows = [(each.diagnosis, each.compiled, each.traced) for each in examined]
        print_json("doctor", doctor_document(rows))
    else:
        for each in examined:
            _print(each, alone=len(bundles) == 1)
    outcomes = {outcome for each in examined for outcome in each.outcomes}
    for outcome in (CaptureOutcome.ILLEGAL, CaptureOutcome.SILENT):
        if outcome in outcomes:
            return EXIT_CODES[outcome]
    return 0


def _print(examined: _Examined, *, alone: bool) -> None:
    if examined.diagnosis is not None:
        print_diagnosis(None if alone else examined.name, examined.diagnosis)
    if examined.compiled is not None:
        print_causes(examined.compiled.causes, _CAUSES)
        print_rules(examined.compiled.rules)
    if examined.traced is not None:
        print_traced(examined.traced)


def _examined(path: Path) -> _Examined:
    """What is known of a bundle.

    Raises:
        InputError: nothing is.
    """
    run = loaded_run(path)
    diagnosis = None if run.doctor is None else diagnose(run.doctor)
    compiled = None if run.compilation is None else compile_report(run)
    traced: Prediction | Missing | None = None
    if diagnosis is None and compiled is None:
        if may_be_eager(run) and run.replay_trace is not None:
            traced = predict_run(run, shipped_calibration())
        if not isinstance(traced, Prediction):
            shown = f", and {traced.reason}" if isinstance(traced, Missing) else ""
            raise InputError(
                path,
                f"no doctor's report in it, nothing of torch.compile{shown}",
                "a bundle that graphviz-dash doctor wrote, one of a capture that failed, one of a "
                "program that compiles, or one with the trace of eager steps",
                "Examine the workload: graphviz-dash doctor --workload NAME -o FOLDER.",
            )
    return _Examined(
        path.name,
        diagnosis,
        None if isinstance(compiled, Missing) else compiled,
        None if isinstance(traced, Missing) else traced,
    )


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
