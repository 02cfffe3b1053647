"""Generated damage to traces of equal steps, and conclusions that no damage may support."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.prediction.predict import predict
from graphviz_dash.analysis.trace.integrity import TraceIntegrity, assess_integrity
from graphviz_dash.analysis.trace.steps import Step, find_steps
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.registry import read_foreign
from graphviz_dash.ingest.limits import DEFAULT_LIMITS
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.trace import Trace
from tests.analysis.frames import make_experiment, make_run
from tests.analysis.predictions import CALIBRATION
from tests.analysis.trace.integrity_traces import (
    GAP_NS,
    KERNEL_NS,
    START,
    Event,
    make_events,
    read_events,
    remove,
)

BOUND: Final = GAP_NS / KERNEL_NS
"""Highest possible speedup of a complete step."""

Merge = Literal["text", "pid", "ids", "device"]
"""Difference between two merged ranks: labels, process ids, correlation ids or devices."""
Order = Literal["steps", "time", "work last", "work first", "random"]


class Damage(Struct, frozen=True):
    """Damage to a trace; shares are probabilities of each record."""

    seed: int
    steps: int
    kernels: int
    """Kernels of a step."""
    lost_kernels: float
    lost_launches: float
    """Launches that are lost without their kernel."""
    lost_pairs: float
    """Launches that are lost with their kernel."""
    lost_step: tuple[int, float] | None
    """Step whose kernels are lost after this share of its length."""
    merged: Merge | None
    double_marks: bool
    repeated: float
    clock: int
    """Offset of the GPU's clock, in microseconds."""
    rate: float
    """Rate of the GPU's clock."""
    order: Order
    cut: float
    """Remaining share of the file."""


CHOICES: Final[dict[str, tuple[object, ...]]] = {
    "lost_kernels": (0.0, 0.0, 0.02, 0.1, 0.5, 0.9),
    "lost_launches": (0.0, 0.0, 0.02, 0.1, 0.5),
    "lost_pairs": (0.0, 0.0, 0.02, 0.1, 0.3),
    "merged": (None, None, None, "text", "pid", "ids", "device"),
    "double_marks": (True, False),
    "repeated": (0.0, 0.0, 0.3, 1.0),
    "clock": (0, 0, -3, 40, -500, 5_000),
    "rate": (1.0, 1.0, 0.95, 0.99, 1.03),
    "order": ("steps", "time", "work last", "work first", "random"),
}
"""Values of the fields, the frequent ones repeated."""


def draw_damage(draw: random.Random) -> Damage:
    """Draw damage of all kinds."""
    fields: dict[str, object] = {name: draw.choice(values) for name, values in CHOICES.items()}
    fields |= {
        "seed": draw.randrange(1 << 20),
        "steps": draw.randint(1, 7),
        "kernels": draw.randint(1, 8),
        "lost_step": draw.choice([None, (draw.randint(0, 6), draw.random())]),
        "cut": draw.choice([1.0, 1.0, draw.uniform(0.05, 1)]),
    }
    return Damage(**fields)  # type: ignore[arg-type]


def get_speedup(
    trace: Trace, steps: tuple[Step, ...] | None = None, integrity: TraceIntegrity | None = None
) -> float | str:
    """Return the predicted speedup, or why there is none."""
    prediction = predict(trace, CALIBRATION, traced_steps=steps, integrity=integrity)
    if isinstance(prediction, Missing):
        return prediction.reason
    speedup = prediction.speedup
    return speedup.reason if isinstance(speedup, Missing) else speedup.value


