from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from collectors.ledger import clock


def test_a_process_knows_its_start() -> None:
    now = time.perf_counter_ns()
    start = clock.read_process_start()
    assert now - start > 0
    # Linux counts in ticks of 10 ms since the boot; pytest takes longer than a tick to come here.
    with Path("/proc/uptime").open() as file:
        assert now - start < float(file.read().split()[0]) * 1e9


def test_times_of_another_process_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert clock.read_birth() is None
    monkeypatch.setattr(sys, clock.BIRTH, (os.getpid(), 1, 2, 3), raising=False)
    assert clock.read_birth() == clock.Birth(os.getpid(), 1, 2, 3)
    monkeypatch.setattr(sys, clock.BIRTH, (os.getpid() + 1, 1, 2, 3), raising=False)
    assert clock.read_birth() is None
