"""Examines a workload or a program and writes what was found as a run bundle. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from collectors.collection.machine import machine_environment
from collectors.doctor.requests import COMPILATION_FILE, REPORT_FILE, ProgramSettings
from collectors.program.launcher import ProgramExit, run_program, why_unwatched
from graphviz_dash import __version__
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.doctor import DoctorReport, Finding, Severity
from graphviz_dash.model.run import (
    FORMAT_NAME,
    FORMAT_VERSION,
    Absent,
    ExecutionMode,
    Failure,
    Manifest,
    Pass,
    WorkloadInfo,
)

PROGRAM_HOOK = "collectors.doctor.program:hook"
_TIMES = "the doctor measures no times"


@dataclass(frozen=True)
class Examined:
    """What came of an examination."""

    reports: tuple[DoctorReport, ...]
    """Of each process that was watched."""
    ended: ProgramExit | None
    """How the program ended; None for a workload."""
    compilations: tuple[Compilation | None, ...] = ()
    """What torch.compile did in each process, None where nothing; empty for a workload."""

    def compilation(self, number: int) -> Compilation | None:
        """What torch.compile did in the process of the report ``number``."""
        return self.compilations[number] if number < len(self.compilations) else None


def examine_program(command: Sequence[str], skip: int, steps: int, scratch: Path) -> Examined:
    """Runs a program to its end and watches its captures, or else its training steps.

    Raises:
        GraphvizDashError: no process of it could be watched; the message says why.
    """
    settings = msgspec.json.encode(ProgramSettings(skip=skip, steps=steps)).decode()
    ended = run_program(command, PROGRAM_HOOK, settings, scratch)
    reason = why_unwatched(ended)
    if reason is not None:
        raise GraphvizDashError(f"The program could not be watched: {reason}.")
    files = sorted(scratch.glob(f"*-{REPORT_FILE}"))
    reports = tuple(msgspec.json.decode(file.read_bytes(), type=DoctorReport) for file in files)
    if not reports:
        raise GraphvizDashError(
            "The program did nothing that could be examined: it captured no graph, called no "
            "optimizer and no module without gradients, or was killed before it ended."
        )
    return Examined(reports, ended, tuple(map(_compilation_beside, files)))


def _compilation_beside(report: Path) -> Compilation | None:
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
) -> None:
    """Writes a report as a run bundle, with what torch.compile did if it did anything.

    Raises:
        InputError: something is at ``target`` already.
    """
    failures = tuple(_failure(finding) for finding in report.findings if finding.first)
    manifest = Manifest(
        format=FORMAT_NAME,
        version=FORMAT_VERSION,
        tool_version=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        workload=workload,
        mode=ExecutionMode.GRAPH,
        rank=None,
        status="failed" if failures else "complete",
        failures=failures,
        absent=tuple(Absent(kind.fact, _TIMES) for kind in Pass),
        environment=machine_environment(scratch),
        files=(),
    )
    with BundleWriter(target) as writer:
        writer.add(parts.DOCTOR, report)
        if compilation is not None:
            writer.add(parts.COMPILATION, compilation)
        writer.commit(manifest)


def _failure(finding: Finding) -> Failure:
    assert finding.severity is Severity.ILLEGAL
    message = finding.message or "the capture was invalidated"
    location = finding.place.text if finding.place else None
    return Failure(
        during=Pass.CAPTURE,
        error=f"illegal in a capture: {finding.rule.value}",
        message=message,
        location=location,
        traceback=f"{location or 'unknown place'}: {finding.op or 'a call'}: {message}",
    )
