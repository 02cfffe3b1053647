"""Values as JSON documents write them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from graphviz_dash.model.absence import Missing

T = TypeVar("T")


def number(value: float | None) -> float | int | None:
    """A whole number as an integer, so that JSON does not show "127.0" nanoseconds."""
    return int(value) if value is not None and value == int(value) else value


def shown(path: Path) -> str:
    """``path`` as it can be typed here: relative to the current folder if it lies in it."""
    full, here = os.path.abspath(path), os.getcwd()
    return os.path.relpath(full, here) if Path(full).is_relative_to(here) else full


def document_of(
    value: T | Missing, document: Callable[[T], dict[str, object]]
) -> dict[str, object] | None:
    """The document of a value; None where it is missing."""
    return None if isinstance(value, Missing) else document(value)


def reason_of(value: object) -> str | None:
    """Why a value is missing; None where it is not."""
    return value.reason if isinstance(value, Missing) else None
