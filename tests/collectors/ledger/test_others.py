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


CAPTURES = """
from collectors.driver.nvml import DeviceMemory
from collectors.guard import Guard
from collectors.ledger import recorder
from collectors.ledger.samples import DeviceNumbers
from graphviz_dash.model.ledger import SampleKind
MIB = 1 << 20
reads = []
others = 0

def read_device_memory(pid):
    reads.append(pid)
    return {"GPU-1": DeviceMemory(used=9 * MIB, process=1_000 * MIB, others=others * MIB)}

recorder.read_device_memory = read_device_memory
recorder.read_module_loading = lambda: "lazy"
ledger = recorder.LedgerRecorder(Guard())
ledger._uuid = "GPU-1"
ledger._used_before = {"GPU-1": DeviceMemory(used=9 * MIB, process=None)}

def sample(kind, outside):
    reserved = 200 * MIB
    recorder.read_numbers = lambda: DeviceNumbers(outside * MIB + reserved, 0, reserved, 0, 0, 0)
    ledger.sample(kind)
    rows = ledger._samples
    print(len(reads), rows[-1].others_bytes // MIB)

sample(SampleKind.CONTEXT, 800)
sample(SampleKind.CAPTURE_BEGIN, 800)
sample(SampleKind.CAPTURE_END, 800)
others = 300
sample(SampleKind.INSTANTIATION, 1_100)
sample(SampleKind.CAPTURE_BEGIN, 1_100)
sample(SampleKind.PERIODIC, 1_100)
others = 0
sample(SampleKind.CAPTURE_END, 800)
"""


def test_captures_read_other_processes_only_after_a_change() -> None:
    environment = os.environ | {"PYTHONPATH": f"{FAKE}:{ROOT}"}
    command = [sys.executable, "-c", CAPTURES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    rows = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    # Number of readings, memory of other processes and the driver.
    assert rows == [(1, 9), (1, 9), (1, 9), (2, 309), (2, 309), (3, 309), (4, 9)], done.stderr
