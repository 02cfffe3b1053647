"""How far predictions are off: the table of docs/predict.md, computed anew from recorded data.

``python -m benchmarks.predict`` calibrates with benchmarks/data/predict/calibration, predicts each
workload of benchmarks/data/predict/test from its eager trace alone, and prints both beside what was
measured clean. No workload of one side is on the other. Recorded, on a GPU, with::

    graphviz-dash bench predict -o runs/predict-calibration
    graphviz-dash bench predict --suite benchmarks.predict_workloads -o runs/predict-test
    python -m benchmarks.predict_data runs/predict-test benchmarks/data/predict/test
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from graphviz_dash.analysis.prediction.calibration import (
    CalibrationSource,
    RecordedWorkload,
    calibrate,
    predicted_times,
    recorded_workload,
)
from graphviz_dash.ingest.load import find_experiments, load_experiment
from graphviz_dash.model.calibration import Calibration
from graphviz_dash.units import format_ns

HERE: Final = Path(__file__).parent
DATA: Final = HERE / "data" / "predict"
SAMPLES: Final = HERE.parent / "sample_traces"
ONE_GRAPH: Final = (
    "capture-schemes", "decode", "fork-join", "gpt-train", "mlp-train", "superset",
    "transformer-train",
)  # fmt: skip
"""Shipped experiments of one process with an eager run and one graph of the whole step."""


@dataclass(frozen=True)
class Scored:
    """One workload: what was predicted from its eager trace, and what was measured, in ns."""

    recorded: RecordedWorkload
    predicted: float
    interval: float
    error: float

    @property
    def off(self) -> float:
        """Of the step time."""
        return self.predicted / self.recorded.step_ns - 1

    @property
    def interval_off(self) -> float:
        """Of the back-to-back interval."""
        return self.interval / self.recorded.interval_ns - 1


def calibration() -> Calibration:
    """Of the recorded suite of calibration."""
    recorded = list(read(DATA / "calibration"))
    environment = load_experiment(DATA / "calibration" / recorded[0].name).runs[0].manifest
    gpu = environment.environment.gpu
    assert gpu is not None
    return calibrate(
        recorded, CalibrationSource(gpu, environment.environment, environment.created, "", "")
    )


def read(folder: Path, names: Sequence[str] = ()) -> Iterator[RecordedWorkload]:
    """The workloads under ``folder``, those of ``names`` or all."""
    paths = [folder / name for name in names] or find_experiments(folder)
    for path in paths:
        found = recorded_workload(load_experiment(path))
        if isinstance(found, str):
            sys.exit(f"{path}: {found}")
        yield found


def scored(recorded: RecordedWorkload, found: Calibration) -> Scored:
    return Scored(recorded, *predicted_times(recorded, found), found.error)


def table(rows: Sequence[Scored]) -> Iterator[str]:
    yield (
        "| workload | nodes | streams | GPU busy of the eager step | eager | graphed | predicted | "
        "off by | back to back off by |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for row in rows:
        one = row.recorded
        yield (
            f"| `{one.name}` | {one.nodes} | {one.step.streams} | "
            f"{one.step.busy_ns / one.eager_ns:.0%} | {format_ns(one.eager_ns)} | "
            f"{format_ns(one.step_ns)} | {format_ns(round(row.predicted))} | {row.off:+.1%} | "
            f"{row.interval_off:+.1%} |"
        )


def summary(rows: Sequence[Scored]) -> str:
    off = np.abs([row.off for row in rows])
    between = np.abs([row.interval_off for row in rows])
    inside = sum(abs(row.recorded.step_ns / row.predicted - 1) <= row.error for row in rows)
    return (
        f"{len(rows)} workloads: median error {np.median(off):.1%}, worst {off.max():.1%}; back to "
        f"back {np.median(between):.1%} and {between.max():.1%}; {inside} of {len(rows)} measured "
        "step times lie inside their intervals."
    )


def lines(found: Calibration) -> Iterator[str]:
    """All that is printed."""
    for title, rows in (
        ("Test workloads", [scored(one, found) for one in read(DATA / "test")]),
        ("Shipped experiments", [scored(one, found) for one in read(SAMPLES, ONE_GRAPH)]),
    ):
        by_busy = sorted(rows, key=lambda row: row.recorded.step.busy_ns / row.recorded.eager_ns)
        yield f"### {title}"
        yield ""
        yield from table(by_busy)
        yield ""
        yield summary(rows)
        yield ""
    left = [abs(one.predicted_ns / one.step_ns - 1) for one in found.samples]
    yield (
        f"The {len(left)} workloads of calibration, each predicted from the others: median error "
        f"{np.median(left):.1%}, nine of ten at most {found.error:.1%}, worst {max(left):.1%}."
    )


if __name__ == "__main__":
    print("\n".join(lines(calibration())))
