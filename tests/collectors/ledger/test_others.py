from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FAKE = Path(__file__).parents[1] / "fake_torch"

PROGRAM = """
from collectors.driver.nvml import DeviceMemory
from collectors.ledger.samples import estimate_others
MIB = 1 << 20
before = DeviceMemory(used=509 * MIB, others=500 * MIB, process=None)
memory = DeviceMemory(used=0, others={others} * MIB, process={process})
estimate = estimate_others({used} * MIB, memory, before)
print(None if estimate is None else estimate // MIB)
"""


@pytest.mark.parametrize(
    ("used", "others", "process", "estimate"),
    [
        # Equal to the lists, within the rounding of the driver.
        (1_512, 500, "1_000 * MIB", "509"),
        # Another process ended, but its memory is still in use.
        (1_512, 0, "1_000 * MIB", "512"),
        # Another process grew before the list did.
        (21_512, 500, "1_000 * MIB", "20512"),
        # The driver does not list this process.
        (1_512, 500, "None", "None"),
    ],
)
def test_memory_of_other_processes_while_they_start_and_end(
    used: int, others: int, process: str, estimate: str
) -> None:
    program = PROGRAM.format(used=used, others=others, process=process)
    environment = os.environ | {"PYTHONPATH": f"{FAKE}:{ROOT}"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == estimate, done.stderr
