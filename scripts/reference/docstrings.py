"""The docstrings below fields, which Python does not keep, as Markdown."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable
from functools import cache
from itertools import pairwise

Docstrings = dict[tuple[str, str], str]
"""Text by the names of class and field."""


def join_lines(text: str | None) -> str:
    """``text`` on one line, with the code marks of Markdown."""
    return format_code_marks(" ".join((text or "").split()))


def format_code_marks(text: str) -> str:
    """``text`` with one backtick for two, and without roles of Sphinx."""
    return re.sub(r":(?:func|class|meth|data|mod):", "", text).replace("``", "`")


def get_first_paragraph(kind: type) -> str:
    """The first paragraph of a class's docstring, on one line."""
    return join_lines((inspect.getdoc(kind) or "").split("\n\n")[0])


def get_field_text(kind: type, field: str) -> str:
    """The docstring below ``field`` of ``kind`` or of a class that it derives from."""
    for base in kind.__mro__:
        if base.__module__ in sys.modules and base.__module__ != "builtins":
            docstring = _parse_field_docstrings(base.__module__).get((base.__name__, field))
            if docstring is not None:
                return join_lines(docstring)
    return ""


@cache
def _parse_field_docstrings(module: str) -> Docstrings:
    """The docstrings below the assignments in all classes of ``module``."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):
        return {}
    return {
        (node.name, name): text
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for name, text in _list_documented_fields(node.body)
    }


def _list_documented_fields(body: list[ast.stmt]) -> Iterable[tuple[str, str]]:
    for statement, following in pairwise(body):
        target = None
        if isinstance(statement, ast.AnnAssign):
            target = statement.target
        elif isinstance(statement, ast.Assign):
            target = statement.targets[0]
        if (
            isinstance(target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            yield target.id, following.value.value


_TYPE_OPENINGS = {
    "integer": re.compile(r"^Number of (?!each )"),
    "boolean": re.compile(r"^(?:True if|Whether) "),
}


def shorten_by_type(text: str, kind: str) -> str:
    """``text`` without the opening that a type implies, such as "Number of" for an integer."""
    opening = _TYPE_OPENINGS.get(kind)
    if opening is None or not opening.match(text):
        return text
    rest = opening.sub("", text)
    return rest[:1].upper() + rest[1:]
