"""Processes that tests and benchmarks start: they end with the process that started them."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

_BIND: Final = """
import ctypes, os, signal, sys
parent, *command = sys.argv[1:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, which exec keeps
    if os.getppid() != int(parent):
        sys.exit("the process that started this has ended")
os.execvp(command[0], command)
"""


def bind(command: Sequence[str | Path]) -> list[str]:
    """Return ``command`` such that its process ends with this one, even if this one is killed.

    On Linux; elsewhere the command itself.
    """
    return [sys.executable, "-I", "-S", "-c", _BIND, str(os.getpid()), *map(str, command)]


def get_state(pid: int) -> str:
    """Return the state of a process, Linux only: Z for one that nobody has waited for.

    Raises:
        FileNotFoundError: there is no such process.
    """
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def find_free_port() -> int:
    """Return a free port for a server that starts later.

    It is below those that systems give to other sockets meanwhile.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def restore_signals() -> None:
    """Undo ignored signals, which started processes inherit: shells ignore an interrupt of jobs in
    the background, nohup ignores a hangup."""
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def stop(process: subprocess.Popen[Any], seconds: float = 10) -> None:
    """End ``process`` by SIGTERM; after some seconds, kill it and its children."""
    if process.poll() is not None:
        return
    children = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        for child in children:
            # Children that have ended meanwhile are not killed, even if another has their number.
            if child.is_running():
                child.kill()
