"""Schema name and version at the top of every JSON document."""

from __future__ import annotations

from typing import Final

import msgspec

VERSIONS: Final = {
    "compare": 2,
    "compile": 2,
    "diff": 2,
    "doctor": 2,
    "efficiency": 1,
    "fleet": 2,
    "gate": 3,
    "import": 1,
    "ladder": 2,
    "launch": 2,
    "ls": 2,
    "memory": 3,
    "predict": 3,
    "replay-check": 1,
    "show": 2,
}
"""Version of each document, by the command that prints it. Adding a field keeps the version;
removing, renaming or redefining one raises it.
"""


def add_version(name: str, content: object) -> dict[str, object]:
    """Return a document as JSON values, with its schema and version first.

    Raises:
        KeyError: no document has this name.
    """
    fields: dict[str, object] = msgspec.to_builtins(content)
    return {"schema": f"graphviz-dash/{name}", "version": VERSIONS[name], **fields}
