from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests.attack.server import ROOT, Dashboard


class FellError(Exception):
    """A successful attack; the message names its effect."""


@dataclass(frozen=True)
class Attack:
    what: str
    """The attack in a few words."""
    before: str
    """Effect at commit 719808f, before any defence."""
    attempt: Callable[[Dashboard], str]
    """Run the attack and return its result; raises FellError on success."""
    is_quick: bool = False
    """True if it lasts a few seconds on a shared server."""


def must(holds: object, reached: str) -> None:
    if not holds:
        raise FellError(reached)


def by_tests(*tests: str) -> Callable[[Dashboard], str]:
    """Wrap tests of the suite that need no server as an attempt."""

    def attempt(_: Dashboard) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        lines = done.stdout.strip().splitlines()
        # With the reasons, because a rare failure may not occur again.
        failures = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
        must(done.returncode == 0, "; ".join((*lines[-1:], *failures)))
        return f"held: {lines[-1].partition(' in ')[0]}"

    return attempt
