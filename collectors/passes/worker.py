"""Process of one pass: ``python -m collectors.passes.worker REQUEST.json``.

``--environment OUT [LOCAL_RANK]`` writes the environment. ``--serve SOCKET LABEL [FACTORY SEED]``
starts a server whose forks run passes, with the module of the factory imported.

Exit codes: 0 done; 1 the pass failed, see failure.json unless Python crashed; 2 the request is
invalid, see stderr; NO_SPACE the disk is full.
"""

from __future__ import annotations

import errno
import faulthandler
import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

from collectors.collection.failures import describe_failure
from collectors.process.fork_server import SERVE, serve_forks
from collectors.process.lifeline import exit_with_parent
from collectors.process.preload import fork_with_modules
from collectors.process.requests import FAILURE_FILE, NO_SPACE, PassRequest
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.model.run import Pass

_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(arguments: list[str]) -> int:
    """Run the pass of the request file."""
    exit_with_parent()
    if arguments[0] == SERVE:
        fork_arguments = _run_server(int(arguments[1]), arguments[3:])
        if fork_arguments is None:
            return 0
        arguments = fork_arguments
        exit_with_parent()
    # Report the Python line of a crash in a driver or library.
    faulthandler.enable(all_threads=False)
    try:
        if arguments[0] == "--environment":
            from collectors.collection.environment import read_environment

            if len(arguments) > 2:
                from collectors.process.process_group import select_device

                select_device(int(arguments[2]))
            Path(arguments[1]).write_bytes(msgspec.json.encode(read_environment()))
            return 0
        request = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=PassRequest)
        return _run_pass(request)
    except GraphvizDashError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _run_server(descriptor: int, workload: list[str]) -> list[str] | None:
    """Return the arguments of a pass in its fork, or None in the server at its end.

    ``workload`` has the factory whose module is imported once, and the seed; empty for none.
    """
    # Without torch, each fork reports the error. Optimizers import the compiler in their first
    # step, which takes equally long; the import starts no thread and uses no GPU.
    refusal = None
    with suppress(ImportError):
        importlib.import_module("torch")
        importlib.import_module("torch._dynamo")
        if workload:
            refusal = fork_with_modules(lambda: _import_workload(*workload))
    return serve_forks(descriptor, refusal)


def _import_workload(factory: str, seed: str) -> None:
    """Import the module of ``factory`` as a pass does: after the seed is set."""
    import torch

    from collectors.workloads import load_factory

    torch.manual_seed(int(seed))
    load_factory(factory)


def _find_disk_full_error(error: BaseException) -> OSError | None:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _DISK_FULL_ERRORS:
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _run_pass(request: PassRequest) -> int:
    from collectors.passes import capture, clean, memory, plan, traced

    def record(_kind: type[BaseException], error: BaseException, _trace: object) -> None:
        disk_error = _find_disk_full_error(error)
        if disk_error is None:
            failure = msgspec.json.encode(describe_failure(error, request.kind))
            try:
                (Path(request.out) / FAILURE_FILE).write_bytes(failure)
            except OSError as again:
                disk_error = again
        if disk_error is not None:
            print(disk_error.errno, disk_error.filename or "", file=sys.stderr, flush=True)
            # Use a distinct exit code: the interpreter would exit with 1.
            os._exit(NO_SPACE)
        if request.group is not None:
            _exit_rank(1)

    # User code may raise anything; store the error in the bundle.
    sys.excepthook = record
    work = {
        Pass.PLAN: plan.run,
        Pass.CLEAN: clean.run,
        Pass.CAPTURE: capture.run,
        Pass.TRACED: traced.run,
        Pass.MEMORY: memory.run,
        Pass.NODE_IDS: _run_node_ids,
        Pass.OBSERVERS: _run_observers,
    }
    try:
        if request.group is None:
            work[request.kind](request)
        else:
            from collectors.process.process_group import join_group

            with join_group(request.group):
                work[request.kind](request)
    except InputError:
        raise
    except GraphvizDashError as error:
        record(type(error), error, None)
        return error.exit_code
    if request.group is not None:
        _exit_rank(0)
    if request.kind in (Pass.NODE_IDS, Pass.OBSERVERS):
        # At exit, cupti-python's callback is still called, which crashed after the interpreter was
        # torn down.
        os._exit(0)
    return 0


def _run_node_ids(request: PassRequest) -> None:
    from collectors.passes import node_ids

    node_ids.run(request)


def _run_observers(request: PassRequest) -> None:
    from collectors.passes import observers

    observers.run(request)


def _exit_rank(code: int) -> NoReturn:
    """Exit without destroying the group, which would wait for graphs and lost ranks."""
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
