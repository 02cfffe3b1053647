from __future__ import annotations

import sys

import pytest

from collectors.ceilings import store


@pytest.fixture(autouse=True)
def no_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "COMMAND", (sys.executable, "-c", "raise SystemExit('no GPU')"))
