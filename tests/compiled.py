"""Tests compiled once where several processes collect them at the same time.

pytest writes each module of tests anew, so that its assertions tell their values, and keeps what
it has compiled. That takes half of a collection, and in a fresh clone each process would do all of
it at the same time as the others, in the same order.
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
    """Imports all tests, in each process of pytest-xdist from another place on: what comes after
    its own part the others have compiled by then."""
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
