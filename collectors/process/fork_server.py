"""Fork passes from a process that has already imported torch, which takes seconds.

The server never uses a GPU, so its forks can. A request holds the arguments of a pass and a
descriptor for its stderr. The replies are its process id and, later, its exit code. The first
message of the server is the reason for which passes import the workload's module, or null.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from collectors.process.lifeline import PARENT
from collectors.process.subprocesses import POLL_S, WorkerLimit

SERVE: Final = "--serve"
"""First argument of the server process; the next is its socket descriptor."""

_MAX_MESSAGE_BYTES: Final = 1 << 16
_READ_BYTES: Final = 1 << 16


class ForkServer:
    """Collector's end of the connection. Starts the server with the first pass."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        label: str = "",
        workload: Sequence[str] = (),
    ) -> None:
        """``command`` is the worker's, without arguments.

        ``label`` is an unused argument that identifies the processes. ``workload`` are further
        arguments of the server.
        """
        self._command = command
        self._environment = environment
        self._label = label
        self._workload = workload
        self.refusal: str | None = None
        """Effect of importing the workload's module that makes each pass import it; None if none or
        before the first pass."""
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def run(
        self, arguments: Sequence[str], limit: WorkerLimit
    ) -> subprocess.CompletedProcess[str] | None:
        """Run a pass, killed at its limit; None if the server is unavailable."""
        connection = self._connect()
        if connection is None:
            return None
        reader, writer = os.pipe()
        try:
            socket.send_fds(connection, [msgspec.json.encode(arguments)], [writer])
            os.close(writer)
            writer = -1
            pid = connection.recv(_MAX_MESSAGE_BYTES)
            if not pid:
                return None
            code, stderr = _wait_for_pass(connection, int(pid), reader, limit)
        except (BrokenPipeError, ConnectionError):
            return None
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)
        if code is None:
            return None
        text = stderr.decode("utf-8", errors="replace")
        return subprocess.CompletedProcess([*self._command, *arguments], code, None, text)

    def close(self) -> None:
        """Stop the server."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _connect(self) -> socket.socket | None:
        if self._socket is None and sys.platform == "linux":
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [*self._command, SERVE, str(theirs.fileno()), self._label, *self._workload],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=dict(self._environment),
                    pass_fds=(theirs.fileno(),),
                )
            greeting = self._socket.recv(_MAX_MESSAGE_BYTES)
            self.refusal = msgspec.json.decode(greeting, type=str | None) if greeting else None
        return self._socket


def _wait_for_pass(
    connection: socket.socket, pid: int, reader: int, limit: WorkerLimit
) -> tuple[int | None, bytes]:
    """Return exit code and stderr of the pass; None if the server exited first."""
    stderr = bytearray()
    os.set_blocking(reader, False)
    running = True
    try:
        sources: list[int | socket.socket] = [connection, reader]
        while True:
            ready, _, _ = select.select(sources, [], [], POLL_S)
            if reader in ready and not _drain(reader, stderr):
                sources = [connection]
            if connection in ready:
                running = False  # or the server has ended, and the pass with it
                reply = connection.recv(_MAX_MESSAGE_BYTES)
                _drain(reader, stderr)
                return (int(reply) if reply else None), bytes(stderr)
            if limit.check():
                _kill_pass(pid)
    finally:
        # On interrupt, end the pass.
        if running:
            _kill_pass(pid)


def _kill_pass(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _drain(reader: int, content: bytearray) -> bool:
    while True:
        try:
            data = os.read(reader, _READ_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        content += data


def serve_forks(descriptor: int, refusal: str | None = None) -> list[str] | None:
    """Serve requests: return the arguments in each fork, and None in the server at the end.

    ``refusal`` is the effect of importing the workload's module that makes each fork import it.
    """
    os.environ[PARENT] = str(os.getpid())
    connection = socket.socket(fileno=descriptor)
    connection.send(msgspec.json.encode(refusal))
    pid = 0
    while True:
        content, (*descriptors,), _, _ = socket.recv_fds(connection, _MAX_MESSAGE_BYTES, 1)
        if pid:
            # Not before the next request: until it gets the reply, the collector may kill the
            # pass, whose number must not be another process's by then.
            os.waitpid(pid, 0)
        if not content:
            return None
        pid = os.fork()
        if pid == 0:
            connection.close()
            os.dup2(descriptors[0], sys.stderr.fileno())
            os.close(descriptors[0])
            # Match the arguments of a process started for the pass.
            sys.argv[1:] = msgspec.json.decode(content, type=list[str])
            return sys.argv[1:]
        os.close(descriptors[0])
        connection.send(str(pid).encode())
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert status is not None  # without WNOHANG
        is_exit = status.si_code == os.CLD_EXITED
        connection.send(str(status.si_status if is_exit else -status.si_status).encode())
