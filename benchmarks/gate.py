"""How often the gate is wrong: false alarms and regressions found, simulated and on real series.

    python benchmarks/gate.py [--gates 400]

Two recordings are drawn of one truth (or of a truth that got slower by a known share), and their
step times held against one another with the limit of 5%, as `graphviz-dash gate` does. Simulated
noise: the shapes that clean passes have, from a quiet graph replay to a host with neighbours. Real:
either half of each clean series in sample_traces against the other half.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphviz_dash.features.gate.gate import DEFAULT_LIMIT
from graphviz_dash.features.gate.gated import MetricChange, TimeSeries, Verdict, compare_times

Floats = npt.NDArray[np.float64]
SAMPLES = Path(__file__).parents[1] / "sample_traces"
ITERATIONS = 200
STEP_NS = 1_000_000


def quiet(random: np.random.Generator) -> Floats:
    """A graph replay: 0.5% of noise."""
    return random.normal(1, 0.005, ITERATIONS)


def skewed(random: np.random.Generator) -> Floats:
    """Launches on a busy host: 15% of noise with a long tail upwards."""
    return random.lognormal(0, 0.15, ITERATIONS)


def wandering(random: np.random.Generator) -> Floats:
    """Neighbouring iterations alike (correlation 0.8), 5% of noise."""
    noise, position = np.empty(ITERATIONS), random.normal()
    for index in range(ITERATIONS):
        position = 0.8 * position + 0.6 * random.normal()
        noise[index] = position
    return 1 + 0.05 * noise


def two_speeds(random: np.random.Generator) -> Floats:
    """A host that is 30% slower in spells of about 20 iterations."""
    slow = np.empty(ITERATIONS, dtype=bool)
    state = bool(random.integers(2))
    for index in range(ITERATIONS):
        state = state if random.random() > 0.05 else not state
        slow[index] = state
    return random.normal(1, 0.03, ITERATIONS) * np.where(slow, 1.3, 1.0)


def shifted(random: np.random.Generator) -> Floats:
    """Quiet within a process, and 1% from one process to the next."""
    return random.normal(1, 0.005, ITERATIONS) * random.normal(1, 0.01)


SHAPES: tuple[Callable[[np.random.Generator], Floats], ...] = (
    quiet,
    skewed,
    wandering,
    two_speeds,
    shifted,
)
CHANGES = (0.0, 0.05, 0.08, 0.10, 0.20)


def alarms(shape: Callable[[np.random.Generator], Floats], change: float, gates: int) -> float:
    """Share of ``gates`` that call a step slower by ``change`` worse than 5% allows."""
    false_alarms = 0
    for seed in range(gates):
        random = np.random.default_rng([seed, int(change * 1000)])
        before, now = (np.abs(shape(random)) * STEP_NS for _ in range(2))
        false_alarms += verdict(before, now * (1 + change)) is Verdict.WORSE
    return false_alarms / gates


def verdict(before: Floats, now: Floats) -> Verdict:
    series_ns = [tuple(int(value) for value in series) for series in (before, now)]
    series = [TimeSeries((process_series,)) for process_series in series_ns]
    comparison = compare_times("run", "step_time", series[0], series[1], DEFAULT_LIMIT)
    assert isinstance(comparison, MetricChange)
    return comparison.verdict


def series() -> Iterator[tuple[str, Floats]]:
    """Every clean series of the samples, by run and kind."""
    for file in sorted(SAMPLES.glob("*/*/clean.json")):
        clean = json.loads(file.read_text())
        run = f"{file.parts[-3]}/{file.parts[-2]}"
        yield f"{run} step", np.array([step[0] for step in clean["steps"]], dtype=float)
        yield f"{run} launch", np.array([step[1] for step in clean["steps"]], dtype=float)
        yield f"{run} interval", np.array(clean["back_to_back_ns"], dtype=float)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gates", type=int, default=400)
    gates = parser.parse_args().gates
    print(f"share of {gates} gates that fail, by how much slower the step became")
    print("".join(f"{text:>12}" for text in ("", *(f"+{change:.0%}" for change in CHANGES))))
    for shape in SHAPES:
        shares = "".join(f"{alarms(shape, change, gates):12.2%}" for change in CHANGES)
        print(f"{shape.__name__:>12}{shares}")
    wrong, gate_count = [], 0
    for name, values in series():
        half = len(values) // 2
        for before, now in ((values[:half], values[half:]), (values[half:], values[:half])):
            if half:
                gate_count += 1
                if verdict(before, now) is Verdict.WORSE:
                    wrong.append(name)
    print(f"halves of real series: {len(wrong)} of {gate_count} fail: {', '.join(wrong) or 'none'}")
    for change in CHANGES[2:]:
        found = tried = 0
        for _, values in series():
            if len(values):
                tried += 1
                found += verdict(values, values * (1 + change)) is Verdict.WORSE
        print(f"real series against themselves, {change:.0%} slower: {found} of {tried} fail")


if __name__ == "__main__":
    main()
