"""Examine a workload's step in this process: ``python -m collectors.doctor.worker FILE``.

Exit codes: 0 the report is written; 1 the step failed, see failure.json; 2 the request is invalid,
see stderr.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import torch

from collectors.collection.failures import describe
from collectors.doctor.examine import examine
from collectors.doctor.requests import REPORT_FILE, DoctorRequest
from collectors.passes.parameters import arguments_of
from collectors.process.lifeline import die_with_parent
from collectors.process.requests import FAILURE_FILE
from collectors.workloads import load_factory
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.model.run import Pass


def main(arguments: list[str]) -> int:
    """Examine the step named in the request file."""
    die_with_parent()
    request = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=DoctorRequest)
    out = Path(request.out)

    def record(_kind: type[BaseException], error: BaseException, _trace: object) -> None:
        failure = describe(error, Pass.CAPTURE)
        (out / FAILURE_FILE).write_bytes(msgspec.json.encode(failure))
        _leave(1)

    try:
        torch.manual_seed(request.seed)
        # User code may raise anything; pass the error to the caller.
        sys.excepthook = record
        factory = load_factory(request.factory)
        step = factory(*arguments_of(factory, request.factory, request.settings))
        if not callable(step):
            raise InputError(
                f"--workload {request.factory}",
                f"the factory returned {type(step).__name__}",
                "a function without arguments",
            )
        report = examine(step, request.warmup, request.steps)
    except GraphvizDashError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    (out / REPORT_FILE).write_bytes(msgspec.json.encode(report))
    _leave(0)
    return 0


def _leave(code: int) -> None:
    """Exit immediately: destroying a broken graph can abort the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
