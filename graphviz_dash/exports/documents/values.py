"""Convert values for JSON documents; the type aliases add unit and meaning to the schemas."""

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
Sentence: TypeAlias = Annotated[str, Meta(description="Text for people; its wording may change.")]
FilePath: TypeAlias = Annotated[
    str, Meta(description="Path, relative if inside the current folder.")
]


def convert_value(value: T | Missing, document: Callable[[T], D]) -> D | None:
    """Build the document of a value; None if the value is missing."""
    return None if isinstance(value, Missing) else document(value)


def get_reason(value: object) -> str | None:
    """Return why a value is missing; None if it is not."""
    return value.reason if isinstance(value, Missing) else None


@overload
def simplify_number(value: None) -> None: ...
@overload
def simplify_number(value: float) -> float: ...
def simplify_number(value: float | None) -> float | None:
    """Convert whole numbers to int, so that JSON does not contain "127.0" nanoseconds."""
    return int(value) if value is not None and value == int(value) else value


def display_path(path: Path) -> str:
    """Return ``path`` relative to the current folder if inside it, otherwise absolute. Bytes that
    are not UTF-8 are escaped."""
    full, here = os.path.abspath(path), os.getcwd()
    text = os.path.relpath(full, here) if Path(full).is_relative_to(here) else full
    return text.encode("utf-8", "backslashreplace").decode()
