"""Run many workloads in one process: ``-m collectors.predict.worker REQUEST``.

A failing workload writes failure.json and ends the process. The collector then starts a new process
for the remaining ones.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import torch

from collectors.collection.failures import describe_failure
from collectors.passes.capture_listener import record_captures
from collectors.passes.executor import CostListener, warm_up
from collectors.passes.modes import prepare_mode
from collectors.passes.step_timing import time_steps
from collectors.passes.traced_steps import trace_steps
from collectors.predict.requests import EAGER, GRAPH, RESULT_PREFIX, SuiteRequest
from collectors.predict.suites import load_suite
from collectors.process.lifeline import exit_with_parent
from collectors.process.requests import ABSENT_FILE, FAILURE_FILE, TRACE_FILE
from collectors.workloads import Factory, Step
from graphviz_dash.model.run import ExecutionMode, Pass
from graphviz_dash.model.timings import CleanTimings

_PASSES = {"clean": Pass.CLEAN, "traced": Pass.TRACED}


def main(arguments: list[str]) -> int:
    """Run the workloads of the request file; print a line on stdout after each."""
    exit_with_parent()
    request = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=SuiteRequest)
    suite = load_suite(request.suite)
    work = {"clean": _time_workload, "traced": _trace_workload}[request.kind]
    for name in request.names:
        folder = Path(request.folder) / name
        with _record_failure(folder, _PASSES[request.kind]), _free_memory():
            begin = time.monotonic()
            step, warmup_ns = _prepare_step(suite[name], request)
            work(step, request, folder, warmup_ns)
            # Free the step's memory before the next step is built.
            del step
        print(f"{RESULT_PREFIX}{name} in {time.monotonic() - begin:.1f} s", flush=True)
    return 0


@contextmanager
def _record_failure(folder: Path, during: Pass) -> Iterator[None]:
    """Write errors to ``folder`` and end the process, since the device may be unusable."""

    def report(_kind: type[BaseException], error: BaseException, _trace: object) -> None:
        (folder / FAILURE_FILE).write_bytes(msgspec.json.encode(describe_failure(error, during)))

    sys.excepthook = report
    yield
    sys.excepthook = sys.__excepthook__


@contextmanager
def _free_memory() -> Iterator[None]:
    try:
        yield
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def _prepare_step(factory: Factory, request: SuiteRequest) -> tuple[Step, int]:
    """Return the step and its warmup time in ns. Warmup uses a side stream for capture."""
    torch.manual_seed(request.seed)
    step = factory()
    return step, warm_up(step, request.warmup)


def _time_workload(step: Step, request: SuiteRequest, folder: Path, warmup_ns: int) -> None:
    eager = CleanTimings(warmup_ns, *time_steps(step, request.eager_iterations), graphs=())
    (folder / EAGER).write_bytes(msgspec.json.encode(eager))
    listener = CostListener()
    with record_captures(listener):
        replay = prepare_mode(ExecutionMode.GRAPH, step)
    graph = CleanTimings(warmup_ns, *time_steps(replay, request.iterations), listener.get_costs())
    (folder / GRAPH).write_bytes(msgspec.json.encode(graph))
    (folder / ABSENT_FILE).write_bytes(msgspec.json.encode(listener.absent))


def _trace_workload(step: Step, request: SuiteRequest, folder: Path, _warmup_ns: int) -> None:
    trace_steps(step, request.traced_iterations, folder / TRACE_FILE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
