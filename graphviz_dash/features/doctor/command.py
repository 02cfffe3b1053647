"""``graphviz-dash doctor``: explains failed captures and wrong replays."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from graphviz_dash.analysis.doctor import (
    EXIT_CODES,
    CaptureOutcome,
    Diagnosis,
    diagnose,
    omit_unexplained,
)
from graphviz_dash.analysis.metrics.run_selection import may_be_eager
from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.evaluation import predict_run
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.replay_check import ReplayDiagnosis, diagnose_replays
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.bundle.staging import create_scratch_folder
from graphviz_dash.cli.loading import open_run
from graphviz_dash.cli.options import JSON_OPTION
from graphviz_dash.cli.text.brief import add_all_option, limit_output
from graphviz_dash.cli.text.output import print_heading, print_json, print_text
from graphviz_dash.errors import GraphvizDashError, InputError, MissingRequirementError
from graphviz_dash.features.doctor.document import build_doctor_document
from graphviz_dash.features.doctor.replay_document import build_replay_check_document
from graphviz_dash.features.doctor.replay_text import print_replay_check
from graphviz_dash.features.doctor.support_report import format_support_report
from graphviz_dash.features.doctor.text import print_diagnosis, print_trace_blockers
from graphviz_dash.features.torch_compile.analysis.report import CompileReport, build_compile_report
from graphviz_dash.features.torch_compile.narrative import summarize_compilation
from graphviz_dash.features.torch_compile.text import print_causes, print_rules
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.doctor import Severity

_INSTALL = "pip install 'graphviz-dash[collect]'"
_STDERR: Final = 2
_MAX_CAUSES: Final = 10
_OUTCOMES: Final = {
    Severity.ILLEGAL: CaptureOutcome.ILLEGAL,
    Severity.SILENT: CaptureOutcome.SILENT,
    Severity.COSTLY: CaptureOutcome.HEALTHY,
}
_PROGRAM_FAILED: Final = 7
"""If the examined program itself ended with an error."""


@click.command()
@click.option("--workload", metavar="NAME", help="Built-in workload, or package.module:factory.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Parameter of the workload, such as layers=24; may be repeated.",
)
@click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    help="Reprint the doctor reports of this run bundle or experiment, or the blockers in its "
    "trace; needs no GPU.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Experiment folder for the run bundle, written as DIR/doctor.",
)
@click.option(
    "--warmup",
    default=3,
    show_default=True,
    type=click.IntRange(1),
    help="Number of steps before observation starts.",
)
@click.option(
    "--steps",
    default=3,
    show_default=True,
    type=click.IntRange(2),
    help="Number of steps to observe and compare.",
)
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of torch's generator.")
@click.option(
    "--replays",
    is_flag=True,
    help="Compare replays of the workload with eager steps, operator by operator; or, with "
    "--bundle, print only that check.",
)
@add_all_option
@JSON_OPTION
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
    replays: bool,
    everything: bool,
    as_json: bool,
    report: bool,
    redact: bool,
    program: tuple[str, ...],
) -> None:
    """Find capture blockers of a workload, or of a PROGRAM given after --.

    Shows the first illegal call with its line, operator, stream and rule, then all other findings,
    including silent ones, with advice. docs/reference/rules.md has
    the rules.

    Exit code: 0 no findings, 1 a capture fails, 3 a capture succeeds but replays do not reproduce
    the step.

    With --report, examines nothing: prints the facts that a bug report needs.
    """
    if redact and not report:
        raise click.UsageError("--redact needs --report.")
    if report:
        if workload or program:
            raise click.UsageError("--report takes --bundle only.")
        click.echo(format_support_report(bundle, redact), nl=False)
        return
    subjects = [bool(workload), bundle is not None, bool(program)]
    if sum(subjects) != 1:
        raise click.UsageError("Give one of --workload, --bundle, or a program after --.")
    if replays and program:
        raise click.UsageError(
            "--replays needs a step that can run again: use --workload, or graphviz-dash collect "
            "--marks for a program."
        )
    if bundle is not None:
        paths = _find_checked_bundles(bundle) if replays else _find_reported_bundles(bundle)
        raise click.exceptions.Exit(_report_bundles(paths, as_json, everything, replays=replays))
    _require_collectors()
    arguments = [f"--warmup={warmup}", f"--steps={steps}", f"--seed={seed}"]
    arguments += [f"--set={setting}" for setting in settings]
    arguments += ["--replays"] if replays else []
    arguments += [f"--workload={workload}"] if workload else ["--", *program]
    if output is not None:
        raise click.exceptions.Exit(
            _examine(output, arguments, as_json, everything, replays=replays)
        )
    with create_scratch_folder() as folder:
        raise click.exceptions.Exit(
            _examine(folder, arguments, as_json, everything, replays=replays)
        )


def _examine(
    output: Path, arguments: list[str], as_json: bool, everything: bool, *, replays: bool
) -> int:
    """Run the examination in a separate process and print its result."""
    command_line = json.dumps(["graphviz-dash", *sys.argv[1:]])
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8", suffix=".bundles") as listing:
        process = subprocess.Popen(
            [
                # -P: never import modules from the working folder.
                *(sys.executable, "-P", "-m", "collectors.doctor"),
                *(
                    f"--output={output}",
                    f"--typed={command_line}",
                    f"--written={listing.name}",
                ),
                *arguments,
            ],
            # Program output goes to stderr: stdout holds the report.
            stdout=_STDERR,
        )
        with ExitStack() as cleanup:
            # An interrupt of this process alone; the other passes it on to the program.
            cleanup.callback(process.wait)
            cleanup.callback(process.terminate)
            process.wait()
            cleanup.pop_all()
        bundles = [Path(line) for line in listing.read().splitlines()]
    if process.returncode not in (0, _PROGRAM_FAILED) or not bundles:
        # That process has already reported the error on stderr.
        raise click.exceptions.Exit(process.returncode or GraphvizDashError.exit_code)
    return _report_bundles(bundles, as_json, everything, replays=replays)


def _find_checked_bundles(path: Path) -> list[Path]:
    """Use the bundle, or those of the experiment.

    Raises:
        InputError: No replays were checked.
    """
    if is_bundle(path):
        return [path]
    runs = load_experiment(path, traces=False).runs
    paths = [run.path for run in runs if run.replay_check is not None]
    if not paths:
        raise InputError(
            path,
            "no check of replays",
            "a bundle written by graphviz-dash doctor --replays or graphviz-dash collect --marks",
        )
    return paths


def _find_reported_bundles(path: Path) -> list[Path]:
    """Return the bundle at ``path``, or the examined ones of the experiment there, or else its
    baseline, whose trace may show blockers."""
    if is_bundle(path):
        return [path]
    runs = load_experiment(path, traces=False).runs
    reports = [run.path for run in runs if run.doctor is not None or run.replay_check is not None]
    compilations = [run.path for run in runs if run.compilation is not None]
    baselines = [run.path for run in runs if may_be_eager(run)]
    return reports or compilations or baselines[:1] or [run.path for run in runs[:1]]


class _Examination(Struct, frozen=True):
    """Examination results of a bundle; at least one is present."""

    name: str
    diagnosis: Diagnosis | None
    """None if the doctor did not run."""
    compilation: CompileReport | None
    """Compilation report; None if nothing was compiled."""
    prediction: Prediction | None
    """From eager steps; None if other results are present."""
    replays: ReplayDiagnosis | None
    """None if the check did not run."""

    @property
    def outcomes(self) -> set[CaptureOutcome]:
        """Recorded or predicted outcomes of captures."""
        if self.diagnosis is not None:
            return {self.diagnosis.outcome}
        blockers = self.prediction.blockers if self.prediction is not None else ()
        return {_OUTCOMES[blocker.rule.severity] for blocker in blockers if blocker.certain}


def _report_bundles(bundles: list[Path], as_json: bool, everything: bool, *, replays: bool) -> int:
    results = [_load_examination(path) for path in bundles]
    diagnoses = [bundle.replays for bundle in results if bundle.replays is not None]
    # A marked program has no report on captures.
    has_only_replays = all(bundle.replays and not bundle.diagnosis for bundle in results)
    if as_json and (replays or has_only_replays):
        print_json("replay-check", build_replay_check_document(diagnoses))
    elif as_json:
        rows = [(bundle.diagnosis, bundle.compilation, bundle.prediction) for bundle in results]
        print_json("doctor", build_doctor_document(rows))
    else:
        with limit_output(everything=everything):
            for bundle in results:
                _print_examination(bundle, is_only_run=len(bundles) == 1, everything=everything)
    outcomes = {outcome for bundle in results for outcome in bundle.outcomes}
    for outcome in (CaptureOutcome.ILLEGAL, CaptureOutcome.SILENT):
        if outcome in outcomes:
            return EXIT_CODES[outcome]
    return max((diagnosis.exit_code for diagnosis in diagnoses), default=0)


def _print_examination(result: _Examination, *, is_only_run: bool, everything: bool) -> None:
    name = None if is_only_run else result.name
    replays = result.replays
    has_faults = replays is not None and replays.fault_count > 0
    if replays is not None and has_faults:
        print_replay_check(name, replays)
    if result.diagnosis is not None:
        if has_faults:
            print_heading("Capture")
        has_cause = replays is not None and replays.has_cause
        diagnosis = omit_unexplained(result.diagnosis) if has_cause else result.diagnosis
        print_diagnosis(name, diagnosis, everything=everything)
    if result.compilation is not None:
        if name is not None and result.diagnosis is None and not has_faults:
            print_heading(name)
        print_text(summarize_compilation(result.compilation))
        print_causes(result.compilation.causes, _MAX_CAUSES)
        if everything:
            print_rules(result.compilation.rules)
    if result.prediction is not None:
        print_trace_blockers(result.prediction)
    if replays is not None and not replays.fault_count:
        if result.diagnosis is not None:
            print_heading("Replays")
        print_replay_check(name, replays)


def _load_examination(path: Path) -> _Examination:
    """Load the results; InputError if the bundle has none."""
    run = open_run(path)
    diagnosis = None if run.doctor is None else diagnose(run.doctor)
    compilation = None if run.compilation is None else build_compile_report(run)
    prediction: Prediction | Missing | None = None
    replays = None if run.replay_check is None else diagnose_replays(run.replay_check)
    if diagnosis is None and compilation is None and replays is None:
        if may_be_eager(run) and run.replay_trace is not None:
            prediction = predict_run(run, load_shipped_calibration())
        if not isinstance(prediction, Prediction):
            suffix = f", and {prediction.reason}" if isinstance(prediction, Missing) else ""
            raise InputError(
                path,
                f"no doctor report, no torch.compile data{suffix}",
                "a bundle written by graphviz-dash doctor, one with a failed capture, one of a "
                "program that compiles, or one with a trace of eager steps",
                "Examine the workload: graphviz-dash doctor --workload NAME -o FOLDER.",
            )
    return _Examination(
        path.name,
        diagnosis,
        None if isinstance(compilation, Missing) else compilation,
        None if isinstance(prediction, Missing) else prediction,
        replays,
    )


def _require_collectors() -> None:
    missing = [name for name in ("torch", "cuda.bindings") if not _can_import(name)]
    if missing:
        raise MissingRequirementError(
            f"The doctor needs {' and '.join(missing)}, not installed here: {_INSTALL}. "
            "To view a report from another machine, use --bundle."
        )


def _can_import(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
