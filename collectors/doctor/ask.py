"""Examine a workload in a separate process, without importing torch."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from collectors.collection.machine import build_worker_environment, read_failure
from collectors.doctor.requests import REPORT_FILE, DoctorRequest
from collectors.process.python import PYTHON
from collectors.process.results import read_json
from collectors.process.subprocesses import WorkerLimit, run_worker
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.run import Failure, Pass

STEPS: Final = 3
"""Default number of eager steps to compare."""


def examine_workload(
    factory: str,
    seed: int,
    warmup: int,
    steps: int,
    scratch: Path,
    settings: tuple[str, ...] = (),
) -> DoctorReport | Failure:
    """Examine a workload's step.

    Returns the step's failure if it fails without a capture.

    Raises:
        GraphvizDashError: The workload is invalid.
    """
    request = DoctorRequest(
        factory=factory,
        seed=seed,
        warmup=warmup,
        steps=steps,
        out=str(scratch),
        settings=settings,
    )
    file = scratch / "request.json"
    file.write_bytes(msgspec.json.encode(request))
    limit = WorkerLimit(None)
    command = [*PYTHON, "-m", "collectors.doctor.worker", str(file)]
    process = run_worker(command, build_worker_environment(None), limit)
    failure = read_failure(process, scratch, Pass.CAPTURE, limit)
    return failure or read_json(scratch / REPORT_FILE, DoctorReport)
