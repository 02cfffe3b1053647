"""Examine a workload's step in this process: ``python -m collectors.doctor.worker FILE``.

Exit codes: 0 the report is written; 1 the step failed, see failure.json; 2 the request is invalid,
see stderr.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import torch

from collectors.collection.environment import read_environment
from collectors.collection.failures import describe_failure
from collectors.doctor.examine import examine_step
from collectors.doctor.requests import ENVIRONMENT_FILE, REPORT_FILE, DoctorRequest
from collectors.passes.parameters import build_arguments
from collectors.process.lifeline import exit_with_parent
from collectors.process.requests import FAILURE_FILE
from collectors.workloads import load_factory
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.model.run import Pass


def main(arguments: list[str]) -> int:
    """Examine the step named in the request file."""
    exit_with_parent()
    request = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=DoctorRequest)
    out = Path(request.out)

    def record(_kind: type[BaseException], error: BaseException, _trace: object) -> None:
        failure = describe_failure(error, Pass.CAPTURE)
        (out / FAILURE_FILE).write_bytes(msgspec.json.encode(failure))
        _exit_now(1)

    try:
        torch.manual_seed(request.seed)
        # User code may raise anything; pass the error to the caller.
        sys.excepthook = record
        factory = load_factory(request.factory)
        step = factory(*build_arguments(factory, request.factory, request.settings))
        if not callable(step):
            raise InputError(
                f"--workload {request.factory}",
                f"the factory returned {type(step).__name__}",
                "a function without arguments",
            )
        report = examine_step(step, request.warmup, request.steps)
    except GraphvizDashError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    (out / REPORT_FILE).write_bytes(msgspec.json.encode(report))
    # A failed capture may leave CUDA unusable; another process reads the environment then.
    with suppress(GraphvizDashError, RuntimeError, OSError):
        (out / ENVIRONMENT_FILE).write_bytes(msgspec.json.encode(read_environment()))
    _exit_now(0)
    return 0


def _exit_now(code: int) -> None:
    """Exit immediately: destroying a broken graph can abort the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
