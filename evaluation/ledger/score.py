"""Apply the advice of ledgers and configure the decoder otherwise; compare with the predictions.

usage: python -m evaluation.ledger.score OUTPUT SECONDS [SCENE] [--advice-only]

SCENE is first, second, third, fourth or fifth.

Records the decoder of ``server.py`` in a base configuration and in wasteful ones. Predictions are
computed from these recordings and written to ``predictions.json`` before the other configurations
run. Measured values are those that the decoder prints when it runs without graphviz-dash: the
recorder reads each captured graph, which would count as a saving of fewer captures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from graphviz_dash.analysis.ledger.fit import FitChange
from graphviz_dash.analysis.ledger.report import build_ledger_report, predict_report
from graphviz_dash.analysis.ledger.savings import SavingAction
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.run import Run

SERVER: Final = Path(__file__).with_name("server.py")
MIB: Final = 1 << 20
PROCESS_LIMIT: Final = 80
"""Number of processes that import torch at the same time, before one after the other uses the GPU.
"""
REPETITIONS: Final = 3
"""Recordings and runs of each configuration whose time matters; the median counts. The runs of all
configurations are interleaved."""

HEAP: Final = ("--objects", "2000000", "--collect")
EAGER: Final = {"CUDA_MODULE_LOADING": "EAGER"}
EXPANDABLE: Final = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}

Settings = tuple[tuple[str, ...], Mapping[str, str]]


@dataclass(frozen=True)
class Scene:
    """Configurations of the decoder."""

    width: int
    layers: int
    length: int
    sizes: str
    """Sizes of the graphs, largest first."""
    used_sizes: str
    """Sizes that requests need."""
    small_model: tuple[str, ...]
    """A model for many graphs, with its sizes."""

    @property
    def base(self) -> tuple[str, ...]:
        return self._list_options(self.layers, self.length)

    def _list_options(self, layers: int, length: int) -> tuple[str, ...]:
        return (
            *("--width", str(self.width), "--layers", str(layers)),
            *("--length", str(length)),
        )

    @property
    def fits(self) -> dict[str, tuple[FitChange, tuple[str, ...]]]:
        """Changes of the base, with the options of the changed program."""
        sizes = [int(size) for size in self.sizes.split(",")]
        largest, layers, length = sizes[0], self.layers, self.length
        larger = (largest * 4 // 3, *sizes[::2])
        double = (largest * 2, *sizes[:7])
        changes = {
            "3/2 of the layers": FitChange(layers=(layers, layers * 3 // 2)),
            "twice the length": FitChange(dimensions=((length, length * 2),)),
            "sizes to 4/3 of the largest": FitChange(
                sizes=larger, dimensions=((largest, larger[0]),)
            ),
            "every other size": FitChange(sizes=tuple(sizes[::2])),
            "half of the layers, four times the length": FitChange(
                layers=(layers, layers // 2), dimensions=((length, length * 4),)
            ),
            "sizes to twice the largest, half the length": FitChange(
                sizes=double, dimensions=((largest, double[0]), (length, length // 2))
            ),
        }
        changes["two tensor-parallel ranks"] = FitChange(ranks=(1, 2))
        programs = {}
        for name, change in changes.items():
            new_length = dict(change.dimensions).get(length, length)
            options = self._list_options(change.layers[1] if change.layers else layers, new_length)
            if change.ranks is not None:
                options = (*options, "--ranks", str(change.ranks[1]))
            new_sizes = ",".join(str(size) for size in change.sizes or sizes)
            programs[name] = change, (*options, "--sizes", new_sizes)
        return programs

    @property
    def wasteful(self) -> dict[str, Settings]:
        """Recorded configurations."""
        common = (*self.base, "--sizes", self.sizes)
        ascending = ",".join(reversed(self.sizes.split(",")))
        return {
            "base": (common, {}),
            "ascending": ((*self.base, "--sizes", ascending), {}),
            "pools": ((*common, "--pools", "each"), {}),
            "streams": ((*common, "--streams", "each"), {}),
            "sides": ((*common, "--side", "each"), {}),
            "unused": ((*common, "--side", "each", "--used", self.used_sizes), {}),
            "many": (self.small_model, {}),
            "heap": ((*common, *HEAP), {}),
            "eager": (common, EAGER),
        }

    @property
    def frugal(self) -> dict[str, Settings]:
        """Configurations that follow the advice, unless the base does."""
        common = (*self.base, "--sizes", self.sizes)
        return {
            "used": ((*self.base, "--sizes", self.used_sizes, "--side", "each"), {}),
            "shared": ((*self.small_model, "--share"), {}),
            "frozen": ((*common, *HEAP, "--freeze"), {}),
        }

    @property
    def expandable(self) -> dict[str, Settings]:
        """Wasteful configurations with expandable segments, for which there is no prediction."""
        return {
            f"{name}, expandable": (self.wasteful[name][0], EXPANDABLE)
            for name in ("base", "ascending", "pools", "streams")
        }


SCENE: Final = Scene(
    *(1536, 16, 512),
    "96,64,48,32,24,16,12,8,4,2,1",
    "96,24,4",
    (
        *("--width", "512", "--layers", "24", "--length", "128", "--sizes"),
        ",".join(str(size) for size in range(32, 0, -1)),
    ),
)
"""The scene that the models were made from."""

OTHER_SCENE: Final = Scene(
    *(1280, 10, 384),
    "80,56,40,28,20,10,5,3,1",
    "80,20,3",
    (
        *("--width", "384", "--layers", "40", "--length", "64", "--sizes"),
        ",".join(str(size) for size in range(24, 0, -1)),
    ),
)
"""A scene that was run after the first corrections of the advice."""

THIRD_SCENE: Final = Scene(
    *(1024, 20, 640),
    "120,88,60,44,36,18,9,6,2",
    "120,36,2",
    (
        *("--width", "640", "--layers", "32", "--length", "96", "--sizes"),
        ",".join(str(size) for size in range(40, 0, -2)),
    ),
)
"""A scene that no model was made from."""

FOURTH_SCENE: Final = Scene(
    *(896, 28, 448),
    "144,112,80,56,40,24,14,7,4,1",
    "144,40,4",
    (
        *("--width", "448", "--layers", "36", "--length", "72", "--sizes"),
        ",".join(str(size) for size in range(48, 0, -2)),
    ),
)
"""A scene that no model was made from."""

FIFTH_SCENE: Final = Scene(
    *(1152, 14, 320),
    "104,76,52,36,26,13,6,3,1",
    "104,26,3",
    (
        *("--width", "576", "--layers", "28", "--length", "88", "--sizes"),
        ",".join(str(size) for size in range(36, 0, -1)),
    ),
)
"""A scene that no model was made from."""

SCENES: Final = {
    "first": SCENE,
    "second": OTHER_SCENE,
    "third": THIRD_SCENE,
    "fourth": FOURTH_SCENE,
    "fifth": FIFTH_SCENE,
}

ADVICE: Final = (
    ("ascending", "base", SavingAction.ORDER),
    ("pools", "base", SavingAction.ONE_POOL),
    ("streams", "base", SavingAction.ONE_STREAM),
    ("sides", "base", SavingAction.WARM_UP_STREAM),
    ("unused", "used", SavingAction.UNUSED_GRAPHS),
    ("many", "shared", SavingAction.SHARE),
    ("heap", "frozen", SavingAction.FREEZE),
    ("eager", "base", SavingAction.LAZY_LOADING),
)
"""Wasteful configuration, frugal configuration, advice."""

TIMED_CONFIGURATIONS: Final = (
    "base",
    "unused",
    "used",
    "many",
    "shared",
    "heap",
    "frozen",
    "eager",
)
"""Configurations whose time matters."""


class Runner:
    """Runs the decoder in several configurations; one at a time uses the GPU."""

    launcher: tuple[str, ...] = ()
    """Options of Python that start the decoder."""

    def __init__(self, output: Path, limit_s: float) -> None:
        self.output = output
        self.facts: dict[str, list[dict[str, Any]]] = {}
        self._recordings = 0
        self._end = time.monotonic() + limit_s
        output.mkdir(parents=True, exist_ok=True)

    @property
    def remaining_s(self) -> float:
        return self._end - time.monotonic()

    def run(self, jobs: Sequence[tuple[str, Settings, bool]]) -> None:
        """Run ``jobs``: name, settings, and True to record. Names may repeat."""
        with self._start(jobs) as processes:
            for name, gate, process in processes:
                self.let_go(name, gate, process)

    def let_go(self, name: str, gate: Path, process: subprocess.Popen[str]) -> None:
        """Let a waiting process use the GPU, and read its facts."""
        if self.remaining_s < 6:
            process.kill()
            return
        gate.touch()
        try:
            text, errors = process.communicate(timeout=max(self.remaining_s - 3, 1))
        except subprocess.TimeoutExpired:
            process.kill()
            print("TIMEOUT", name)
            return
        lines = [line[6:] for line in text.splitlines() if line.startswith("FACTS ")]
        if lines:
            self.facts.setdefault(name, []).extend(json.loads(line) for line in lines)
        else:
            print("FAILED", name, process.returncode, errors[-600:])

    @contextmanager
    def _start(
        self, jobs: Sequence[tuple[str, Settings, bool]]
    ) -> Iterator[Iterator[tuple[str, Path, subprocess.Popen[str]]]]:
        """Start groups of processes; the next group starts after the last one used the GPU."""
        running: list[tuple[str, Path, subprocess.Popen[str]]] = []
        with tempfile.TemporaryDirectory() as folder:
            waiting = list(enumerate(jobs))

            def iterate() -> Iterator[tuple[str, Path, subprocess.Popen[str]]]:
                while waiting:
                    for number, job in waiting[:PROCESS_LIMIT]:
                        running.append(self._launch(job, Path(folder) / str(number)))
                    del waiting[:PROCESS_LIMIT]
                    for _, gate, process in running:
                        self._wait_for_imports(gate, process)
                    while running:
                        yield running.pop(0)

            try:
                yield iterate()
            finally:
                for _, _, process in running:
                    process.kill()

    def _launch(
        self, job: tuple[str, Settings, bool], gate: Path
    ) -> tuple[str, Path, subprocess.Popen[str]]:
        name, (arguments, environment), record_program = job
        command = [sys.executable, *self.launcher, str(SERVER), *arguments, "--gate", str(gate)]
        if record_program:
            self._recordings += 1
            target = self.output / f"{name}-{self._recordings:02}"
            record = [sys.executable, "-m", "collectors", "-o", str(target)]
            command = [*record, "--steps", "0", "--", *command]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | dict(environment),
        )
        return name, gate, process

    def _wait_for_imports(self, gate: Path, process: subprocess.Popen[str]) -> None:
        while not gate.with_suffix(".waiting").exists() and process.poll() is None:
            if self.remaining_s < 6:
                return
            time.sleep(0.02)

    def load(self, name: str) -> list[Run]:
        """Load the recordings of a configuration."""
        manifests = self.output.glob(f"{name}-[0-9]*/recorded*/manifest.json")
        return [load_run(manifest.parent, traces=False) for manifest in sorted(manifests)]

    def measure(self, name: str) -> Measurement | None:
        """Return used memory at the first replay, and times from the first use of the GPU."""
        rows = self.facts.get(name)
        if not rows:
            return None
        return Measurement(
            rows[0]["used"]["first replay"],
            [row["seconds"]["first replay"] - row["seconds"]["begin"] for row in rows],
            [row["cpu_seconds"]["first replay"] - row["cpu_seconds"]["begin"] for row in rows],
        )


@dataclass(frozen=True)
class Measurement:
    """Runs of one configuration: bytes, and seconds of each run."""

    used: int
    seconds: list[float]
    cpu_seconds: list[float]


def predict(runner: Runner, scene: Scene) -> dict[str, Any]:
    """Compute predictions; those of several recordings of a configuration by their medians."""
    predictions: dict[str, Any] = {"advice": {}, "each": {}, "fit": {}}
    for name, _, action in ADVICE:
        reports = [build_ledger_report(run) for run in runner.load(name)]
        rows = [
            (saving.bytes, saving.ns, saving.most_bytes or saving.bytes)
            for report in reports
            for saving in (report.savings if report is not None else ())
            if saving.action is action
        ]
        if rows:
            predictions["each"][name] = rows
            predictions["advice"][name] = [median(column) for column in zip(*rows, strict=True)]
    for run in runner.load("base")[:1]:
        report = build_ledger_report(run)
        if report is None or report.memory is None:
            continue
        for name, (change, _) in scene.fits.items():
            prediction = predict_report(run, report, change)
            if prediction is not None:
                predictions["fit"][name] = [
                    prediction.used,
                    prediction.error,
                    prediction.startup_ns,
                ]
    return predictions


def print_sums(runner: Runner, names: Iterable[str]) -> None:
    """Compare the ledgers with the values that the programs print."""
    print("\nsums: configuration, used (program), used (ledger), error, start-up (program, ledger)")
    for name in names:
        runs = runner.load(name)
        report = build_ledger_report(runs[0]) if runs else None
        if report is None or report.memory is None or name not in runner.facts:
            continue
        facts = runner.facts[name][0]
        moment = report.memory.end_of_startup
        truth = facts["used"]["first replay"]
        clock = facts["seconds"]["first replay"]
        remainder = sum(size for part, size in moment.parts.items() if part.value == "remainder")
        print(
            f"  {name:12s} {truth / MIB:9.1f} {sum(moment.parts.values()) / MIB:9.1f} MiB "
            f"remainder {remainder / MIB:6.1f} | {clock:7.3f} s "
            f"{sum(report.startup.parts.values()) / 1e9:7.3f} s, ledger's own "
            f"{report.startup.recorder_ns / 1e6:.0f} ms"
        )


def print_advice(runner: Runner, predictions: Mapping[str, Any]) -> None:
    print("\nadvice: case, bytes and seconds predicted, measured (each run), error")
    for name, better, action in ADVICE:
        before, after = runner.measure(name), runner.measure(better)
        prediction = predictions["advice"].get(name)
        print(f"  {action.value}")
        if before is None or after is None:
            print("    not measured")
            continue
        size = before.used - after.used
        wall = median(before.seconds) - median(after.seconds)
        cpu = median(before.cpu_seconds) - median(after.cpu_seconds)
        print(f"    measured {size / MIB:8.1f} MiB, {wall:6.3f} s, CPU {cpu:6.3f} s")
        for label, measurement in ((name, before), (better, after)):
            walls = ", ".join(f"{seconds:.3f}" for seconds in measurement.seconds)
            cpus = ", ".join(f"{seconds:.3f}" for seconds in measurement.cpu_seconds)
            print(f"      {label:10s} {walls} s; CPU {cpus} s")
        if prediction is None:
            print("    no advice")
            continue
        recording_times = ", ".join(f"{ns / 1e9:.3f}" for _, ns, _ in predictions["each"][name])
        if prediction[2] > prediction[0]:
            print(f"    at most   {prediction[2] / MIB:8.1f} MiB")
        print(
            f"    predicted {prediction[0] / MIB:8.1f} MiB ({_format_error(prediction[0], size)}), "
            f"{prediction[1] / 1e9:6.3f} s ({_format_error(prediction[1], wall * 1e9)}, CPU "
            f"{_format_error(prediction[1], cpu * 1e9)}); each recording {recording_times}"
        )


def _format_error(prediction: float, measurement: float) -> str:
    return f"{prediction / measurement - 1:+.1%}" if prediction and measurement else "-"


def print_fits(runner: Runner, names: Iterable[str], predictions: Mapping[str, Any]) -> None:
    print("\nfit: configuration, used predicted ± interval, measured, error")
    for name in names:
        measurement, prediction = runner.measure(name), predictions["fit"].get(name)
        if measurement is None or prediction is None:
            print(f"  {name}: not measured")
            continue
        error = prediction[0] / measurement.used - 1
        print(
            f"  {name:44s} predicted {prediction[0] / MIB:9.1f} ± {prediction[1] / MIB:6.1f} MiB | "
            f"measured {measurement.used / MIB:9.1f} MiB, error {error:+.2%} | start-up "
            f"{prediction[2] / 1e9:.2f} s"
        )


def print_expandable(runner: Runner, scene: Scene) -> None:
    print("\nexpandable segments: configuration, used without, with, saving")
    for name in scene.expandable:
        expandable, default = runner.measure(name), runner.measure(name.partition(",")[0])
        if expandable is not None and default is not None:
            print(
                f"  {name:24s} {default.used / MIB:9.1f} {expandable.used / MIB:9.1f} "
                f"{(default.used - expandable.used) / MIB:8.1f} MiB"
            )


def main(output: Path, limit_s: float, scene: Scene = SCENE, *, with_fits: bool = True) -> None:
    """Record, predict, measure and compare. Each part has its share of the time."""
    runner = Runner(output, limit_s)
    wasteful, quiet = scene.wasteful, scene.wasteful | scene.frugal
    recordings = [(name, settings, True) for name, settings in wasteful.items()]
    repetitions = [job for job in recordings if job[0] in TIMED_CONFIGURATIONS and job[0] != "base"]
    runner.run([("warm", wasteful["base"], False), *recordings, *repetitions * (REPETITIONS - 1)])
    predictions = predict(runner, scene)
    (output / "predictions.json").write_text(json.dumps(predictions, indent=1))
    print_sums(runner, wasteful)
    (output / "recorded.json").write_text(json.dumps(runner.facts))
    runner.facts = {}
    fits: dict[str, Settings] = (
        {name: (arguments, {}) for name, (_, arguments) in scene.fits.items()} if with_fits else {}
    )
    repeated_runs = [(name, quiet[name]) for name in TIMED_CONFIGURATIONS] * (REPETITIONS - 1)
    jobs = [*quiet.items(), *repeated_runs, *scene.expandable.items(), *fits.items()]
    runner.run([(name, settings, False) for name, settings in jobs])
    (output / "facts.json").write_text(json.dumps(runner.facts))
    print_advice(runner, predictions)
    print_expandable(runner, scene)
    print_fits(runner, fits, predictions)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        float(sys.argv[2]),
        SCENES[(sys.argv[3:] or ["first"])[0]],
        with_fits="--advice-only" not in sys.argv[4:],
    )
