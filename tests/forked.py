"""Run Python code in forks of a process that has imported modules, which costs more than most code.

For tests that need a process (to kill it, to limit it, or with a stand-in of torch), but not its
start: ``sitecustomize`` does not run again, and the modules have read the environment before.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from tests.processes import bind, restore_signals

ROOT: Final = Path(__file__).parents[1]
_NUMBER: Final = struct.Struct("i")
_REQUEST_BYTES: Final = 1 << 20


class Fork:
    """A fork that runs; its parent is the fork server."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        (self.pid,) = _NUMBER.unpack(server.recv(_NUMBER.size))
        self.returncode: int | None = None

    def wait(self) -> int:
        """Return the exit code, or the negative number of the signal that ended it."""
        if self.returncode is None:
            (self.returncode,) = _NUMBER.unpack(self._server.recv(_NUMBER.size))
        return self.returncode


class ForkServer:
    """A process that has imported ``modules``, without threads of Python. It runs one fork at a
    time."""

    def __init__(self, modules: tuple[str, ...], path: str) -> None:
        self._socket, far = socket.socketpair(type=socket.SOCK_SEQPACKET)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with far:
            self._process = subprocess.Popen(
                bind([sys.executable, "-m", __name__, path, *modules]),
                cwd=ROOT,
                env=environment | {"OPENBLAS_NUM_THREADS": "1"},
                stdin=far,
            )

    def close(self) -> None:
        """Let the process end, and wait for it."""
        self._socket.close()
        self._process.wait()

    @contextmanager
    def start(
        self,
        code: str,
        *arguments: str | Path,
        stdout: IO[Any],
        stderr: IO[Any],
        cwd: Path = ROOT,
        env: Mapping[str, str] = os.environ,
    ) -> Iterator[Fork]:
        """Run ``python -c CODE ARGUMENTS``; at the end of the context, kill and wait for it."""
        request = json.dumps([code, [*map(str, arguments)], str(cwd), dict(env)]).encode()
        with open(os.devnull) as stdin:
            streams = [stream.fileno() for stream in (stdin, stdout, stderr)]
            socket.send_fds(self._socket, [request], streams)
        fork = Fork(self._socket)
        try:
            yield fork
            fork.wait()
        finally:
            if fork.returncode is None:
                os.kill(fork.pid, signal.SIGKILL)
                fork.wait()

    def run(
        self,
        code: str,
        *arguments: str | Path,
        cwd: Path = ROOT,
        env: Mapping[str, str] = os.environ,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``python -c CODE ARGUMENTS`` until it ends, and return its code and output."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            with self.start(code, *arguments, stdout=out, stderr=err, cwd=cwd, env=env) as fork:
                ended = fork.wait()
            for stream in (out, err):
                stream.seek(0)
            return subprocess.CompletedProcess(arguments, ended, out.read(), err.read())


@cache
def get_fork_server(*modules: str, path: str = str(ROOT)) -> ForkServer:
    """Return this process's fork server that has imported ``modules`` along ``path``."""
    server = ForkServer(modules, path)
    atexit.register(server.close)
    return server


def _receive_code(path: str, *modules: str) -> str:
    """Import ``modules`` along ``path`` and fork for each request. Return in each fork, with the
    code to run."""
    restore_signals()
    gc.disable()
    base = sys.path[1:]
    sys.path[:] = [*path.split(os.pathsep), *base]
    for name in modules:
        importlib.import_module(name)
    # Polars starts threads of its allocator and its spill files, which sleep until its first query.
    if threading.active_count() > 1:
        raise RuntimeError("A fork would have none of the threads that the imports have started")
    gc.freeze()
    gc.enable()
    with socket.socket(fileno=os.dup(0)) as requests:
        while True:
            request, streams, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 3)
            if not request:
                raise SystemExit
            child = os.fork()
            if not child:
                break
            for stream in streams:
                os.close(stream)
            requests.send(_NUMBER.pack(child))
            _, status = os.waitpid(child, 0)
            requests.send(_NUMBER.pack(os.waitstatus_to_exitcode(status)))
    gc.unfreeze()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    code, arguments, folder, environment = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    own = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = ["", *own, *base]
    sys.argv[:] = ["-c", *arguments]
    return str(code)


if __name__ == "__main__":
    # At the top, so that the interpreter treats exits, errors and interrupts as those of a program.
    exec(compile(_receive_code(*sys.argv[1:]), "<string>", "exec"), {"__name__": "__main__"})
