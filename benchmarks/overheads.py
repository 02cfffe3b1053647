"""Overheads of two versions side by side: start, first page and a recorder at rest.

    python -m benchmarks.overheads OLD [NEW] [--seconds 240]

OLD and NEW are clones; the default of NEW is this one. Both run with this interpreter and its
packages. Each round measures each version once, in changing order, so that other work on the
machine affects both equally:

- ``--version``: CPU time of the command
- server start: CPU time of ``serve`` until it answers
- first page: CPU time of server and helper from the start to the first four cards of the samples
- recorder at rest: time of a replay of this clone's fake torch after the last recorded step,
  divided by a replay that the recorder does not watch; fastest of 400 interleaved blocks
- recorder at rest: bytecode instructions of such a replay, torch's included

The table shows medians, the median ratio of all rounds and its 95% interval (bootstrap). The first
round fills the caches and is not counted. As root the programs get real-time priority.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
from playwright.sync_api import Browser, sync_playwright

from benchmarks.many_experiments import find_port, is_ready
from tests.chromium import CHROMIUM_OPTIONS, system_chromium
from tests.processes import stop

_ROOT: Final = Path(__file__).parents[1]
_PROGRAM: Final = """
import json, sys, time
from torch.cuda import CUDAGraph, graph

class Unwatched(CUDAGraph.__base__):
    def replay(self):
        super().replay()

def measure_block(replay):
    begin = time.perf_counter_ns()
    for _ in range(500):
        replay()
    return time.perf_counter_ns() - begin

def count_instructions(frame, event, _):
    global instructions
    frame.f_trace_opcodes = True
    instructions += event == "opcode"
    return count_instructions

captured = CUDAGraph()
with graph(captured):
    pass
for _ in range(2000):
    captured.replay()
replays = (captured.replay, Unwatched().replay)
watched, unwatched = map(min, zip(*([measure_block(each) for each in replays] for _ in range(400))))
instructions = 0
sys.settrace(count_instructions)
for _ in range(100):
    captured.replay()
sys.settrace(None)
json.dump([watched / unwatched, instructions / 100], open("measured", "w"))
"""
_FAKE_TORCH: Final = _ROOT / "tests" / "collectors" / "fake_torch"
_COMMANDS: Final = 5
_PROGRAMS: Final = 3
_DRAWS: Final = 2000
"""Number of samples of the bootstrap."""


class _Version:
    """A clone with its own cache."""

    def __init__(self, clone: Path, cache: Path) -> None:
        self.clone = clone
        has_app = (clone / "graphviz_dash" / "app").is_dir()
        module = "graphviz_dash.app.cli.main" if has_app else "graphviz_dash.cli.main"
        self._command = (sys.executable, "-P", "-m", module)
        self._environment = os.environ | {"GRAPHVIZ_DASH_CACHE": str(cache)}

    def measure(self, browser: Browser) -> dict[str, float]:
        start_s, page_s = self._measure_server(browser)
        ratios, instructions = zip(*(self._measure_rest() for _ in range(_PROGRAMS)), strict=True)
        return {
            "`--version`, CPU ms": 1e3 * self._measure_version(),
            "server start, CPU ms": 1e3 * start_s,
            "first page, CPU ms": 1e3 * page_s,
            "recorder at rest, replay time / unwatched": statistics.median(ratios),
            "recorder at rest, instructions per replay": statistics.median(instructions),
        }

    def _get_environment(self, *folders: Path) -> dict[str, str]:
        paths = os.pathsep.join(map(str, (*folders, self.clone)))
        return self._environment | {"PYTHONPATH": paths}

    def _measure_version(self) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(_COMMANDS):
            self._run((*self._command, "--version"), self._get_environment(), Path("/"))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / _COMMANDS

    def _measure_rest(self) -> tuple[float, float]:
        """Return the relative time and the instructions of a replay with the recorder at rest."""
        # Not the command ``collect``, whose entry point is that of this clone's environment.
        recorder = (sys.executable, "-P", "-m", "collectors")
        options = ("-o", "out", "--skip", "5", "--steps", "0", "--")
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "train.py").write_text(_PROGRAM, encoding="utf-8")
            environment = self._get_environment(_FAKE_TORCH)
            self._run((*recorder, *options, sys.executable, "train.py"), environment, folder)
            ratio, instructions = json.loads((folder / "measured").read_bytes())
            return ratio, instructions

    @staticmethod
    def _run(command: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        subprocess.run(
            command,
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )

    def _measure_server(self, browser: Browser) -> tuple[float, float]:
        """Return the CPU time of a server until it answers, and until its first cards."""
        port = find_port()
        command = subprocess.Popen(
            (*self._command, "serve", str(self.clone / "sample_traces"), "--port", str(port)),
            env=self._get_environment(),
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            while not is_ready(f"{address}/_stcore/health"):
                time.sleep(0.01)
            start_s = _sum_cpu_time(command.pid)
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.goto(address, wait_until="commit")
            page.locator("article.card").nth(3).wait_for(timeout=120_000)
            page_s = _sum_cpu_time(command.pid)
            page.close()
            return start_s, page_s
        finally:
            stop(command)


def _sum_cpu_time(pid: int) -> float:
    """Sum the CPU time of a process, its children and the ended ones, in seconds."""
    process = psutil.Process(pid)
    times = [part.cpu_times() for part in (process, *process.children(recursive=True))]
    return sum(
        part.user + part.system + part.children_user + part.children_system for part in times
    )


def compute_interval(ratios: Sequence[float]) -> tuple[float, float]:
    draw = random.Random(0).choices
    medians = sorted(statistics.median(draw(ratios, k=len(ratios))) for _ in range(_DRAWS))
    return medians[round(0.025 * (_DRAWS - 1))], medians[round(0.975 * (_DRAWS - 1))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=_ROOT)
    parser.add_argument("--seconds", type=float, default=240)
    options = parser.parse_args()
    with suppress(OSError, AttributeError):  # needs root and Linux
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    rounds: list[tuple[dict[str, float], dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=system_chromium(), args=list(CHROMIUM_OPTIONS)
        )
        old, new = (
            _Version(clone.resolve(), Path(scratch, name))
            for name, clone in (("old", options.old), ("new", options.new))
        )
        until_s = time.monotonic() + options.seconds
        while time.monotonic() < until_s or len(rounds) < 2:
            if len(rounds) % 2:
                first = old.measure(browser)
                rounds.append((first, new.measure(browser)))
            else:
                last = new.measure(browser)
                rounds.append((old.measure(browser), last))
        browser.close()
    del rounds[0]
    print(f"| {len(rounds)} rounds | old | new | new / old (95%) |\n| --- | --- | --- | --- |")
    for name in rounds[0][0]:
        pairs = [(before[name], after[name]) for before, after in rounds]
        ratios = [after / before for before, after in pairs]
        low, high = compute_interval(ratios)
        medians = (statistics.median(values) for values in zip(*pairs, strict=True))
        cells = " | ".join(f"{value:.3g}" for value in medians)
        print(f"| {name} | {cells} | {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f}) |")


if __name__ == "__main__":
    main()
