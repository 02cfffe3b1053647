"""Examine a workload or a program and write a run bundle. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from collectors.collection.machine import read_machine_environment
from collectors.doctor.requests import (
    COMPILATION_FILE,
    ENVIRONMENT_FILE,
    REPORT_FILE,
    ProgramSettings,
)
from collectors.process.results import read_json
from collectors.program.launcher import ProgramExit, explain_unwatched, run_program
from collectors.replays.ask import CheckedWorkload
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.write import BundleWriter, create_manifest
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.doctor import DoctorReport, Finding, Severity
from graphviz_dash.model.run import (
    Absent,
    Environment,
    ExecutionMode,
    Failure,
    Pass,
    WorkloadInfo,
)

PROGRAM_HOOK = "collectors.doctor.program:hook"
_TIMES = "the doctor does not measure times"


@dataclass(frozen=True)
class Examination:
    """Result of an examination."""

    reports: tuple[DoctorReport, ...]
    program_exit: ProgramExit | None
    """Exit of the program, or None for a workload."""
    compilations: tuple[Compilation | None, ...] = ()
    """Compilation of each process; empty for a workload."""

    def get_compilation(self, number: int) -> Compilation | None:
        """Return the compilation of the process of report ``number``, or None."""
        return self.compilations[number] if number < len(self.compilations) else None


def examine_program(command: Sequence[str], skip: int, steps: int, scratch: Path) -> Examination:
    """Run a program and observe its captures, or its training steps if it captures nothing.

    Raises:
        GraphvizDashError: No process could be observed.
    """
    settings = msgspec.json.encode(ProgramSettings(skip=skip, steps=steps)).decode()
    program_exit = run_program(command, PROGRAM_HOOK, settings, scratch)
    reason = explain_unwatched(program_exit)
    if reason is not None:
        raise GraphvizDashError(f"The program could not be observed: {reason}.")
    return read_examination(scratch, program_exit)


def read_examination(scratch: Path, program_exit: ProgramExit | None) -> Examination:
    """Read the reports of the processes of an ended program.

    Raises:
        GraphvizDashError: No process wrote a report.
    """
    files = sorted(scratch.glob(f"*-{REPORT_FILE}"))
    reports = tuple(msgspec.json.decode(file.read_bytes(), type=DoctorReport) for file in files)
    if not reports:
        raise GraphvizDashError(
            "The program did nothing to examine: it captured no graph and called neither an "
            "optimizer nor a module without gradients, or it was killed early."
        )
    return Examination(reports, program_exit, tuple(map(_read_compilation, files)))


def _read_compilation(report: Path) -> Compilation | None:
    file = report.with_name(report.name.removesuffix(REPORT_FILE) + COMPILATION_FILE)
    if not file.exists():
        return None
    return msgspec.json.decode(file.read_bytes(), type=Compilation)


def write_bundle(
    target: Path,
    report: DoctorReport,
    workload: WorkloadInfo,
    command: tuple[str, ...],
    scratch: Path,
    compilation: Compilation | None = None,
    replay_result: CheckedWorkload | None = None,
) -> None:
    """Write the results of an examination as a run bundle.

    Raises:
        InputError: ``target`` already exists.
    """
    failures = tuple(_to_failure(finding) for finding in report.findings if finding.ends_capture)
    manifest = create_manifest(
        command=command,
        workload=workload,
        mode=ExecutionMode.GRAPH,
        failures=failures,
        absent=tuple(Absent(kind.fact, _TIMES) for kind in Pass),
        environment=_read_environment(scratch),
    )
    with BundleWriter(target) as writer:
        writer.add(parts.DOCTOR, report)
        if compilation is not None:
            writer.add(parts.COMPILATION, compilation)
        if replay_result is not None:
            writer.add(parts.REPLAY_CHECK, replay_result.check)
            for graph in replay_result.graphs:
                writer.add_graph(graph)
        writer.commit(manifest)


def _read_environment(scratch: Path) -> Environment:
    """Return the environment that an examined workload left, or read it in another process."""
    file = scratch / ENVIRONMENT_FILE
    return read_json(file, Environment) if file.exists() else read_machine_environment(scratch)


def _to_failure(finding: Finding) -> Failure:
    assert finding.severity is Severity.ILLEGAL
    message = finding.message or "the capture was invalidated"
    location = finding.location.text if finding.location else None
    return Failure(
        stage=Pass.CAPTURE,
        error=f"illegal in a capture: {finding.rule.value}",
        message=message,
        location=location,
        traceback=f"{location or 'unknown location'}: {finding.op or 'a call'}: {message}",
    )
