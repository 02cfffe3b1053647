"""Tests compiled once, although several processes collect them at the same time.

Pytest rewrites the assertions of each module and caches the result. This is half of a collection,
and in a fresh clone all processes would compile all modules in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent


def begin_with_own_part(environment: Mapping[str, str]) -> None:
    """Import all tests; each process of pytest-xdist starts at another one, so that the others have
    compiled the rest."""
    workers = int(environment.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1:
        return
    own = int(environment["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    names = sorted(
        ".".join(("tests", *path.relative_to(TESTS).with_suffix("").parts))
        for path in TESTS.rglob("test_*.py")
    )
    begin = len(names) * own // workers
    for name in names[begin:] + names[:begin]:
        # Collecting it will tell what is wrong, or missing here.
        with suppress(ImportError, pytest.skip.Exception):
            import_module(name)
