"""Apply advice on a sixth scene, whose savings of time exceed the differences between starts.

usage: python -m evaluation.ledger.sixth OUTPUT SECONDS [FILE]

Uses no GPU while FILE exists. All processes import first and wait. The recorded ones then use the
GPU one after the other, the predictions are written to ``predictions.json``, and only then the
others go on. Savings of time are differences of medians; of a shared executable also those of the
time for instantiation that the program reads itself. Also runs other configurations, and programs
with expandable segments.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

from evaluation.ledger.score import EXPANDABLE, MIB, Runner, Scene, Settings
from graphviz_dash.analysis.ledger.report import build_ledger_report, predict_report
from graphviz_dash.analysis.ledger.savings import SavingAction

SIZES: Final = "120,104,88,72,56,48,40,32,24,16,8,4,2,1"
SCENE: Final = Scene(1280, 16, 288, SIZES, "120,48,8", ())
COMMON: Final = (*SCENE.base, "--sizes", SIZES)
HEAP: Final = (
    *("--width", "768", "--layers", "8", "--length", "96", "--sizes"),
    *("60,44,30,22,14,10,7,5,3,1", "--objects", "3500000", "--collect"),
)
SMALL_MODEL: Final = (
    *("--width", "512", "--layers", "32", "--length", "80", "--sizes"),
    ",".join(str(size) for size in range(40, 0, -1)),
)

CONFIGURATIONS: Final[Mapping[str, Settings]] = {
    "warm": (("--layers", "2", "--sizes", "8"), {}),
    "base": (COMMON, {}),
    "unused": ((*COMMON, "--side", "each", "--used", SCENE.used_sizes), {}),
    "used": ((*SCENE.base, "--side", "each", "--sizes", SCENE.used_sizes), {}),
    "heap": (HEAP, {}),
    "frozen": ((*HEAP, "--freeze"), {}),
    "many": (SMALL_MODEL, {}),
    "shared": ((*SMALL_MODEL, "--share"), {}),
    "cold": ((*COMMON, "--warm", "first"), {}),
    "all": ((*COMMON, "--warm", "all"), {}),
    "base, expandable": (COMMON, EXPANDABLE),
    "pools, expandable": ((*COMMON, "--pools", "each"), EXPANDABLE),
    "streams, expandable": ((*COMMON, "--streams", "each"), EXPANDABLE),
    "sides, expandable": ((*COMMON, "--side", "each"), EXPANDABLE),
    "ascending": ((*SCENE.base, "--sizes", ",".join(reversed(SIZES.split(",")))), {}),
}

CASES: Final = (
    ("unused", "used", SavingAction.UNUSED_GRAPHS),
    ("heap", "frozen", SavingAction.FREEZE),
    ("many", "shared", SavingAction.SHARE),
    ("cold", "all", None),
    ("pools, expandable", "base, expandable", SavingAction.ONE_POOL),
    ("streams, expandable", "base, expandable", SavingAction.ONE_STREAM),
    ("sides, expandable", "base, expandable", SavingAction.WARM_UP_STREAM),
    ("ascending", "base", SavingAction.ORDER),
)
"""Wasteful configuration, frugal configuration, advice. None: there is none for warming up all
sizes before the first capture."""

RECORDINGS: Final = (
    *("warm", "unused", "heap", "many", "base", "unused", "heap", "many", "unused", "heap"),
    *("pools, expandable", "streams, expandable", "sides, expandable", "base, expandable"),
    *("cold", "cold", "ascending"),
)
RUNS: Final = (
    *("warm", *("unused", "used", "heap", "frozen", "many", "shared") * 3),
    *("unused", "used", "heap", "frozen"),
)
LATER_RUNS: Final = (
    *("pools, expandable", "streams, expandable", "sides, expandable", "base, expandable"),
    *("cold", "all", "base", "cold", "all", "base", "cold", "all", "ascending"),
)


class GatedRunner(Runner):
    """Starts all processes first; they use the GPU in order, once ``hold`` does not exist."""

    hold: Path | None = None

    def run_all(
        self, groups: list[tuple[list[tuple[str, Settings, bool]], Callable[[], None]]]
    ) -> None:
        """Run groups of jobs, each followed by a function."""
        jobs = [job for group, _ in groups for job in group]
        with self._start(jobs) as processes:
            for group, finish in groups:
                for name, gate, process in (next(processes) for _ in group):
                    while self.hold is not None and self.hold.exists():
                        time.sleep(0.05)
                    self.let_go(name, gate, process)
                finish()


def predict(runner: Runner) -> dict[str, Any]:
    """Compute the predictions of all recordings so far."""
    predictions: dict[str, Any] = {"advice": {}, "fit": {}, "sums": {}}
    for name in dict.fromkeys(RECORDINGS):
        for run in runner.load(name):
            report = build_ledger_report(run)
            if report is None or report.memory is None:
                continue
            moment = report.memory.end_of_startup
            predictions["sums"].setdefault(name, []).append(
                {
                    "used": moment.used,
                    "parts": {part.value: size for part, size in moment.parts.items()},
                    "start-up": report.startup.total_ns,
                    "sum of the start-up": sum(report.startup.parts.values()),
                    "recorder": report.startup.recorder_ns,
                }
            )
            for case, _, action in CASES:
                if case == name:
                    predictions["advice"].setdefault(name, []).extend(
                        (saving.bytes, saving.ns, saving.most_bytes, saving.basis.value)
                        for saving in report.savings
                        if saving.action is action
                    )
    for run in runner.load("base")[:1]:
        report = build_ledger_report(run)
        if report is None:
            continue
        for name, (change, _) in SCENE.fits.items():
            prediction = predict_report(run, report, change)
            if prediction is not None:
                predictions["fit"][name] = [prediction.used, prediction.error]
    return predictions


def print_sums(runner: Runner, predictions: Mapping[str, Any]) -> None:
    """Compare the ledgers with the readings of the recorded programs."""
    print("sums: used (program), used (ledger), sum of the parts, remainder, start-up (program)")
    for name, rows in predictions["sums"].items():
        for row, facts in zip(rows, runner.facts.get(name, []), strict=False):
            parts = row["parts"]
            print(
                f"  {name:22s} {facts['used']['first replay'] / MIB:9.1f} {row['used'] / MIB:9.1f} "
                f"{sum(parts.values()) / MIB:9.1f} MiB, {parts.get('remainder', 0) / MIB:6.1f} | "
                f"{facts['seconds']['first replay']:7.3f} {row['start-up'] / 1e9:7.3f} "
                f"{row['sum of the start-up'] / 1e9:7.3f} s"
            )


def print_cases(runner: Runner, predictions: Mapping[str, Any]) -> None:
    """Compare predicted with measured savings."""
    for name, better, action in CASES:
        before, after = runner.facts.get(name, []), runner.facts.get(better, [])
        print(f"{action.value if action else 'no advice'}: {name} -> {better}")
        for row in predictions["advice"].get(name, []):
            size, time, upper, basis = row
            print(f"  predicted {size / MIB:8.1f} MiB, {time / 1e9:7.3f} s, {upper}, {basis}")
        if not before or not after:
            print("  not measured")
            continue
        sizes = [rows[0]["used"]["first replay"] for rows in (before, after)]
        print(f"  measured  {(sizes[0] - sizes[1]) / MIB:8.1f} MiB", end="")
        for clock in ("seconds", "cpu_seconds", "instantiation_seconds"):
            times = [[get_seconds(row, clock) for row in rows] for rows in (before, after)]
            print(f"; {clock} {median(times[0]) - median(times[1]):7.3f}", end="")
        print()
        for label, rows in ((name, before), (better, after)):
            texts = [f"{get_seconds(row, 'seconds'):.3f}" for row in rows]
            print(f"    {label:20s} {', '.join(texts)} s")


def get_seconds(facts: Mapping[str, Any], clock: str) -> float:
    """Return the seconds from the first use of the GPU to the first replay."""
    value = facts[clock]
    if isinstance(value, Mapping):
        return float(value["first replay"] - value["begin"])
    return float(value)


def print_fits(runner: Runner, predictions: Mapping[str, Any]) -> None:
    """Compare predicted with measured memory of other configurations."""
    print("fit: predicted ± interval, measured, error")
    for name, (used, error) in predictions["fit"].items():
        rows = runner.facts.get(name)
        if rows:
            total = rows[0]["used"]["first replay"]
            print(
                f"  {name:44s} {used / MIB:9.1f} ± {error / MIB:6.1f} | {total / MIB:9.1f} MiB, "
                f"{used / total - 1:+.2%}{'' if abs(used - total) <= error else ', outside'}"
            )


def main(output: Path, limit_s: float, hold: Path | None) -> None:
    """Record, predict, measure and compare."""
    runner = GatedRunner(output, limit_s)
    runner.hold = hold
    predictions: dict[str, Any] = {}

    def finish_recordings() -> None:
        predictions.update(predict(runner))
        (output / "predictions.json").write_text(json.dumps(predictions, indent=1))
        print_sums(runner, predictions)
        runner.facts = {}

    def report() -> None:
        (output / "facts.json").write_text(json.dumps(runner.facts))
        print(f"--- {runner.remaining_s:.0f} s left")
        print_cases(runner, predictions)
        print_fits(runner, predictions)
        sys.stdout.flush()

    fits: list[tuple[str, Settings, bool]] = [
        (name, (options, {}), False) for name, (_, options) in SCENE.fits.items()
    ]
    runner.run_all(
        [
            ([(name, CONFIGURATIONS[name], True) for name in RECORDINGS], finish_recordings),
            ([(name, CONFIGURATIONS[name], False) for name in RUNS], report),
            (fits, report),
            ([(name, CONFIGURATIONS[name], False) for name in LATER_RUNS], report),
        ]
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]) if sys.argv[3:] else None)
