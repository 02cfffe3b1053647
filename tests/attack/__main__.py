"""Tries every attack on a server of its own, on this machine alone, and prints a table of them.

    python -m tests.attack [--quick] [NAME...]

Takes some minutes, with ``--quick`` half of one; with NAMEs only those attacks whose text holds one
of them. The exit code is 1 if an attack succeeds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from http.client import HTTPException
from typing import Final

import psutil
from websockets.exceptions import WebSocketException

from tests.attack.attacks import Attack, FellError
from tests.attack.server import dashboard
from tests.attack.table import ATTACKS

_GONE: Final = (
    *(OSError, EOFError, HTTPException, WebSocketException),  # it does not answer
    *(psutil.Error, subprocess.SubprocessError),  # its process is not there, or does not end
    *(AssertionError, LookupError),  # it answers what no page does
)
"""Errors of a connection that an attack ended or broke."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    chosen = [attack for attack in ATTACKS if attack.is_quick or not options.quick]
    if options.names:
        chosen = [each for each in chosen if any(name in each.what for name in options.names)]
    print("| attack | before | now | s |\n| --- | --- | --- | --- |", flush=True)
    sys.exit(1 if fallen(chosen) else 0)


def fallen(attacks: Sequence[Attack]) -> list[str]:
    """Tries ``attacks`` and prints a row each; what those that succeeded reached."""
    reached = []
    with dashboard(["decode", "mlp-train"]) as served:
        for attack in attacks:
            begun = time.monotonic()
            try:
                result = attack.attempt(served)
            except FellError as error:
                result = f"FELL: {error}"
                reached.append(f"{attack.what}: {error}")
            except _GONE as error:
                # The server may be gone: that is what the attack was after.
                result = f"FELL: {type(error).__name__}: {error}"
                reached.append(f"{attack.what}: {error}")
            took = time.monotonic() - begun
            print(f"| {attack.what} | {attack.before} | {result} | {took:.0f} |", flush=True)
    return reached


if __name__ == "__main__":
    main()
