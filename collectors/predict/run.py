"""Record every workload of a suite, eager and as one graph.

One process times all workloads without a profiler and another traces them, which takes only
minutes. Each becomes an experiment of two run bundles.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from collectors.collection.machine import read_machine_environment
from collectors.predict.requests import EAGER, GRAPH, RESULT_PREFIX, SuiteRequest
from collectors.process.lifeline import PARENT
from collectors.process.python import PYTHON, SAFE_PATH
from collectors.process.requests import ABSENT_FILE, FAILURE_FILE, TRACE_FILE
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.staging import Staging
from graphviz_dash.bundle.write import BundleWriter, create_manifest
from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.run import (
    PROCESS_DIED,
    Absent,
    Environment,
    ExecutionMode,
    Failure,
    FileRole,
    Pass,
    WorkloadInfo,
)
from graphviz_dash.model.timings import CleanTimings

T = TypeVar("T")

WORKER: Final = (*PYTHON, "-m", "collectors.predict.worker")

_NOT_COLLECTED: Final = "a recording for predictions has only clean timings and an eager trace"


@dataclass(frozen=True)
class SuiteRecording:
    """Settings for recording a suite."""

    suite: str
    """Module of the workloads."""
    names: tuple[str, ...]
    factories: dict[str, str]
    """``module:function`` of each workload, by name."""
    output: Path
    """Folder with one experiment per workload."""
    iterations: int
    eager_iterations: int
    traced_iterations: int
    warmup: int
    seed: int
    command: tuple[str, ...]


def record_suite(
    recording: SuiteRecording, report: Callable[[str], None]
) -> tuple[tuple[str, Failure], ...]:
    """Write ``output/<workload>/eager`` and ``/graph``; return failures with workload names.

    Raises:
        InputError: The experiment already exists.
        MissingRequirementError: torch finds no CUDA device.
    """
    for name in recording.names:
        if (recording.output / name).exists():
            raise InputError(recording.output / name, "already exists", "a new folder")
    recording.output.mkdir(parents=True, exist_ok=True)
    with Staging(recording.output, "predict") as staging:
        environment = read_machine_environment(staging.path)
        report(
            f"{environment.gpu_name}: {len(recording.names)} workloads, timed first and then traced"
        )
        for kind in ("clean", "traced"):
            for name in recording.names:
                (staging.path / kind / name).mkdir(parents=True)
            _run_workloads(recording, kind, staging.path, report)
        failures: list[tuple[str, Failure]] = []
        for name in recording.names:
            failures += [
                (name, failure)
                for failure in _write_bundles(recording, name, staging.path, environment)
            ]
        return tuple(failures)


def _run_workloads(
    recording: SuiteRecording, kind: str, scratch: Path, report: Callable[[str], None]
) -> None:
    remaining = list(recording.names)
    while remaining:
        request = SuiteRequest(
            kind="clean" if kind == "clean" else "traced",
            suite=recording.suite,
            names=tuple(remaining),
            seed=recording.seed,
            warmup=recording.warmup,
            iterations=recording.iterations,
            eager_iterations=recording.eager_iterations,
            traced_iterations=recording.traced_iterations,
            folder=str(scratch / kind),
        )
        file = scratch / f"{kind}.json"
        file.write_bytes(msgspec.json.encode(request))

        def done(text: str) -> None:
            remaining.pop(0)
            report(f"{kind}: {text}")

        code = _run_worker(file, done)
        if code and remaining:
            name = remaining.pop(0)
            report(f"{kind}: {name} failed")
            failure = scratch / kind / name / FAILURE_FILE
            if not failure.exists():
                failure.write_bytes(msgspec.json.encode(_build_crash_failure(kind, code)))


def _run_worker(request: Path, on_done: Callable[[str], object]) -> int:
    """Run a worker; ``on_done`` receives its line per workload."""
    # A profiler attached through the environment would distort the clean pass.
    inherited = {key: value for key, value in os.environ.items() if key != "KINETO_USE_DAEMON"}
    with subprocess.Popen(
        [*WORKER, str(request)],
        stdout=subprocess.PIPE,
        env=inherited | SAFE_PATH | {PARENT: str(os.getpid())},
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                if line.startswith(RESULT_PREFIX):
                    on_done(escape_control_characters(line.removeprefix(RESULT_PREFIX).rstrip()))
            return process.wait()
        finally:
            # On interrupt, end the worker. Killing a finished one has no effect.
            process.kill()


def _build_crash_failure(kind: str, code: int) -> Failure:
    return Failure(
        stage=Pass.CLEAN if kind == "clean" else Pass.TRACED,
        error=PROCESS_DIED,
        message=f"the process ended with exit code {code}",
        location=None,
        traceback="",
    )


def _write_bundles(
    recording: SuiteRecording, name: str, scratch: Path, environment: Environment
) -> tuple[Failure, ...]:
    clean, traced = scratch / "clean" / name, scratch / "traced" / name
    failed = tuple(
        msgspec.json.decode((folder / FAILURE_FILE).read_bytes(), type=Failure)
        for folder in (clean, traced)
        if (folder / FAILURE_FILE).exists()
    )
    excluded_facts = _read_optional(clean / ABSENT_FILE, tuple[Absent, ...]) or ()
    for mode, file in ((ExecutionMode.EAGER, EAGER), (ExecutionMode.GRAPH, GRAPH)):
        eager = mode is ExecutionMode.EAGER
        timings = _read_optional(clean / file, CleanTimings)
        trace = traced / TRACE_FILE
        run_failures = failed if eager or timings is None else ()
        absent = [
            Absent(Fact.MEMORY, _NOT_COLLECTED),
            Absent(Fact.MEMORY_PASS, _NOT_COLLECTED),
            Absent(Fact.GRAPHS, "mode eager captures none" if eager else _NOT_COLLECTED),
        ]
        if not eager:
            absent += [
                Absent(Fact.CAPTURE_PASS, _NOT_COLLECTED),
                Absent(Fact.TRACED_PASS, _NOT_COLLECTED),
                *excluded_facts,
            ]
        absent += [
            Absent(failure.stage.fact, "the pass failed, see failures") for failure in run_failures
        ]
        manifest = create_manifest(
            command=recording.command,
            workload=WorkloadInfo(
                name=name,
                factory=recording.factories[name],
                seed=recording.seed,
                warmup=recording.warmup,
                iterations=recording.eager_iterations if eager else recording.iterations,
                traced_iterations=recording.traced_iterations if eager else 0,
            ),
            mode=mode,
            failures=run_failures,
            absent=tuple(absent),
            environment=environment,
        )
        with BundleWriter(recording.output / name / mode.value) as writer:
            if timings is not None:
                writer.add(parts.CLEAN, timings)
            if eager and trace.exists():
                writer.add_trace(FileRole.REPLAY_TRACE, trace)
            writer.commit(manifest)
    return failed


def _read_optional(file: Path, kind: type[T]) -> T | None:
    return msgspec.json.decode(file.read_bytes(), type=kind) if file.exists() else None
