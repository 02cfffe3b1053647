"""Detect if a signal was sent to the process group or to this process alone.

A terminal, or a supervisor that ends a group, sends a signal to the program as well. Forwarding it
would interrupt the program twice. The kernel does not report the target, so a child in the group
waits for the same signals and writes their numbers into a pipe.
"""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import IO, Final, Self

_WAIT_S: Final = 0.2
"""Maximum wait for the child's answer. A signal reaches both at the same moment."""

_CODE: Final = """
import os, signal, sys
for number in map(int, sys.argv[1:]):
    signal.signal(number, lambda number, frame: os.write(1, bytes([number])))
os.read(0, 1)
"""
"""Ends when its standard input closes at the end of the parent."""


class GroupWitness:
    """Context with a child that receives the ``signals`` of this process group."""

    def __init__(self, signals: Sequence[signal.Signals]) -> None:
        self._seen: Counter[int] = Counter()
        numbers = [str(int(number)) for number in signals]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CODE, *numbers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.kill()
        self._process.wait()

    def check_signal(self, number: int) -> bool | None:
        """Check if the group received the signal that just arrived. None if the child has ended."""
        output: IO[bytes] | None = self._process.stdout
        end = time.monotonic() + _WAIT_S
        while not self._seen[number]:
            left = end - time.monotonic()
            if output is None or left <= 0:
                return False
            ready, _, _ = select.select([output], [], [], left)
            if ready:
                content = output.read(64)
                if not content:
                    return None
                self._seen.update(content)
        self._seen[number] -= 1
        return True