def compute_bound(damage: Damage) -> float:
    """Compute the highest possible speedup of a step.

    A kernel whose call is in no step but a possible warm-up cannot be missed. Nor can a clock that
    runs slow without contradicting the CPU, which shortens all work.
    """
    length = damage.kernels * GAP_NS // 1000 + 10
    begin = START + (length if damage.steps > 2 else 0)
    seen: dict[object, set[int]] = {}
    for event in damage_events(damage):
        if event["name"] == "cudaLaunchKernel":
            offset = (event["ts"] - begin) % length
            indices = seen.setdefault(event["pid"], set())
            indices.update({int(offset) // (GAP_NS // 1000)} if event["ts"] >= begin else ())
    fewest = max(min(map(len, seen.values()), default=1), 1)
    return BOUND * damage.kernels / fewest / min(damage.rate, 1.0)


def damage_events(damage: Damage) -> list[Event]:
    """Make the events of the damaged trace."""
    draw = random.Random(str(damage.seed))
    events = _lose_pairs(_merge_ranks(damage), damage.lost_pairs, draw)
    events = remove(events, lambda e: e["cat"] == "kernel" and draw.random() < damage.lost_kernels)
    if damage.lost_step is not None:
        events = _lose_end_of_step(events, damage, *damage.lost_step)
    # Without its kernel and its launch, a piece of work leaves no trace.
    launched = {_get_launch(e) for e in events if e["cat"] == "kernel"}
    events = remove(
        events,
        lambda e: (
            e["name"] == "cudaLaunchKernel"
            and _get_launch(e) in launched
            and draw.random() < damage.lost_launches
        ),
    )
    if damage.double_marks:
        events += [e | {"tid": 9} for e in events if e["cat"] == "user_annotation"]
    run_clock(events, damage.rate, ("ts", "dur"))
    for event in events:
        if event["cat"] == "kernel":
            event["ts"] += damage.clock
    events += [dict(event) for event in events if draw.random() < damage.repeated]
    match damage.order:
        case "time":
            events.sort(key=lambda e: int(e["ts"]))
        case "work last":
            events.sort(key=lambda e: e["cat"] == "kernel")
        case "work first":
            events.sort(key=lambda e: e["cat"] != "kernel")
        case "random":
            draw.shuffle(events)
    return events


def run_clock(events: list[Event], rate: float, scaled: tuple[str, ...]) -> None:
    """Let the clock of the GPU run at another rate than that of the CPU."""
    first = min((event["ts"] for event in events), default=0)
    for event in events:
        if event["cat"] == "kernel" and rate != 1:
            event["ts"] = first + (event["ts"] - first) * rate
            event["dur"] *= rate if "dur" in scaled else 1


def check_damage(damage: Damage, folder: Path) -> list[float]:
    """Check that no speedup is above the bound, and that each value is inside its spread.

    Return the predicted speedups, relative to the bound.
    """
    try:
        trace = read_events(damage_events(damage), folder / "t.json", damage.cut)
    except InputError:
        return []
    bound = compute_bound(damage)
    steps = find_steps(trace)
    integrity = assess_integrity(trace, steps)
    speedups = [get_speedup(trace, steps, integrity), *_predict_separated(damage, folder)]
    for speedup in speedups:
        assert isinstance(speedup, str) or speedup <= bound, f"{speedup} > {bound}: {damage}"
    _check_sums(trace, steps, integrity)
    (run,) = compare_runs(make_experiment(make_run("eager", trace=trace))).runs
    if (damage.merged, damage.cut, damage.lost_pairs) == (None, 1.0, 0.0):
        for name in ("kernels", "launches"):
            assert run[name].value in (None, damage.kernels), f"{run[name]}: {damage}"
    for figure in run.metrics:
        if figure.spread is not None and figure.value is not None:
            high = figure.spread.high
            assert figure.spread.low <= figure.value, f"{figure}: {damage}"
            assert high is None or figure.value <= high, f"{figure}: {damage}"
    return [speedup / bound for speedup in speedups if not isinstance(speedup, str)]


def _get_launch(event: Event) -> tuple[str, int]:
    """Rank, if labelled, and id of a kernel or its launch."""
    label = event["pid"][:6] if isinstance(event["pid"], str) else ""
    return label, event["args"]["correlation"]


def _merge_ranks(damage: Damage) -> list[Event]:
    steps, kernels = damage.steps, damage.kernels
    events = make_events(steps, kernels)
    match damage.merged:
        case "text":
            return [
                event | {"pid": f"[TP0{rank}] {event['pid']}"}
                for rank in (0, 1)
                for event in make_events(steps, kernels)
            ]
        case "pid":
            events += make_events(steps, kernels, pid=7)
        case "ids":
            events += make_events(steps, kernels, first_id=5000)
        case "device":
            events += make_events(steps, kernels, first_id=5000, device=1)
    return events


def _lose_pairs(events: list[Event], share: float, draw: random.Random) -> list[Event]:
    launches = {_get_launch(e) for e in events if "correlation" in e["args"]}
    lost = {launch for launch in sorted(launches) if draw.random() < share}
    return remove(events, lambda e: "correlation" in e["args"] and _get_launch(e) in lost)


def _lose_end_of_step(events: list[Event], damage: Damage, step: int, share: float) -> list[Event]:
    length = damage.kernels * GAP_NS // 1000 + 10
    begin = START + step * length
    first, end = begin + share * length, begin + length
    return remove(events, lambda e: e["cat"] == "kernel" and first <= e["ts"] < end)


def _predict_separated(damage: Damage, folder: Path) -> Iterator[float | str]:
    """Predict each rank of a merged trace."""
    if damage.merged not in ("text", "pid"):
        return
    with suppress(InputError):
        for content in read_foreign(folder / "t.json", folder, DEFAULT_LIMITS):
            assert content.trace is not None
            yield get_speedup(content.trace)


def _check_sums(trace: Trace, steps: tuple[Step, ...], integrity: TraceIntegrity) -> None:
    """Check that each row is in one step at most, and that parts are no longer than steps."""
    rows = [row for step in steps for row in step.gpu_rows.tolist()]
    assert len(rows) == len(set(rows)) <= len(trace.gpu)
    for step in steps:
        counted = step.kernels + step.copies + step.sets + step.whole_graphs
        assert counted == len(step.gpu_rows)
        assert 0 <= step.busy_ns <= min(step.duration_ns, step.work_ns)
    assert 0 <= integrity.launches_with_work <= integrity.launches
    assert 0 <= integrity.kernels_with_launch <= integrity.kernels
    assert set(integrity.complete_steps) <= set(range(integrity.steps))
