"""Cost of the watch of memory and of marks in a launch-bound loop.

``python -m evaluation.replays.cost --out FILE`` needs a GPU. Each mode runs in separate processes,
interleaved with the other modes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import click

MODES: Final = ("plain", "watch", "strict", "marks")
_REPLAYS: Final = 20_000
_PARTS: Final = 40


@click.command()
@click.option("--out", "path", type=click.Path(path_type=Path), required=True)
@click.option("--processes", default=3)
@click.option("--mode", type=click.Choice(MODES))
def measure_cost(path: Path, processes: int, mode: str | None) -> None:
    """Measure the time per replay in each mode."""
    if mode is not None:
        click.echo(json.dumps(_measure_mode(mode)))
        return
    times: dict[str, list[float]] = {name: [] for name in MODES}
    for _ in range(processes):
        for name in MODES:
            process = subprocess.run(
                [*(sys.executable, "-m", "evaluation.replays.cost"), "--out", path, "--mode", name],
                capture_output=True,
                text=True,
                check=False,
                env=os.environ,
            )
            lines = process.stdout.splitlines()
            if process.returncode or not lines:
                click.echo(process.stderr[-400:])
                continue
            times[name].append(json.loads(lines[-1]))
            path.write_text(json.dumps(times))
    plain = statistics.median(times["plain"]) if times["plain"] else 0.0
    for name, values in times.items():
        if values and plain:
            value = statistics.median(values)
            click.echo(f"{name}: {value:.2f} us per step, {100 * (value / plain - 1):+.1f}%")


def _measure_mode(mode: str) -> float:
    """Return the median time of a step in microseconds."""
    import torch

    from collectors.replays.notes import MarksSettings, NoteFolder
    from collectors.replays.program import MarkedProgram

    folder = Path(tempfile.mkdtemp())
    if mode != "plain":
        settings = MarksSettings(str(folder), strict=mode == "strict", marks=mode == "marks")
        MarkedProgram(settings, NoteFolder(folder / "notes"), "cost").install()
    net = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(16))).cuda()
    x = torch.randn(8, 64, device="cuda")
    batches = [torch.randn(8, 64, device="cuda") for _ in range(8)]
    with torch.no_grad():
        for _ in range(3):
            net(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(x)
    times = []
    for part in range(_PARTS + 5):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for number in range(_REPLAYS // _PARTS):
            x.copy_(batches[number % 8])
            graph.replay()
        torch.cuda.synchronize()
        if part >= 5:
            times.append((time.perf_counter() - began) / (_REPLAYS // _PARTS) * 1e6)
    return statistics.median(times)


if __name__ == "__main__":
    measure_cost()
