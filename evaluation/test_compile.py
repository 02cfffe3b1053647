"""torch.compile benchmarks without a GPU, with the tests' fake torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = """\
import json, os, tempfile, time
from functools import partial
from pathlib import Path
from evaluation.compile.steps import Apart, TRACED, WARM_UP, observed, wait_until_ready

def measure(name):
    if name == "raises":
        raise LookupError("no such model\\nand more")
    if name == "dies":
        os._exit(7)
    if name == "hangs":
        time.sleep(60)
    calls = []
    with tempfile.TemporaryDirectory() as folder:
        seen = yield from observed(lambda: partial(calls.append, 1), 5, Path(folder))
        files = [path.name for path in sorted(Path(folder).iterdir())]
    yield len(calls) - 5 - WARM_UP - TRACED, seen.time.reason, files
    yield "again"

processes = [Apart(name, measure) for name in ("works", "raises", "dies", "works", "hangs")]
wait_until_ready(processes[:4], 60)
wait_until_ready(processes[4:], 0.1)
for process in processes:
    outcomes = [process.measured(), process.measured()]
    process.end()
    print(json.dumps([[process.name], *([each.result, each.failure] for each in outcomes)]))
"""


def test_a_step_is_traced_and_a_model_that_fails_is_told() -> None:
    environment = dict(os.environ) | {
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests/collectors/fake_torch"))),
        "COMPILE_BENCHMARK_DEVICE": "cpu",
    }
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    works = [
        3,
        "the trace contains neither GPU work nor calls that launch it, as if only the CPU was "
        "recorded",
        ["step.json", "trace.json.gz"],
    ]
    failures = {
        "raises": "LookupError: no such model and more",
        "dies": "its process ended with 7",
        "hangs": "took longer than 0.1 s",
    }
    assert [json.loads(line) for line in process.stdout.splitlines()] == [
        [[name], [None, failures[name]], [None, failures[name]]]
        if name in failures
        else [[name], [works, None], ["again", None]]
        for name in ("works", "raises", "dies", "works", "hangs")
    ]
