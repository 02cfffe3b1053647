"""Compute the accuracy of predictions from recorded data: the tables of
evaluation/reports/2026-11-24-predictions.md.

``python -m evaluation.predict.score`` predicts each workload of evaluation/data/predict/test, and
each shipped experiment with one graph, from its eager trace alone, and prints both beside what was
measured clean. The terms are from evaluation/data/predict/calibration, and no workload of one side
is on the other. The width of a workload's interval is from the errors of all others, its own left
out. Those of evaluation/data/predict/unseen, fresh and h100 had no part in either: their intervals
are as shipped. ``--together`` asks instead what terms found from all of them would give, each
workload predicted from the others (minutes). ``--calibration FILE`` writes the calibration that is
shipped. Recorded, on a GPU, with::

    graphviz-dash bench predict -o runs/predict-calibration
    graphviz-dash bench predict --suite evaluation.zoo.workloads -o runs/predict-test
    python -m evaluation.predict.trim_data runs/predict-test evaluation/data/predict/test
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from graphviz_dash import __version__
from graphviz_dash.analysis.prediction.calibration import (
    CalibrationSource,
    RecordedWorkload,
    build_recorded_workload,
    calibrate,
    compute_sample_errors,
    load_shipped_calibration,
    predict_times,
)
from graphviz_dash.analysis.prediction.uncertainty import (
    compute_conformal_quantile,
    compute_error_scale,
    compute_error_sources,
    compute_half_widths,
)
from graphviz_dash.bundle.calibration import write_calibration
from graphviz_dash.ingest.load import find_experiments, load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.calibration import Calibration, CalibrationSample
from graphviz_dash.units import format_ns, format_percent

HERE: Final = Path(__file__).parents[1]
DATA: Final = HERE / "data" / "predict"
SAMPLES: Final = HERE.parent / "sample_traces"
ONE_GRAPH: Final = (
    "capture-schemes", "decode", "fork-join", "gpt-train", "mlp-train", "superset",
    "transformer-train",
)  # fmt: skip
"""Shipped experiments of one process with an eager run and one graph of the whole step."""

_UNSEEN: Final = {
    "unseen": "Workloads recorded after the calibration was shipped",
    "fresh": "Workloads recorded after all others had been looked at",
    "h100": "Ten of those on another GPU, an H100",
}
_OTHER_GPU: Final = "h100"
_NOTICED: Final = 0.005
"""Increase of an error that counts as worse."""


@dataclass(frozen=True)
class Scored:
    recorded: RecordedWorkload
    predicted_ns: float
    predicted_interval_ns: float
    """The same back to back."""
    half: float
    """Half its interval of the step time, relative to the prediction."""
    interval_half: float
    """The same back to back."""

    @property
    def inside(self) -> tuple[bool, bool]:
        """Step time and back-to-back time: True for each inside its interval."""
        step = abs(1 - self.recorded.step_ns / self.predicted_ns)
        interval = abs(1 - self.recorded.interval_ns / self.predicted_interval_ns)
        return step <= self.half, interval <= self.interval_half

    @property
    def off(self) -> float:
        """Relative error of the step time."""
        return self.predicted_ns / self.recorded.step_ns - 1

    @property
    def interval_off(self) -> float:
        """The same back to back."""
        return self.predicted_interval_ns / self.recorded.interval_ns - 1


def calibration() -> Calibration:
    """The shipped calibration."""
    workloads = list(read(DATA / "calibration"))
    return calibrate(workloads, _source(workloads), [*checked()])


def together(default: Calibration) -> str:
    """Compare the shipped calibration with terms fitted to all workloads, each predicted from the
    others."""
    programs = list(read(DATA / "calibration"))
    held_workloads = [*checked(), *read(DATA / "unseen")]
    names = {workload.name for workload in held_workloads}
    everything = [*programs, *held_workloads]
    refit = calibrate(everything, _source(programs))
    samples = [sample for sample in refit.samples if sample.name in names]
    before = [predict_times(workload, default)[0] for workload in held_workloads]
    parted = [
        msgspec.structs.replace(
            sample, predicted_ns=ns, sources=compute_error_sources(workload.step, ns)
        )
        for sample, workload, ns in zip(samples, held_workloads, before, strict=True)
    ]
    worse = sum(
        _off(sample) > _off(shipped_sample) + _NOTICED
        for sample, shipped_sample in zip(samples, parted, strict=True)
    )
    weights = default.errors.weights
    return (
        f"Terms as shipped: {_each_from_the_others(parted, weights)}\n"
        f"Terms from all others: {_each_from_the_others(samples, weights)} {worse} predictions are "
        f"further off than as shipped by {_NOTICED:.1%} of the step or more."
    )


def _each_from_the_others(
    samples: Sequence[CalibrationSample], weights: Mapping[str, float]
) -> str:
    """Errors, and intervals whose width comes from the errors of the others."""
    scales = [compute_error_scale(sample.sources, weights) for sample in samples]
    errors = [compute_sample_errors(sample)[0] for sample in samples]
    scores = [error / scale for error, scale in zip(errors, scales, strict=True)]
    halves = [
        scale * compute_conformal_quantile(scores[:index] + scores[index + 1 :])
        for index, scale in enumerate(scales)
    ]
    inside = sum(error <= half for error, half in zip(errors, halves, strict=True))
    off = [_off(sample) for sample in samples]
    return (
        f"{len(samples)} workloads, median error {np.median(off):.1%}, nine of ten at most "
        f"{np.quantile(off, 0.9):.1%}, worst {max(off):.1%}; {inside} inside "
        f"({inside / len(samples):.1%}), median half width {np.median(halves):.1%}."
    )


def _off(sample: CalibrationSample) -> float:
    return abs(sample.predicted_ns / sample.step_ns - 1)


def _source(recorded: Sequence[RecordedWorkload]) -> CalibrationSource:
    manifest = load_experiment(DATA / "calibration" / recorded[0].name).runs[0].manifest
    gpu = manifest.environment.gpu
    assert gpu is not None
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return CalibrationSource(gpu, manifest.environment, manifest.created, __version__, now)


def checked() -> Iterator[RecordedWorkload]:
    """Workloads that were not used for the terms."""
    yield from read(DATA / "test")
    yield from read(SAMPLES, ONE_GRAPH)


def read(folder: Path, names: Sequence[str] = ()) -> Iterator[RecordedWorkload]:
    """The workloads under ``folder``, those of ``names`` or all."""
    paths = [folder / name for name in names] or find_experiments(folder)
    for path in paths:
        workload = build_recorded_workload(load_experiment(path))
        if isinstance(workload, Missing):
            sys.exit(f"{path}: {workload.reason}")
        yield workload


def scored(workload: RecordedWorkload, default: Calibration) -> Scored:
    """Predict a checked workload; its interval comes from the errors of the others."""
    sample = next(check for check in default.holdout_samples if check.name == workload.name)
    weights = default.errors.weights
    others = [
        (compute_error_scale(check.sources, weights), compute_sample_errors(check))
        for check in default.holdout_samples
        if check is not sample
    ]
    scale = compute_error_scale(sample.sources, weights)
    half, interval_half = (
        scale * compute_conformal_quantile([errors[offset] / other for other, errors in others])
        for offset in range(2)
    )
    prediction_ns, interval = sample.predicted_ns, sample.predicted_interval_ns
    return Scored(workload, prediction_ns, interval, half, interval_half)


def scored_unseen(workload: RecordedWorkload, default: Calibration, *, other_gpu: bool) -> Scored:
    """Predict a workload as ``predict`` does, because terms and widths do not use it.
    ``other_gpu``: recorded on another GPU than the calibration."""
    prediction_ns, interval = predict_times(workload, default)
    halves = compute_half_widths(workload.step, prediction_ns, default.errors, other_gpu=other_gpu)
    return Scored(workload, prediction_ns, interval, *halves)


def table(rows: Sequence[Scored]) -> Iterator[str]:
    yield (
        "| workload | nodes | streams | GPU busy of the eager step | eager | graphed | predicted | "
        "interval | off by | back to back off by |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for row in rows:
        workload = row.recorded
        outside = "" if row.inside[0] else ", outside"
        yield (
            f"| `{workload.name}` | {workload.nodes} | {workload.step.stream_count} | "
            f"{workload.step.busy_ns / workload.eager_ns:.0%} | {format_ns(workload.eager_ns)} | "
            f"{format_ns(workload.step_ns)} | {format_ns(round(row.predicted_ns))} | "
            f"±{format_percent(row.half)} | {row.off:+.1%}{outside} | {row.interval_off:+.1%} |"
        )


def summary(rows: Sequence[Scored]) -> str:
    """Errors and coverage in a sentence."""
    off = np.abs([row.off for row in rows])
    interval_errors = np.abs([row.interval_off for row in rows])
    inside, inside_between = np.sum([row.inside for row in rows], axis=0)
    return (
        f"{len(rows)} workloads: median error {np.median(off):.1%}, worst {off.max():.1%}; back to "
        f"back {np.median(interval_errors):.1%} and {interval_errors.max():.1%}. Inside their "
        f"intervals: {inside} step times, {inside_between} back to back; median half width "
        f"{np.median([row.half for row in rows]):.1%}."
    )


def lines(default: Calibration) -> Iterator[str]:
    all_scores: list[Scored] = []
    for title, workloads in (
        ("Test workloads", read(DATA / "test")),
        ("Shipped experiments", read(SAMPLES, ONE_GRAPH)),
    ):
        rows = [scored(workload, default) for workload in workloads]
        all_scores += rows
        yield from _section(title, rows)
    inside = sum(row.inside[0] for row in all_scores)
    width = np.median([row.half for row in all_scores])
    yield (
        f"All {len(all_scores)} together: {inside} ({inside / len(all_scores):.1%}) lie inside "
        f"their intervals, median half width {width:.1%}."
    )
    yield ""
    for folder, title in _UNSEEN.items():
        if (DATA / folder).exists():
            unseen = [
                scored_unseen(workload, default, other_gpu=folder == _OTHER_GPU)
                for workload in read(DATA / folder)
            ]
            yield from _section(title, unseen)
    left = [abs(sample.predicted_ns / sample.step_ns - 1) for sample in default.samples]
    yield (
        f"The {len(left)} workloads of calibration, each predicted from the others: median error "
        f"{np.median(left):.1%}, nine of ten at most {np.quantile(left, 0.9):.1%}, worst "
        f"{max(left):.1%}."
    )


def _section(title: str, rows: Sequence[Scored]) -> Iterator[str]:
    yield f"### {title}"
    yield ""
    yield from table(
        sorted(rows, key=lambda row: row.recorded.step.busy_ns / row.recorded.eager_ns)
    )
    yield ""
    yield summary(rows)
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calibration", type=Path, help="write what is shipped to this file")
    parser.add_argument("--together", action="store_true", help="try terms from all workloads")
    options = parser.parse_args()
    if options.together:
        print(together(load_shipped_calibration()))
    elif options.calibration:
        write_calibration(options.calibration, calibration())
    else:
        print("\n".join(lines(load_shipped_calibration())))


if __name__ == "__main__":
    main()
