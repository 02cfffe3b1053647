"""Run worker processes of a collection, and read the environment in one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from collectors.collection.ranks import RankContext, get_worker_settings
from collectors.process.fork_server import ForkServer
from collectors.process.lifeline import PARENT
from collectors.process.python import PYTHON, SAFE_PATH
from collectors.process.requests import FAILURE_FILE, NO_SPACE
from collectors.process.results import read_json
from collectors.process.subprocesses import WorkerLimit, describe_exit, find_last_line, run_worker
from graphviz_dash.errors import GraphvizDashError, InputError, escape_control_characters
from graphviz_dash.model.run import PROCESS_DIED, Environment, Failure, Pass

_TAIL: Final = 2_000
_CRASH: Final = "Fatal Python error: "

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


def read_failure(
    process: subprocess.CompletedProcess[str], folder: Path, kind: Pass, limit: WorkerLimit
) -> Failure | None:
    """Return the failure of an ended worker that wrote to ``folder``, or None if it succeeded.

    Raises:
        GraphvizDashError: The request is invalid.
        OSError: The disk is full.
    """
    if process.returncode == 0:
        return None
    if process.returncode == NO_SPACE:
        code, _, file_name = find_last_line(process.stderr).partition(" ")
        raise OSError(int(code), os.strerror(int(code)), file_name or str(folder))
    if (folder / FAILURE_FILE).exists():
        return read_json(folder / FAILURE_FILE, Failure)
    if process.returncode == InputError.exit_code:
        raise GraphvizDashError(escape_control_characters(find_last_line(process.stderr)))
    return Failure(
        stage=kind,
        error=PROCESS_DIED if limit.reason is None else limit.error,
        message=limit.reason or _describe_exit(process),
        location=None,
        traceback=_strip_module_list(process.stderr)[-_TAIL:],
    )


def _describe_exit(process: subprocess.CompletedProcess[str]) -> str:
    """Describe signal or exit code, with the last output of the crashed library."""
    words, crash, _ = process.stderr.partition(_CRASH)
    last_output = find_last_line(words) if crash else ""
    exit_text = describe_exit(process.returncode)
    return f"{exit_text}: {escape_control_characters(last_output)}" if last_output else exit_text


def _strip_module_list(stderr: str) -> str:
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("Extension modules:"))
