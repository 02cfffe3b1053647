"""Run the plan pass: plan, measure and check the capture of a step on several streams."""

from __future__ import annotations

from pathlib import Path

from collectors.parallel import MEMORY_FACTOR
from collectors.parallel.plan import plan_step
from collectors.passes.executor import prepare_step
from collectors.process.requests import PassRequest
from collectors.process.results import write_result
from graphviz_dash.bundle import parts


def run(request: PassRequest) -> None:
    """Write parallel.json.gz to ``request.out``.

    This process is short-lived, so it also times plans above the memory limit.
    """
    step, _ = prepare_step(request)
    write_result(
        parts.PARALLEL, plan_step(step, MEMORY_FACTOR, tries_larger=True), Path(request.out)
    )
