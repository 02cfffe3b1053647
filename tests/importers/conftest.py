"""Tasks that run in threads of the tests must not change what other tests find."""

from __future__ import annotations

import pytest

from graphviz_dash.ingest.processes import PROCESSES_VARIABLE


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROCESSES_VARIABLE, "1")
