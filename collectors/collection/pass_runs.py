"""Run the passes of a mode in separate processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from collectors.collection import machine
from collectors.collection.collection import Collection
from collectors.collection.progress import Report, get_first_line
from collectors.collection.ranks import Peers
from collectors.passes.observer_plan import OBSERVER_LABELS, plan_observers
from collectors.process.fork_server import ForkServer
from collectors.process.requests import (
    ABSENT_FILE,
    SERIES_FILE,
    PassRequest,
)
from collectors.process.results import read_json, write_result
from collectors.process.subprocesses import WorkerLimit
from graphviz_dash.bundle import parts
from graphviz_dash.model.absence import Fact, format_manifest_name
from graphviz_dash.model.observers import ObservedSeries, Observer, ObserverPass
from graphviz_dash.model.run import Absent, ExecutionMode, Failure, Pass

_RANKS_TIMEOUT_S: Final = 900
"""Default time limit of a pass with several ranks."""

"""Characters of a crashed pass's stderr stored in the bundle."""


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
        failure = machine.read_failure(process, folder, kind, limit)
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
            cause = get_first_line(failure)
            reason = f"its process failed: {failure.error}: {cause}"
            absent.append(Absent(format_manifest_name(Fact.OBSERVER, observer.value), reason))
            self.report(
                f"{mode.value}: {OBSERVER_LABELS[observer]} failed: {cause}", is_failure=True
            )
        timed = tuple(row for row in observed if row.steps)
        iterations = max(len(row.steps) for row in timed)
        write_result(parts.OBSERVERS, ObserverPass(iterations=iterations, series=timed), folder)
        (folder / ABSENT_FILE).write_bytes(msgspec.json.encode(absent))
        return None
