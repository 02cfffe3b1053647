"""Tasks that run in threads of the tests must not change what other tests find."""

from __future__ import annotations

import pytest

from graphviz_dash.ingest.kineto.workers import VARIABLE


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
