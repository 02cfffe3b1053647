"""Build documents from analysis results; the type aliases add unit and meaning to the schemas.

A document is a Struct whose fields are attributes of an analysis result: msgspec converts them.
A field whose JSON name differs from the attribute has a ``name``.
"""

from __future__ import annotations

import os
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    Number: TypeAlias = float
    RoundedNumber: TypeAlias = float
else:
    # msgspec passes these two types to the hooks below.
    Number: TypeAlias = Real
    """A number, written without a fraction if it is whole: no "127.0" nanoseconds."""
    RoundedNumber: TypeAlias = Integral
    """A number that is rounded."""

Ns: TypeAlias = Annotated[Number, Meta(description="Nanoseconds.")]
WholeNs: TypeAlias = Annotated[RoundedNumber, Meta(description="Nanoseconds.")]
Bytes: TypeAlias = Annotated[int, Meta(description="Bytes.")]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Fraction: TypeAlias = Annotated[float, Meta(description="A fraction of one.")]
Ratio: TypeAlias = Annotated[float, Meta(description="A quotient of two values of one unit.")]
Sentence: TypeAlias = Annotated[str, Meta(description="Text for people; its wording may change.")]
FilePath: TypeAlias = Annotated[
    str, Meta(description="Path, relative if inside the current folder.")
]


class Document(Struct, frozen=True, kw_only=True):
    """Base class of JSON documents and their parts."""


D = TypeVar("D", bound=Document)
T = TypeVar("T")


class _Fields:
    """Attributes of the first of several sources that has them, replaced by ``overrides``.

    A missing value is None, and its reason is the attribute with the suffix ``_reason``. All
    attributes of a source None are None.
    """

    def __init__(self, sources: tuple[object, ...], overrides: dict[str, object]) -> None:
        self.__dict__.update(overrides)
        self._sources = sources

    def __getattr__(self, name: str) -> object:
        for source in self._sources:
            if hasattr(source, name):
                value = getattr(source, name)
                return None if isinstance(value, Missing) else value
            if name.endswith("_reason") and hasattr(source, value := name.removesuffix("_reason")):
                return get_reason(getattr(source, value))
        if None in self._sources:
            return None
        raise AttributeError(name)


def build(document: type[D], /, *sources: object, **overrides: object) -> D:
    """Build a document from the attributes of ``sources`` and the ``overrides``.

    Raises:
        msgspec.ValidationError: a value does not have the type of its field, or a field is missing.
    """
    fields = _Fields(sources, overrides)
    return msgspec.convert(fields, document, from_attributes=True, dec_hook=_simplify)


def get_reason(value: object) -> str | None:
    """Return why a value is missing; None if it is not."""
    return value.reason if isinstance(value, Missing) else None


def _simplify(type_: type, value: Any) -> Any:
    return round(value) if type_ is Integral else simplify_number(value)


def describe_number_type(type_: type) -> dict[str, str]:
    """Return the JSON schema of the number types above, for msgspec.

    Raises:
        NotImplementedError: another type.
    """
    if type_ in (Real, Integral):
        return {"type": "number"}
    raise NotImplementedError


def drop_missing(value: T | Missing) -> T | None:
    """Return ``value``; None if it is missing."""
    return None if isinstance(value, Missing) else value


def simplify_number(value: float) -> float:
    """Convert a whole number to int, so that JSON does not contain "127.0" nanoseconds."""
    return int(value) if value == int(value) else value


def display_path(path: Path | str) -> str:
    """Return ``path`` relative to the current folder if inside it, otherwise absolute. Bytes that
    are not UTF-8 are escaped."""
    full, current = os.path.abspath(path), os.getcwd()
    has_prefix = full.startswith(os.path.join(current, ""))
    text = os.path.relpath(full, current) if has_prefix or full == current else full
    return text.encode("utf-8", "backslashreplace").decode()
