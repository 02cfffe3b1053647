from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.model.graph import (
    CapturedGraph,
)

Change = Callable[[dict[str, Any]], None]


def refusal(path: Path) -> InputError:
    """The error that reading ``path`` ends with; it fits one short line."""
    with pytest.raises(InputError) as caught:
        read_bundle(path)
    error = caught.value
    text = str(error)
    assert text.isprintable(), text
    assert len(text) < 1000 + len(error.where), text
    assert escape_control_characters(error.where) in text
    assert "expected" in text
    assert error.exit_code == 2
    return error


def edit_manifest(bundle: Path, change: Change) -> None:
    file = bundle / "manifest.json"
    content = json.loads(file.read_bytes())
    change(content)
    file.write_text(json.dumps(content))


def replace_part(bundle: Path, place: str, content: bytes, size: int | None = None) -> None:
    """Puts ``content`` at ``place`` and makes the manifest agree, as a forger would."""
    (bundle / place).write_bytes(content)

    def change(manifest: dict[str, Any]) -> None:
        for entry in manifest["files"]:
            if entry["path"] == place:
                entry["bytes"] = len(content) if size is None else size
                entry["sha256"] = hashlib.sha256(content).hexdigest()

    edit_manifest(bundle, change)


def replace_graph(bundle: Path, graph: CapturedGraph) -> None:
    replace_part(bundle, "graphs/graph-0.json", msgspec.json.encode(graph))
