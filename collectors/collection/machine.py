"""The worker processes of a collection, and the environment that one of them reads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from collectors.collection.ranks import RankContext, worker_settings
from collectors.process.fork_server import ForkServer
from collectors.process.lifeline import PARENT
from collectors.process.results import read_json
from collectors.process.subprocesses import Limit, run_worker
from graphviz_dash.errors import GraphvizDashError, printable
from graphviz_dash.model.run import Environment

WORKER = (sys.executable, "-m", "collectors.passes.worker")
"""The command of a pass's process, without its arguments."""


def run_pass_worker(
    *arguments: str,
    server: ForkServer | None = None,
    context: RankContext | None = None,
    limit: Limit | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a worker of ours to its end, as the rank of ``context``, within ``limit``: a fork of
    ``server``, or where that is not to be had a process from the start."""
    limit = limit or Limit(None)
    forked = server.run(arguments, limit) if server is not None else None
    if forked is not None:
        return forked
    return run_worker([*WORKER, *arguments], worker_environment(context), limit)


@contextmanager
def fork_server(context: RankContext | None, scratch: Path) -> Iterator[ForkServer]:
    """The server of a collection's passes, which ends with it; ``scratch`` is its folder."""
    server = ForkServer(WORKER, worker_environment(context), str(scratch))
    try:
        yield server
    finally:
        server.close()


def worker_environment(context: RankContext | None) -> Mapping[str, str]:
    """The environment variables of a worker: the caller's, less what would spoil its timings."""
    # A profiler that the user's environment attaches would spoil the clean pass.
    own = {key: value for key, value in os.environ.items() if key != "KINETO_USE_DAEMON"}
    settings = {} if context is None else worker_settings(own)
    return own | settings | {PARENT: str(os.getpid())}


def machine_environment(
    scratch: Path, context: RankContext | None = None, server: ForkServer | None = None
) -> Environment:
    """What the machine is, read in a process of its own, so that ours holds no CUDA context.

    Raises:
        GraphvizDashError: it could not be read; the message says why.
    """
    file = scratch / "environment.json"
    rank = () if context is None else (str(context.local_rank),)
    process = run_pass_worker("--environment", str(file), *rank, server=server, context=context)
    if process.returncode != 0:
        text = last_line(process.stderr) or how_it_died(process.returncode)
        raise GraphvizDashError(printable(text))
    return read_json(file, Environment)


def how_it_died(code: int) -> str:
    """A negative exit code as a signal's name, others as a number."""
    if code < 0:
        name = signal.Signals(-code).name
        # What Linux does to the largest process when the machine's own memory is full.
        memory = ", perhaps for want of memory on the host" if name == "SIGKILL" else ""
        return f"the process was ended by signal {name}{memory}"
    return f"the process ended with exit code {code}"


def last_line(text: str) -> str:
    """The last line of ``text`` that is not empty; empty where there is none."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
