"""Running the passes of a mode, each in a process of its own, and what came of each."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from collectors.collection import machine
from collectors.collection.collection import Collection
from collectors.collection.machine import how_it_died, last_line
from collectors.collection.progress import ObserverFailed, Report, first_line
from collectors.collection.ranks import Peers
from collectors.passes.observer_plan import observers_of
from collectors.process.fork_server import ForkServer
from collectors.process.requests import (
    ABSENT_FILE,
    FAILURE_FILE,
    NO_SPACE,
    SERIES_FILE,
    PassRequest,
)
from collectors.process.results import read_json, write_result
from collectors.process.subprocesses import Limit
from graphviz_dash.bundle import parts
from graphviz_dash.errors import GraphvizDashError, InputError, printable
from graphviz_dash.model.absence import Fact, manifest_name
from graphviz_dash.model.observers import Observed, Observer, ObserverPass
from graphviz_dash.model.run import Absent, ExecutionMode, Failure, Pass

_RANKS_TIMEOUT_S: Final = 900
"""How long a pass may take with several ranks unless told: one that is stuck holds up all."""

_TAIL: Final = 2_000
"""Characters of a crashed pass's stderr that are kept in the bundle."""

_CRASH: Final = "Fatal Python error: "
"""What Python's report of a crash begins with; what comes before it is of others."""


@dataclass(frozen=True)
class PassRunner:
    """Runs the passes of one collection."""

    asked: Collection
    """What is collected."""
    factory: str
    """``module:function`` of the workload's factory."""
    peers: Peers | None
    """The other ranks' parents; None where there is one process."""
    report: Report
    """Is told what happens."""
    server: ForkServer
    """Forks the processes."""

    def run(
        self,
        mode: ExecutionMode,
        kind: Pass,
        folder: Path,
        turn: int = 0,
        plan: Path | None = None,
    ) -> Failure | None:
        """Runs a pass, which leaves its results in ``folder``; how it failed, if it did.

        ``turn`` says which of the processes of a clean pass it is, from 0; ``plan`` is the folder
        of the pass that planned the step, where one did.

        Raises:
            GraphvizDashError: the request itself is wrong.
            OSError: the disk is full.
        """
        if kind is Pass.OBSERVERS:
            return self._observe(mode, folder, plan)
        return self._run(mode, kind, folder, turn=turn, plan=plan)

    def _run(
        self,
        mode: ExecutionMode,
        kind: Pass,
        folder: Path,
        observer: Observer | None = None,
        turn: int = 0,
        plan: Path | None = None,
    ) -> Failure | None:
        """The failure of the pass, which with several ranks is that of any of them."""
        asked, peers = self.asked, self.peers
        name = f"{mode.value}-{kind.value}-{turn}"
        timeout_s = asked.timeout_s or (_RANKS_TIMEOUT_S if peers else None)
        request = PassRequest(
            kind=kind,
            mode=mode,
            factory=self.factory,
            seed=asked.seed,
            warmup=asked.warmup,
            iterations=asked.iterations_of(turn) if kind is Pass.CLEAN else asked.iterations,
            traced_iterations=asked.traced_iterations,
            out=str(folder),
            group=peers.group(name, timeout_s or _RANKS_TIMEOUT_S) if peers else None,
            settings=asked.settings,
            observer=observer,
            turn=turn,
            plan=None if plan is None else str(plan),
        )
        request_file = folder / "request.json"
        request_file.write_bytes(msgspec.json.encode(request))
        limit = Limit(timeout_s, (lambda: peers.failed(name)) if peers else None)
        process = machine.run_pass_worker(
            str(request_file),
            server=self.server,
            context=peers.context if peers else None,
            limit=limit,
        )
        failure = _failure_of(process, folder, kind, limit)
        return peers.settle(name, failure, kind) if peers else failure

    def _observe(self, mode: ExecutionMode, folder: Path, plan: Path | None) -> Failure | None:
        """Times the step under each observer, in a process each, and joins what they measured; how
        the process failed to which nothing was attached. What another could not do is absent."""
        observed: list[Observed] = []
        observers, missing = observers_of(mode)
        absent = list(missing)
        for number, observer in enumerate(observers):
            own_folder = folder / str(number)
            own_folder.mkdir()
            failure = self._run(mode, Pass.OBSERVERS, own_folder, observer, plan=plan)
            if failure is None:
                series = read_json(own_folder / SERIES_FILE, tuple[Observed, ...])
                observed += [msgspec.structs.replace(row, process=number) for row in series]
                continue
            if observer is Observer.NONE:
                return failure
            reason = f"its process failed: {failure.error}: {first_line(failure)}"
            absent.append(Absent(manifest_name(Fact.OBSERVER, observer.value), reason))
            self.report(ObserverFailed(mode, observer, failure))
        timed = tuple(row for row in observed if row.steps)
        iterations = max(len(row.steps) for row in timed)
        write_result(parts.OBSERVERS, ObserverPass(iterations=iterations, observed=timed), folder)
        (folder / ABSENT_FILE).write_bytes(msgspec.json.encode(absent))
        return None


def _failure_of(
    process: subprocess.CompletedProcess[str], folder: Path, kind: Pass, limit: Limit
) -> Failure | None:
    if process.returncode == 0:
        return None
    if process.returncode == NO_SPACE:
        code, _, where = last_line(process.stderr).partition(" ")
        raise OSError(int(code), os.strerror(int(code)), where or str(folder))
    if (folder / FAILURE_FILE).exists():
        return read_json(folder / FAILURE_FILE, Failure)
    if process.returncode == InputError.exit_code:
        raise GraphvizDashError(printable(last_line(process.stderr)))
    return Failure(
        during=kind,
        error="ProcessDied" if limit.reason is None else limit.error,
        message=limit.reason or _how_it_ended(process),
        location=None,
        traceback=_without_modules(process.stderr)[-_TAIL:],
    )


def _how_it_ended(process: subprocess.CompletedProcess[str]) -> str:
    """Its signal or exit code, with what the library that ended it printed before, if anything."""
    words, crashed, _ = process.stderr.partition(_CRASH)
    said = last_line(words) if crashed else ""
    return f"{how_it_died(process.returncode)}{f': {printable(said)}' if said else ''}"


def _without_modules(stderr: str) -> str:
    """Without the list of all modules that Python's report of a crash ends with."""
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("Extension modules:"))
