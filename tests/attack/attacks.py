"""What an attack is, and how it is tried."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests.attack.server import ROOT, Dashboard


class FellError(Exception):
    """The attack succeeded; the message says what it reached."""


@dataclass(frozen=True)
class Attack:
    """Something that a stranger may try."""

    what: str
    """The attack in a few words."""
    before: str
    """What it reached at commit 719808f, before anything was done about it."""
    attempt: Callable[[Dashboard], str]
    """Tries it, and returns what came of it; raises FellError where it succeeds."""
    is_quick: bool = False
    """Whether it takes a few seconds on a server that others attack too."""


def must(holds: object, reached: str) -> None:
    """FellError with what was ``reached``, unless it ``holds``."""
    if not holds:
        raise FellError(reached)


def by_tests(*tests: str) -> Callable[[Dashboard], str]:
    """The attempt that tests of the suite make on what is no server."""

    def attempt(_: Dashboard) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        last = done.stdout.strip().rpartition("\n")[2]
        must(done.returncode == 0, last)
        return f"held: {last.partition(' in ')[0]}"

    return attempt
