"""Gold files: what a command or an export should give, kept as a file.

A mismatch is saved beside the gold file as ``<name>.found``. After a change that is meant, look at
the difference and write all of them anew with ``UPDATE_GOLD=1 python -m pytest tests/cli``.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest


def assert_gold(found: str, gold: Path) -> None:
    """Fails with a difference unless ``found`` is the text of ``gold``."""
    beside = gold.with_name(f"{gold.name}.found")
    if os.environ.get("UPDATE_GOLD"):
        gold.parent.mkdir(parents=True, exist_ok=True)
        gold.write_text(found, encoding="utf-8")
        beside.unlink(missing_ok=True)
        return
    expected = gold.read_text(encoding="utf-8") if gold.exists() else ""
    if found == expected:
        beside.unlink(missing_ok=True)
        return
    beside.write_text(found, encoding="utf-8")
    lines = difflib.unified_diff(
        expected.splitlines(), found.splitlines(), gold.name, beside.name, lineterm=""
    )
    pytest.fail(
        "\n".join(lines) + f"\nsaved as {beside}; if it is meant: UPDATE_GOLD=1", pytrace=False
    )
