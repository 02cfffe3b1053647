"""Mark the graphs of a program for ``graphviz-dash collect --marks -- python train.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from collectors.collection.machine import read_machine_environment
from collectors.program.bundle import resolve_target
from collectors.program.command import BUNDLE_ERRORS, get_program_name
from collectors.program.launcher import explain_unwatched, require_hook, run_program
from collectors.replays.ask import create_marks_folder
from collectors.replays.monitor import ReplayMonitor
from collectors.replays.notes import MarksSettings
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.staging import Staging
from graphviz_dash.bundle.write import BundleWriter, create_manifest
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.replay_check import REPLAY_FAULT_EXIT_CODE, ReplayCheck, ReplayStop
from graphviz_dash.model.run import (
    Absent,
    ExecutionMode,
    Pass,
    WorkloadInfo,
)

HOOK: Final = "collectors.replays.program:install_hook"
NEEDS: Final = ("graphviz_dash", "collectors", "msgspec", "torch", "cuda")
NO_TIMES: Final = "a check of replays measures no times"


@dataclass(frozen=True)
class MarksRequest:
    """Program to run with marks."""

    program: tuple[str, ...]
    output: Path
    name: str
    hang_seconds: float
    strict: bool
    """Check memory before each replay."""
    marks: bool
    """Put marks into graphs; otherwise only memory is watched."""
    command_line: tuple[str, ...]


def mark_program(
    request: MarksRequest, report: Callable[[str], None], describe: Callable[[ReplayStop], str]
) -> tuple[Path | None, int]:
    """Run the program once with marked graphs; return the bundle and the exit code.

    The exit code is the program's, or another one if the program succeeded in spite of a fault.

    Args:
        report: Receives lines: hangs while they last, the rest at the end.
        describe: Describes a hanging replay in one line.

    Raises:
        InputError: The program is missing, or a run of that name exists.
        MissingRequirementError: The program's Python lacks a module that the hook needs.
    """
    target = resolve_target(request.output, request.name)
    require_hook(request.program, NEEDS)
    request.output.mkdir(parents=True, exist_ok=True)

    def report_hangs(hangs: Sequence[ReplayStop]) -> None:
        for hang in hangs:
            report(describe(hang))

    with (
        Staging(request.output, "replays") as staging,
        create_marks_folder(staging.path) as folder,
    ):
        settings = MarksSettings(folder=str(folder), strict=request.strict, marks=request.marks)
        monitor = ReplayMonitor(staging.path, request.hang_seconds, report_hangs)
        monitor.start()
        try:
            text = msgspec.json.encode(settings).decode()
            program_end = run_program(request.program, HOOK, text, staging.path)
        finally:
            monitor.stop()
        try:
            reason = explain_unwatched(program_end)
            if reason is not None:
                report(f"Nothing was checked: {reason}.")
                return None, program_end.returncode
            check = monitor.collect(program_end.returncode)
            if not check.graphs:
                report("Nothing was checked: the program captured no graph.")
                return None, program_end.returncode
            graphs = monitor.read_faulty_graphs(check)
            _write(target, check, graphs, request, staging.path)
        except BUNDLE_ERRORS as error:
            # The program's exit code takes precedence over errors of the check.
            report(f"Error: {str(error) or type(error).__name__}")
            return None, program_end.returncode
    if program_end.returncode == 0 and (check.stops or check.memory):
        return target, REPLAY_FAULT_EXIT_CODE
    return target, program_end.returncode


def _write(
    target: Path,
    check: ReplayCheck,
    graphs: Sequence[CapturedGraph],
    request: MarksRequest,
    scratch: Path,
) -> None:
    name = get_program_name(request.program)
    manifest = create_manifest(
        command=request.command_line,
        workload=WorkloadInfo(name, " ".join(request.program), 0, 0, 0, 0),
        mode=ExecutionMode.RECORDED,
        absent=tuple(Absent(kind.fact, NO_TIMES) for kind in Pass),
        environment=read_machine_environment(scratch),
    )
    with BundleWriter(target) as writer:
        writer.add(parts.REPLAY_CHECK, check)
        for graph in graphs:
            writer.add_graph(graph)
        writer.commit(manifest)
