"""The benchmarks of torch.compile up to what needs a GPU: a step is timed, traced and read, and a
model that fails is told while the next ones run. With the tests' torch, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = """\
import json, os, sys, tempfile
from functools import partial
from pathlib import Path
from benchmarks.compile_steps import TRACED, WARM_UP, each_apart, observed

def measure(name):
    if name == "raises":
        raise LookupError("no such model\\nand more")
    if name == "dies":
        os._exit(7)
    if name == "hangs":
        import time
        time.sleep(60)
    calls = []
    with tempfile.TemporaryDirectory() as folder:
        seen = observed(lambda: partial(calls.append, 1), 5, Path(folder))
        files = [path.name for path in Path(folder).iterdir()]
    return len(calls) - 5 - WARM_UP - TRACED, seen.time.reason, files

for names, seconds in ((["works", "raises", "dies", "works"], 60), (["hangs"], 0.1)):
    for outcome in each_apart(names, measure, seconds):
        print(json.dumps([outcome.name, outcome.result, outcome.failure]))
"""


def test_a_step_is_traced_and_a_model_that_fails_is_told() -> None:
    environment = dict(os.environ) | {
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests/collectors/fake_torch"))),
        "COMPILE_BENCHMARK_DEVICE": "cpu",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    works = ["works", [3, "nothing ran on the GPU in the traced steps", ["trace.json.gz"]], None]
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        works,
        ["raises", None, "LookupError: no such model"],
        ["dies", None, "its process ended with 7"],
        works,
        ["hangs", None, "took longer than 0.1 s"],
    ]
