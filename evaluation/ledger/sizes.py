"""Measure the seconds that fewer sizes save, in blocks of a recording and interleaved starts.

usage: python -m evaluation.ledger.sizes OUTPUT SECONDS

Two programs: a seventh scene of the decoder, and a Llama of transformers with a graph for each
batch size. In each block a start with all sizes is recorded, its prediction is written, and only
then the program runs without recording, with all sizes and with those that occur, in pairs whose
order alternates. A machine whose speed changes during the job has similar speeds within a pair.
Each program also times a fixed computation before and after its start-up. Unrecorded starts are
forks of a process that has imported everything.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from evaluation.ledger.score import MIB, SERVER, Scene, Settings
from evaluation.ledger.sixth import GatedRunner, get_seconds
from graphviz_dash.analysis.ledger.report import build_ledger_report
from graphviz_dash.analysis.ledger.savings import SavingAction

SEVENTH: Final = Scene(
    *(960, 18, 352), "112,100,88,80,72,64,56,48,44,36,28,20,16,12,6,3", "112,36,6", ()
)
"""A scene that no model was made from."""

LLAMA_SIZES: Final = "40,38,36,34,32,30,28,26,24,22,20,18,16,14,12,10,8,6,4,2"
LLAMA_USED: Final = "40,20,10,4"
_LLAMA: Final = ("--llama", "--width", "512", "--layers", "12", "--length", "48")
LLAMA: Final = (*_LLAMA, "--sizes", LLAMA_SIZES)

PROGRAMS: Final[Mapping[str, tuple[Settings, Settings]]] = {
    "decoder": (
        ((*SEVENTH.base, "--sizes", SEVENTH.sizes, "--used", SEVENTH.used_sizes), {}),
        ((*SEVENTH.base, "--sizes", SEVENTH.used_sizes), {}),
    ),
    "llama": (
        ((*LLAMA, "--used", LLAMA_USED), {}),
        ((*_LLAMA, "--sizes", LLAMA_USED), {}),
    ),
}
"""Options with all sizes, and with those that occur."""

BLOCKS: Final = 2
PAIRS: Final = {"decoder": 4, "llama": 3}
"""Pairs of starts in each block."""


def predict(runner: GatedRunner, name: str) -> dict[str, Any]:
    """Predict the saving from the last recording of a program."""
    report = build_ledger_report(runner.load(f"{name} recorded")[-1])
    facts = runner.facts[f"{name} recorded"][-1]
    savings = [
        saving
        for saving in (report.savings if report is not None else ())
        if saving.action is SavingAction.UNUSED_GRAPHS
    ]
    return {
        "bytes": savings[0].bytes if savings else None,
        "ns": savings[0].ns if savings else None,
        "recorded seconds": get_seconds(facts, "seconds"),
        "reference": mean(facts["reference_seconds"]),
    }


def print_results(runner: GatedRunner, predictions: Mapping[str, list[dict[str, Any]]]) -> None:
    """Compare each block and the medians."""
    for name, rows in predictions.items():
        pairs = list(
            zip(
                rows,
                runner.facts.get(f"{name} all", []),
                runner.facts.get(f"{name} used", []),
                strict=False,
            )
        )
        print(f"{name}: predicted, measured, error | with all sizes, used ones | speed")
        estimates, savings, at_equal_speed = [], [], []
        for row, before, after in pairs:
            seconds = [get_seconds(facts, "seconds") for facts in (before, after)]
            references = [mean(facts["reference_seconds"]) for facts in (before, after)]
            estimates.append(row["ns"] / 1e9)
            savings.append(seconds[0] - seconds[1])
            # In units of the fixed computation of each start.
            units = seconds[0] / references[0] - seconds[1] / references[1]
            at_equal_speed.append(units * row["reference"])
            error = estimates[-1] / savings[-1] - 1
            print(
                f"  {estimates[-1]:.3f} {savings[-1]:.3f} s, {error:+.1%} "
                f"| {seconds[0]:.3f} {seconds[1]:.3f} s | reference {row['reference'] * 1e3:.1f} "
                f"{references[0] * 1e3:.1f} {references[1] * 1e3:.1f} ms"
            )
        if pairs:
            total, other, equal = median(estimates), median(savings), median(at_equal_speed)
            print(f"  medians {total:.3f} {other:.3f} s, {total / other - 1:+.1%}")
            print(f"  at equal speed {equal:.3f} s, {total / equal - 1:+.1%}")
            used = [facts["used"]["first replay"] for facts in pairs[0][1:]]
            print(f"  bytes {pairs[0][0]['bytes'] / MIB:.1f} {(used[0] - used[1]) / MIB:.1f} MiB")


class Forks:
    """Starts programs without recording, in forks of one process."""

    def __init__(self, runner: GatedRunner) -> None:
        self._runner = runner
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER.with_name("forks.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()

    def wait_for_imports(self) -> None:
        """Wait until the process has imported everything."""
        self._read("WAITING")

    def run(self, name: str, options: Sequence[str]) -> None:
        """Run a program, and keep its facts as those of ``name``."""
        if self._runner.remaining_s < 5:
            return
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(options)) + "\n")
        self._process.stdin.flush()
        for line in self._read("DONE"):
            if line.startswith("FACTS "):
                self._runner.facts.setdefault(name, []).append(json.loads(line[6:]))

    def _read(self, end: str) -> list[str]:
        assert self._process.stdout is not None
        lines = []
        for line in self._process.stdout:
            if line.strip() == end:
                break
            lines.append(line)
        return lines


def main(output: Path, limit_s: float) -> None:
    """Record, predict and measure in blocks."""
    runner = GatedRunner(output, limit_s)
    forks = Forks(runner)
    predictions: dict[str, list[dict[str, Any]]] = {name: [] for name in PROGRAMS}

    def measure(name: str) -> None:
        if f"{name} recorded" not in runner.facts:
            return
        prediction = predict(runner, name)
        complete, smaller = PROGRAMS[name]
        for number in range(PAIRS[name]):
            predictions[name].append(prediction)
            (output / "predictions.json").write_text(json.dumps(predictions, indent=1))
            pair = [(f"{name} all", complete[0]), (f"{name} used", smaller[0])]
            for label, options in pair[:: -1 if number % 2 else 1]:
                forks.run(label, options)
        (output / "facts.json").write_text(json.dumps(runner.facts))
        print(f"--- {runner.remaining_s:.0f} s left")
        print_results(runner, predictions)
        sys.stdout.flush()

    groups: list[tuple[list[tuple[str, Settings, bool]], Any]] = [
        ([("warm", (("--layers", "2", "--sizes", "8"), {}), False)], forks.wait_for_imports)
    ]
    for _ in range(BLOCKS):
        for name, (complete, _) in PROGRAMS.items():
            groups.append(([(f"{name} recorded", complete, True)], lambda name=name: measure(name)))
    try:
        runner.run_all(groups)
    finally:
        forks.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
