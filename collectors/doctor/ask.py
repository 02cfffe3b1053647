"""Examine a workload in a separate process, without importing torch."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from collectors.doctor.requests import REPORT_FILE, DoctorRequest
from collectors.process.lifeline import PARENT
from collectors.process.python import PYTHON, SAFE_PATH
from collectors.process.requests import FAILURE_FILE
from graphviz_dash.errors import GraphvizDashError, InputError, escape_control_characters
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.run import PROCESS_DIED, Failure, Pass

STEPS: Final = 3
"""Default number of eager steps to compare."""

_TAIL: Final = 2_000


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
    process = subprocess.run(
        [*PYTHON, "-m", "collectors.doctor.worker", str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
        env=os.environ | SAFE_PATH | {PARENT: str(os.getpid())},
    )
    if process.returncode == 0:
        return msgspec.json.decode((scratch / REPORT_FILE).read_bytes(), type=DoctorReport)
    if (scratch / FAILURE_FILE).exists():
        return msgspec.json.decode((scratch / FAILURE_FILE).read_bytes(), type=Failure)
    lines = [line for line in process.stderr.splitlines() if line.strip()]
    if process.returncode == InputError.exit_code:
        raise GraphvizDashError(
            escape_control_characters(lines[-1] if lines else "the request was refused")
        )
    return Failure(
        stage=Pass.CAPTURE,
        error=PROCESS_DIED,
        message=f"the process ended with code {process.returncode}",
        location=None,
        traceback=process.stderr[-_TAIL:],
    )
