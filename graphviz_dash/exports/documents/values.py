"""Values as JSON documents write them."""

from __future__ import annotations

import os
from pathlib import Path


def number(value: float | None) -> float | int | None:
    """A whole number as an integer, so that JSON does not show "127.0" nanoseconds."""
    return int(value) if value is not None and value == int(value) else value


def shown(path: Path) -> str:
    """``path`` as it can be typed here: relative to the current folder if it lies in it."""
    full, here = os.path.abspath(path), os.getcwd()
    return os.path.relpath(full, here) if Path(full).is_relative_to(here) else full
