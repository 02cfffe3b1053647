"""Run worker processes of a collection, and read the environment in one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from collectors.collection.ranks import RankContext, get_worker_settings
from collectors.process.fork_server import ForkServer
from collectors.process.lifeline import PARENT
from collectors.process.python import PYTHON, SAFE_PATH
from collectors.process.results import read_json
from collectors.process.subprocesses import WorkerLimit, run_worker
from graphviz_dash.errors import GraphvizDashError, escape_control_characters
from graphviz_dash.model.run import Environment

WORKER = (*PYTHON, "-m", "collectors.passes.worker")


def run_pass_worker(
    *arguments: str,
    server: ForkServer | None = None,
    context: RankContext | None = None,
    limit: WorkerLimit | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a worker to its end within ``limit``; forks ``server`` if possible."""
    limit = limit or WorkerLimit(None)
    forked = server.run(arguments, limit) if server is not None else None
    if forked is not None:
        return forked
    return run_worker([*WORKER, *arguments], build_worker_environment(context), limit)


@contextmanager
def start_fork_server(
    context: RankContext | None, scratch: Path, factory: str, seed: int
) -> Iterator[ForkServer]:
    """Start the fork server of a collection's passes.

    It imports the module of ``factory``, unless modules may ask for the process group of ranks.
    """
    workload = (factory, str(seed)) if context is None else ()
    server = ForkServer(WORKER, build_worker_environment(context), str(scratch), workload)
    try:
        yield server
    finally:
        server.close()


def build_worker_environment(context: RankContext | None) -> Mapping[str, str]:
    """Return the environment variables without those that distort timings."""
    # A profiler attached through the environment would distort the clean pass.
    inherited = {key: value for key, value in os.environ.items() if key != "KINETO_USE_DAEMON"}
    settings = {} if context is None else get_worker_settings(inherited)
    return inherited | settings | SAFE_PATH | {PARENT: str(os.getpid())}


def read_machine_environment(
    scratch: Path, context: RankContext | None = None, server: ForkServer | None = None
) -> Environment:
    """Describe the machine in a separate process, so that this one holds no CUDA context.

    Raises:
        GraphvizDashError: Reading failed.
    """
    file = scratch / "environment.json"
    rank = () if context is None else (str(context.local_rank),)
    process = run_pass_worker("--environment", str(file), *rank, server=server, context=context)
    if process.returncode != 0:
        text = find_last_line(process.stderr) or describe_exit(process.returncode)
        raise GraphvizDashError(escape_control_characters(text))
    return read_json(file, Environment)


def describe_exit(code: int) -> str:
    """Describe an exit code; negative codes are signals."""
    if code < 0:
        name = signal.Signals(-code).name
        # Linux kills the largest process when host memory is full.
        memory = ", possibly because host memory ran out" if name == "SIGKILL" else ""
        return f"the process was ended by signal {name}{memory}"
    return f"the process ended with exit code {code}"


def find_last_line(text: str) -> str:
    """Return the last non-empty line, or an empty string."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
