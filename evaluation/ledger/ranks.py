"""Predict the memory of two tensor-parallel ranks with NCCL, then run them on two GPUs.

usage: python -m evaluation.ledger.ranks OUTPUT SECONDS

Records one process without a process group, and two ranks. Predicts two ranks from the former, and
other configurations of two ranks from the latter, writes ``predictions.json``, and only then runs
them without recording. All processes import first and wait.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from evaluation.ledger.score import MIB, Settings
from evaluation.ledger.sixth import GatedRunner
from graphviz_dash.analysis.ledger.fit import FitChange
from graphviz_dash.analysis.ledger.report import build_ledger_report, predict_report

LAYERS: Final = 16
LENGTH: Final = 1024
COMMON: Final = ("--width", "1280", "--sizes", "128,64,32,16,8,2,1")
TWO: Final = ("--ranks", "2", "--distributed")
LAUNCHER: Final = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def list_options(layers: int = LAYERS, length: int = LENGTH) -> tuple[str, ...]:
    """Return the decoder's options for one process."""
    return (*COMMON, "--layers", str(layers), "--length", str(length))


CHANGES: Final = {
    "two": ("one", FitChange(ranks=(1, 2)), (*list_options(), *TWO)),
    "two, 3/2 of the layers": (
        "two",
        FitChange(layers=(LAYERS, LAYERS * 3 // 2)),
        (*list_options(layers=LAYERS * 3 // 2), *TWO),
    ),
    "two, half the length": (
        "two",
        FitChange(dimensions=((LENGTH, LENGTH // 2),)),
        (*list_options(length=LENGTH // 2), *TWO),
    ),
}
"""Recording, change, and options of the changed program."""


class RankRunner(GatedRunner):
    """Starts two ranks, except of the configuration ``one``."""

    def _launch(self, job: Any, gate: Path) -> Any:
        self.launcher = () if job[0] == "one" else LAUNCHER
        return super()._launch(job, gate)


def predict(runner: RankRunner) -> dict[str, Any]:
    """Compute the predictions of each recorded rank, and list the parts that it has."""
    predictions: dict[str, Any] = {"fit": {}, "parts": {}}
    for name in ("one", "two"):
        for run in runner.load(name):
            report = build_ledger_report(run)
            if report is None or report.memory is None:
                continue
            rank = report.process.rank or 0
            moment = report.memory.end_of_startup
            parts = {part.value: round(size / MIB, 1) for part, size in moment.parts.items()}
            predictions["parts"][f"{name}, rank {rank}"] = {"used": moment.used / MIB} | parts
            for change_name, (base, change, _) in CHANGES.items():
                prediction = predict_report(run, report, change) if base == name else None
                if prediction is not None:
                    predictions["fit"].setdefault(change_name, []).append(
                        [rank, prediction.used, prediction.error, prediction.lacks_communication]
                    )
    return predictions


def main(output: Path, limit_s: float) -> None:
    """Record, predict, measure and compare."""
    runner = RankRunner(output, limit_s)
    predictions: dict[str, Any] = {}

    def finish_recordings() -> None:
        predictions.update(predict(runner))
        (output / "predictions.json").write_text(json.dumps(predictions, indent=1))
        for name, parts in predictions["parts"].items():
            print(name, json.dumps(parts))
        for name, rows in runner.facts.items():
            for facts in rows:
                stages = {stage: round(size / MIB, 1) for stage, size in facts["used"].items()}
                print(f"{name}, rank {facts['rank']}, program: {json.dumps(stages)}")
        runner.facts = {}

    def report() -> None:
        (output / "facts.json").write_text(json.dumps(runner.facts))
        print("fit: rank, predicted ± interval, measured, error")
        for name, rows in predictions["fit"].items():
            for facts in runner.facts.get(name, []):
                total = facts["used"]["first replay"]
                for rank, used, error, lacks in rows:
                    if rank == facts["rank"] or name == "two":
                        print(
                            f"  {name}, rank {facts['rank']}: {used / MIB:.1f} ± "
                            f"{error / MIB:.1f} | {total / MIB:.1f} MiB, "
                            f"{used / total - 1:+.2%}{', without NCCL' if lacks else ''}"
                        )

    recordings: list[tuple[str, Settings, bool]] = [
        ("one", (list_options(), {}), True),
        ("two", (CHANGES["two"][2], {}), True),
    ]
    runs: list[tuple[str, Settings, bool]] = [
        (name, (options, {}), False) for name, (_, _, options) in CHANGES.items()
    ]
    runner.run_all([(recordings, finish_recordings), (runs, report)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
