"""What every JSON document begins with: the name of its schema and the version of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

VERSIONS: Final = {
    "compare": 1,
    "compile": 1,
    "diff": 1,
    "doctor": 1,
    "fleet": 1,
    "gate": 1,
    "import": 1,
    "ladder": 1,
    "launch": 1,
    "ls": 1,
    "memory": 1,
    "predict": 1,
    "show": 1,
}
"""The version of each document, by the command that prints it. A field that is added keeps it; one
that is removed, renamed or means something else raises it."""


def versioned(name: str, content: Mapping[str, object]) -> dict[str, object]:
    """A whole document: ``content`` behind its schema and version (KeyError: no such document)."""
    return {"schema": f"graphviz-dash/{name}", "version": VERSIONS[name], **content}
