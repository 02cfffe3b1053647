"""Run the passes of a mode in separate processes."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from collectors.collection import machine
from collectors.collection.collection import Collection
from collectors.collection.machine import describe_exit, find_last_line
from collectors.collection.progress import ObserverFailed, Report, get_first_line
from collectors.collection.ranks import Peers
from collectors.passes.observer_plan import plan_observers
from collectors.process.fork_server import ForkServer
from collectors.process.requests import (
    ABSENT_FILE,
    FAILURE_FILE,
    NO_SPACE,
    SERIES_FILE,
    PassRequest,
)
from collectors.process.results import read_json, write_result
from collectors.process.subprocesses import WorkerLimit
from graphviz_dash.bundle import parts
from graphviz_dash.errors import GraphvizDashError, InputError, escape_control_characters
from graphviz_dash.model.absence import Fact, format_manifest_name
from graphviz_dash.model.observers import ObservedSeries, Observer, ObserverPass
from graphviz_dash.model.run import PROCESS_DIED, Absent, ExecutionMode, Failure, Pass

_RANKS_TIMEOUT_S: Final = 900
"""Default time limit of a pass with several ranks."""

_TAIL: Final = 2_000
"""Characters of a crashed pass's stderr stored in the bundle."""

_CRASH: Final = "Fatal Python error: "


@dataclass(frozen=True)
class PassRunner:
    """Runs the passes of one collection."""

    request: Collection
    factory: str
    peers: Peers | None
    """Parents of the other ranks, or None for a single process."""
    report: Report
    server: ForkServer

    def run(
        self,
        mode: ExecutionMode,
        kind: Pass,
        folder: Path,
        turn: int = 0,
        plan: Path | None = None,
    ) -> Failure | None:
        """Run a pass that writes results to ``folder``, and return its failure.

        ``turn`` is the index of a clean process, ``plan`` the folder of the plan pass.

        Raises:
            GraphvizDashError: The request is invalid.
            OSError: The disk is full.
        """
        if kind is Pass.OBSERVERS:
            return self._run_observers(mode, folder, plan)
        return self._run_pass(mode, kind, folder, turn=turn, plan=plan)

    def _run_pass(
        self,
        mode: ExecutionMode,
        kind: Pass,
        folder: Path,
        observer: Observer | None = None,
        turn: int = 0,
        plan: Path | None = None,
    ) -> Failure | None:
        request_settings, peers = self.request, self.peers
        name = f"{mode.value}-{kind.value}-{turn}"
        timeout_s = request_settings.timeout_s or (_RANKS_TIMEOUT_S if peers else None)
        request = PassRequest(
            kind=kind,
            mode=mode,
            factory=self.factory,
            seed=request_settings.seed,
            warmup=request_settings.warmup,
            iterations=request_settings.get_iterations(turn)
            if kind is Pass.CLEAN
            else request_settings.iterations,
            traced_iterations=request_settings.traced_iterations,
            out=str(folder),
            group=peers.build_group_request(name, timeout_s or _RANKS_TIMEOUT_S) if peers else None,
            settings=request_settings.settings,
            observer=observer,
            turn=turn,
            plan=None if plan is None else str(plan),
        )
        request_file = folder / "request.json"
        request_file.write_bytes(msgspec.json.encode(request))
        limit = WorkerLimit(timeout_s, (lambda: peers.find_failure(name)) if peers else None)
        process = machine.run_pass_worker(
            str(request_file),
            server=self.server,
            context=peers.context if peers else None,
            limit=limit,
        )
        failure = _read_failure(process, folder, kind, limit)
        return peers.exchange_outcome(name, failure, kind) if peers else failure

    def _run_observers(
        self, mode: ExecutionMode, folder: Path, plan: Path | None
    ) -> Failure | None:
        """Time the step under each observer; return the failure of the process without one."""
        observed: list[ObservedSeries] = []
        observers, missing = plan_observers(mode)
        absent = list(missing)
        for number, observer in enumerate(observers):
            number_folder = folder / str(number)
            number_folder.mkdir()
            failure = self._run_pass(mode, Pass.OBSERVERS, number_folder, observer, plan=plan)
            if failure is None:
                series = read_json(number_folder / SERIES_FILE, tuple[ObservedSeries, ...])
                observed += [msgspec.structs.replace(row, process=number) for row in series]
                continue
            if observer is Observer.NONE:
                return failure
            reason = f"its process failed: {failure.error}: {get_first_line(failure)}"
            absent.append(Absent(format_manifest_name(Fact.OBSERVER, observer.value), reason))
            self.report(ObserverFailed(mode, observer, failure))
        timed = tuple(row for row in observed if row.steps)
        iterations = max(len(row.steps) for row in timed)
        write_result(parts.OBSERVERS, ObserverPass(iterations=iterations, series=timed), folder)
        (folder / ABSENT_FILE).write_bytes(msgspec.json.encode(absent))
        return None


def _read_failure(
    process: subprocess.CompletedProcess[str], folder: Path, kind: Pass, limit: WorkerLimit
) -> Failure | None:
    if process.returncode == 0:
        return None
    if process.returncode == NO_SPACE:
        code, _, file_name = find_last_line(process.stderr).partition(" ")
        raise OSError(int(code), os.strerror(int(code)), file_name or str(folder))
    if (folder / FAILURE_FILE).exists():
        return read_json(folder / FAILURE_FILE, Failure)
    if process.returncode == InputError.exit_code:
        raise GraphvizDashError(escape_control_characters(find_last_line(process.stderr)))
    return Failure(
        stage=kind,
        error=PROCESS_DIED if limit.reason is None else limit.error,
        message=limit.reason or _describe_exit(process),
        location=None,
        traceback=_strip_module_list(process.stderr)[-_TAIL:],
    )


def _describe_exit(process: subprocess.CompletedProcess[str]) -> str:
    """Describe signal or exit code, with the last output of the crashed library."""
    words, crashed, _ = process.stderr.partition(_CRASH)
    last_output = find_last_line(words) if crashed else ""
    exit_text = describe_exit(process.returncode)
    return f"{exit_text}: {escape_control_characters(last_output)}" if last_output else exit_text


def _strip_module_list(stderr: str) -> str:
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("Extension modules:"))
