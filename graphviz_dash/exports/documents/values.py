"""Values as JSON documents write them, and their types: unit and meaning go into the schemas."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar, overload

from msgspec import Meta

from graphviz_dash.model.absence import Missing

T = TypeVar("T")
D = TypeVar("D")

Ns: TypeAlias = Annotated[float, Meta(description="Nanoseconds.")]
Bytes: TypeAlias = Annotated[int, Meta(description="Bytes.")]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Fraction: TypeAlias = Annotated[float, Meta(description="A fraction of one.")]
Ratio: TypeAlias = Annotated[float, Meta(description="A quotient of two values of one unit.")]
Sentence: TypeAlias = Annotated[str, Meta(description="Words for people; no program reads them.")]
FilePath: TypeAlias = Annotated[
    str, Meta(description="As it can be typed: relative if it lies in the current folder.")
]


def document_of(value: T | Missing, document: Callable[[T], D]) -> D | None:
    """The document of a value; None where it is missing."""
    return None if isinstance(value, Missing) else document(value)


def reason_of(value: object) -> str | None:
    """Why a value is missing; None where it is not."""
    return value.reason if isinstance(value, Missing) else None


@overload
def number(value: None) -> None: ...
@overload
def number(value: float) -> float: ...
def number(value: float | None) -> float | None:
    """A whole number as an integer, so that JSON does not show "127.0" nanoseconds."""
    return int(value) if value is not None and value == int(value) else value


def shown(path: Path) -> str:
    """``path`` as it can be typed here: relative to the current folder if it lies in it."""
    full, here = os.path.abspath(path), os.getcwd()
    return os.path.relpath(full, here) if Path(full).is_relative_to(here) else full
