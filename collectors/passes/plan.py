"""The plan pass: how a step is best captured on several streams, tried and checked."""

from __future__ import annotations

from pathlib import Path

from collectors.parallel import MEMORY_FACTOR
from collectors.parallel.plan import plan_step
from collectors.passes.executor import prepare
from collectors.process.requests import PassRequest
from collectors.process.results import write_result
from graphviz_dash.bundle import parts


def run(request: PassRequest) -> None:
    """Writes parallel.json.gz into ``request.out``. This process ends, so that it may have the
    workspaces of plans that take more memory than allowed, and tell what they would give."""
    step, _ = prepare(request)
    write_result(
        parts.PARALLEL, plan_step(step, MEMORY_FACTOR, tries_larger=True), Path(request.out)
    )
