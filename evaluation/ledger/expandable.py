"""Predict the saving of expandable segments from recordings, then measure it.

usage: python -m evaluation.ledger.expandable OUTPUT SECONDS

Records each configuration with the native allocator. The predictions of the recordings are written
to ``predictions.json``, and only then the programs run without recording, with and without
expandable segments. All processes import first and wait.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from evaluation.ledger.score import EXPANDABLE, MIB, SCENES, Settings
from evaluation.ledger.sixth import GatedRunner
from evaluation.ledger.sizes import LLAMA, SEVENTH

SMALL_LLAMA: Final = (
    *("--llama", "--width", "640", "--layers", "12", "--length", "40"),
    *("--sizes", "36,30,24,20,16,12,10,8,6,4,2,1", "--side", "each"),
)
EIGHTH: Final = (
    *("--width", "1408", "--layers", "12", "--length", "416", "--streams", "each"),
    *("--sizes", "72,60,54,42,30,22,18,11,5,2,1"),
)


def list_configurations() -> dict[str, Settings]:
    """Return the programs: first those that no simulation was tried on."""
    return {
        "eighth streams": (EIGHTH, {}),
        "small llama": (SMALL_LLAMA, {}),
        "seventh base": SEVENTH.wasteful["base"],
        "fifth base": SCENES["fifth"].wasteful["base"],
        "llama": (LLAMA, {}),
    }


def main(output: Path, limit_s: float) -> None:
    """Record, predict, measure and compare."""
    configurations = list_configurations()
    runner = GatedRunner(output, limit_s)
    predictions: dict[str, int | None] = {}

    def predict() -> None:
        for name in configurations:
            for run in runner.load(name):
                if run.ledger is not None:
                    predictions[name] = run.ledger.expandable_saving_bytes
        (output / "predictions.json").write_text(json.dumps(predictions, indent=1))
        runner.facts = {}

    def report() -> None:
        (output / "facts.json").write_text(json.dumps(runner.facts))
        print(
            "expandable segments: saving predicted, measured by the allocator, error, by the device"
        )
        for name, size in predictions.items():
            rows = [runner.facts.get(key) for key in (name, f"{name}, expandable")]
            if rows[0] is None or rows[1] is None:
                continue
            before, after = rows[0][0], rows[1][0]
            saving = before["reserved"] - after["reserved"]
            used = before["used"]["first replay"] - after["used"]["first replay"]
            error = f"{size / saving - 1:+.1%}" if saving and size is not None else "-"
            text = f"{size / MIB:8.1f}" if size is not None else "       -"
            print(f"  {name:18s} {text} {saving / MIB:8.1f} MiB, {error}, {used / MIB:8.1f} MiB")
        sys.stdout.flush()

    recordings: list[tuple[str, Settings, bool]] = [
        (name, settings, True) for name, settings in configurations.items()
    ]
    runs: list[tuple[str, Settings, bool]] = []
    for name, (options, environment) in configurations.items():
        runs.append((name, (options, environment), False))
        runs.append((f"{name}, expandable", (options, EXPANDABLE), False))
    runner.run_all([(recordings, predict), (runs, report)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
