"""Tasks that end their own process; in a module of few imports, for each new process needs it."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def die_once(item: tuple[int, Path]) -> int:
    """Ends its own process the first time it is asked for item 2, as the kernel does to one that
    takes too much memory."""
    number, folder = item
    if number == 2 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_always(item: tuple[int, Path]) -> int:
    if item[0] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return item[0]
