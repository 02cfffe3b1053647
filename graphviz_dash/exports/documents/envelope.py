"""Schema name and version at the top of every JSON document."""

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
"""Version of each document, by the command that prints it. Adding a field keeps the version;
removing, renaming or redefining one raises it.
"""


def versioned(name: str, content: Mapping[str, object]) -> dict[str, object]:
    """Return a document with its schema and version first.

    Raises:
        KeyError: no document has this name.
    """
    return {"schema": f"graphviz-dash/{name}", "version": VERSIONS[name], **content}
