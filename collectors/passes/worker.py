"""The process of one pass: ``python -m collectors.passes.worker REQUEST.json``, or
``--environment OUT``, with the local rank behind it where there are several; with
``--serve SOCKET`` a server whose forks are such processes.

Exit codes: 0 done; 1 the pass failed and failure.json says how, if Python lived long enough to
write it; 2 the request itself is wrong and stderr has the line; NO_SPACE the disk is full.
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

from collectors.collection.failures import describe
from collectors.process.fork_server import SERVE, serve
from collectors.process.lifeline import die_with_parent
from collectors.process.requests import FAILURE_FILE, NO_SPACE, PassRequest
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.model.run import Pass

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(arguments: list[str]) -> int:
    """Runs the pass that the request file describes."""
    die_with_parent()
    if arguments[0] == SERVE:
        served = _serve(int(arguments[1]))
        if served is None:
            return 0
        arguments = served
        die_with_parent()
    # A crash in a driver or a library then says in which line of Python it came.
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
        return _run(request)
    except GraphvizDashError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _serve(descriptor: int) -> list[str] | None:
    """The arguments of a pass in its fork; None in the server at its end."""
    # Without torch the forks say so, each in its own way. Its optimizers import the compiler at
    # their first step, which takes as long again; that starts no thread and touches no GPU.
    with suppress(ImportError):
        importlib.import_module("torch")
        importlib.import_module("torch._dynamo")
    return serve(descriptor)


def _disk_full(error: BaseException) -> OSError | None:
    """The refusal of a full disk that ``error`` is or comes from."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _FULL:
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _run(request: PassRequest) -> int:
    from collectors.passes import capture, clean, memory, plan, traced

    def record(_kind: type[BaseException], error: BaseException, _trace: object) -> None:
        refused = _disk_full(error)
        if refused is None:
            failure = msgspec.json.encode(describe(error, request.kind))
            try:
                (Path(request.out) / FAILURE_FILE).write_bytes(failure)
            except OSError as again:
                refused = again
        if refused is not None:
            print(refused.errno, refused.filename or "", file=sys.stderr, flush=True)
            # An exit code of our own: the interpreter would end with 1.
            os._exit(NO_SPACE)
        if request.group is not None:
            _leave_group(1)

    # The user's step may raise anything; what it was goes into the bundle.
    sys.excepthook = record
    work = {
        Pass.PLAN: plan.run,
        Pass.CLEAN: clean.run,
        Pass.CAPTURE: capture.run,
        Pass.TRACED: traced.run,
        Pass.MEMORY: memory.run,
        Pass.NODE_IDS: _node_ids,
        Pass.OBSERVERS: _observers,
    }
    try:
        if request.group is None:
            work[request.kind](request)
        else:
            from collectors.process.process_group import joined

            with joined(request.group):
                work[request.kind](request)
    except InputError:
        raise
    except GraphvizDashError as error:
        record(type(error), error, None)
        return error.exit_code
    if request.group is not None:
        _leave_group(0)
    if request.kind in (Pass.NODE_IDS, Pass.OBSERVERS):
        # cupti-python's callback is still called when the process ends, which crashed once the
        # interpreter had been torn down.
        os._exit(0)
    return 0


def _node_ids(request: PassRequest) -> None:
    from collectors.passes import node_ids

    node_ids.run(request)


def _observers(request: PassRequest) -> None:
    from collectors.passes import observers

    observers.run(request)


def _leave_group(code: int) -> NoReturn:
    """Ends the process of a rank. Taking its group down would wait for every graph that holds the
    communicator, and for ranks that may be gone."""
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
