"""A recording for predictions: every workload of a suite eager and as one graph, in two processes.

What a collection runs in a process for each pass and mode, here one process times for all workloads
(no profiler is ever attached to it) and another one traces, so that many workloads take minutes.
Each becomes an experiment of two run bundles.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from collectors.collection.machine import machine_environment
from collectors.predict.requests import DONE, EAGER, GRAPH, SuiteRequest
from collectors.process.lifeline import PARENT
from collectors.process.requests import ABSENT_FILE, FAILURE_FILE, TRACE_FILE
from graphviz_dash import __version__
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.staging import Staging
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.errors import InputError, printable
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.run import (
    FORMAT_NAME,
    FORMAT_VERSION,
    Absent,
    Environment,
    ExecutionMode,
    Failure,
    FileRole,
    Manifest,
    Pass,
    WorkloadInfo,
)
from graphviz_dash.model.timings import CleanTimings

T = TypeVar("T")

WORKER: Final = (sys.executable, "-m", "collectors.predict.worker")

_NOT_TAKEN: Final = "a recording for predictions has only clean timings and an eager trace"


@dataclass(frozen=True)
class SuiteRecording:
    """What to record of a suite."""

    suite: str
    """The module of the workloads."""
    names: tuple[str, ...]
    """Those of them to run."""
    factories: dict[str, str]
    """``module:function`` of each workload, by its name."""
    output: Path
    """The folder in which each workload becomes an experiment."""
    iterations: int
    """Replays in each timed series."""
    eager_iterations: int
    """Eager steps in each timed series."""
    traced_iterations: int
    """Eager steps under the profiler."""
    warmup: int
    """Iterations before anything is measured or captured."""
    seed: int
    """torch's seed before each workload is built."""
    command: tuple[str, ...]
    """What the user typed, for the manifests."""


def record(asked: SuiteRecording, report: Callable[[str], None]) -> tuple[tuple[str, Failure], ...]:
    """Writes ``output/<workload>/eager`` and ``/graph`` and returns what failed, by workload.

    Raises:
        InputError: an experiment of that name is there already.
        MissingRequirementError: torch sees no CUDA device.
    """
    for name in asked.names:
        if (asked.output / name).exists():
            raise InputError(asked.output / name, "something is there", "a new place")
    asked.output.mkdir(parents=True, exist_ok=True)
    with Staging(asked.output, "predict") as staging:
        environment = machine_environment(staging.path)
        report(f"{environment.gpu_name}: {len(asked.names)} workloads, timed and then traced")
        for kind in ("clean", "traced"):
            for name in asked.names:
                (staging.path / kind / name).mkdir(parents=True)
            _run(asked, kind, staging.path, report)
        failures: list[tuple[str, Failure]] = []
        for name in asked.names:
            failures += [
                (name, failure) for failure in _bundles(asked, name, staging.path, environment)
            ]
        return tuple(failures)


def _run(asked: SuiteRecording, kind: str, scratch: Path, report: Callable[[str], None]) -> None:
    """Runs all workloads in one process, or in another one after each that fails."""
    left = list(asked.names)
    while left:
        request = SuiteRequest(
            kind="clean" if kind == "clean" else "traced",
            suite=asked.suite,
            names=tuple(left),
            seed=asked.seed,
            warmup=asked.warmup,
            iterations=asked.iterations,
            eager_iterations=asked.eager_iterations,
            traced_iterations=asked.traced_iterations,
            out=str(scratch / kind),
        )
        file = scratch / f"{kind}.json"
        file.write_bytes(msgspec.json.encode(request))

        def done(text: str) -> None:
            left.pop(0)
            report(f"{kind}: {text}")

        code = _worker(file, done)
        if code and left:
            name = left.pop(0)
            report(f"{kind}: {name} failed")
            failure = scratch / kind / name / FAILURE_FILE
            if not failure.exists():
                failure.write_bytes(msgspec.json.encode(_died(kind, code)))


def _worker(request: Path, done: Callable[[str], object]) -> int:
    """The exit code of a worker; ``done`` gets its line for each workload."""
    # A profiler that the user's environment attaches would spoil the clean pass.
    own = {key: value for key, value in os.environ.items() if key != "KINETO_USE_DAEMON"}
    with subprocess.Popen(
        [*WORKER, str(request)],
        stdout=subprocess.PIPE,
        env=own | {PARENT: str(os.getpid())},
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                if line.startswith(DONE):
                    done(printable(line.removeprefix(DONE).rstrip()))
            return process.wait()
        finally:
            # Interrupted: the worker must not outlive us. One that has ended is not killed again.
            process.kill()


def _died(kind: str, code: int) -> Failure:
    return Failure(
        during=Pass.CLEAN if kind == "clean" else Pass.TRACED,
        error="ProcessDied",
        message=f"the process ended with exit code {code}",
        location=None,
        traceback="",
    )


def _bundles(
    asked: SuiteRecording, name: str, scratch: Path, environment: Environment
) -> tuple[Failure, ...]:
    """Writes both runs of one workload; returns the failures that are in them."""
    clean, traced = scratch / "clean" / name, scratch / "traced" / name
    failed = tuple(
        msgspec.json.decode((folder / FAILURE_FILE).read_bytes(), type=Failure)
        for folder in (clean, traced)
        if (folder / FAILURE_FILE).exists()
    )
    left_out = _read(clean / ABSENT_FILE, tuple[Absent, ...]) or ()
    for mode, file in ((ExecutionMode.EAGER, EAGER), (ExecutionMode.GRAPH, GRAPH)):
        eager = mode is ExecutionMode.EAGER
        timings = _read(clean / file, CleanTimings)
        trace = traced / TRACE_FILE
        own = failed if eager or timings is None else ()
        absent = [
            Absent(Fact.MEMORY, _NOT_TAKEN),
            Absent(Fact.MEMORY_PASS, _NOT_TAKEN),
            Absent(Fact.GRAPHS, "mode eager captures none" if eager else _NOT_TAKEN),
        ]
        if not eager:
            absent += [
                Absent(Fact.CAPTURE_PASS, _NOT_TAKEN),
                Absent(Fact.TRACED_PASS, _NOT_TAKEN),
                *left_out,
            ]
        absent += [Absent(failure.during.fact, "it failed, see failures") for failure in own]
        manifest = Manifest(
            format=FORMAT_NAME,
            version=FORMAT_VERSION,
            tool_version=__version__,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=asked.command,
            workload=WorkloadInfo(
                name=name,
                factory=asked.factories[name],
                seed=asked.seed,
                warmup=asked.warmup,
                iterations=asked.eager_iterations if eager else asked.iterations,
                traced_iterations=asked.traced_iterations if eager else 0,
            ),
            mode=mode,
            rank=None,
            status="failed" if own else "complete",
            failures=own,
            absent=tuple(absent),
            environment=environment,
            files=(),
        )
        with BundleWriter(asked.output / name / mode.value) as writer:
            if timings is not None:
                writer.add(parts.CLEAN, timings)
            if eager and trace.exists():
                writer.add_trace(FileRole.REPLAY_TRACE, trace)
            writer.commit(manifest)
    return failed


def _read(file: Path, kind: type[T]) -> T | None:
    return msgspec.json.decode(file.read_bytes(), type=kind) if file.exists() else None
