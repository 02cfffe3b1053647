from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.comparison.verdict import Outcome
from graphviz_dash.analysis.step_comparison.main_cause import find_main_cause
from graphviz_dash.analysis.step_comparison.waterfall import Basis, Cause, CauseTimes, Waterfall
from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import (
    build_answer,
    build_run_answer,
    format_parts,
    name_main_cause,
)
from tests.samples import SAMPLES, compared_sample

MAX_WORDS = 20
NAMES = sorted(
    path.parent.name
    for path in SAMPLES.glob("*/about.txt")
    if any((run / "manifest.json").exists() for run in path.parent.iterdir())
)
UNITS = {"ns": 1, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
ROUNDING = 1.01


def iterate_runs() -> Iterator[tuple[str, RunComparison]]:
    for name in NAMES:
        for run in compared_sample(name).runs:
            yield name, run


def read_times(text: str) -> list[float]:
    found = re.findall(r"([\d.,]+) (ns|µs|ms|s)\b", text)
    return [float(number.replace(",", "")) * UNITS[unit] for number, unit in found]


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_of_samples_have_at_most_20_words(name: str) -> None:
    result = compared_sample(name)
    answers = [build_answer(result), *(build_run_answer(run) for run in result.runs)]
    verdicts = [format_parts(answer.verdict) for answer in answers if answer is not None]
    # SGLang kills its scheduler, so its recording fails at the end.
    assert verdicts or all(run.run.manifest.failures for run in result.runs)
    assert [verdict for verdict in verdicts if len(verdict.split()) > MAX_WORDS] == []


def test_no_cause_of_a_sample_is_larger_than_its_effect() -> None:
    causes = 0
    for name, run in iterate_runs():
        answer, saving = build_run_answer(run), run.saving.value
        if answer is None or saving is None or not name_main_cause(run):
            continue
        causes += 1
        text = format_parts(answer.because)
        assert all(time <= abs(saving) * ROUNDING for time in read_times(text)), (name, text)
        shares = [float(share) for share in re.findall(r"([\d.]+)% of the difference", text)]
        assert all(share <= 100 for share in shares), (name, text)
    assert causes > 15


def test_an_insignificant_difference_has_no_cause() -> None:
    alike = [run for _, run in iterate_runs() if run.outcome is Outcome.NO_SIGNIFICANT_DIFFERENCE]
    assert alike
    for run in alike:
        answer = build_run_answer(run)
        assert answer is not None
        assert name_main_cause(run) == ""
        noise = "is within noise" if run.speedup.spread else "has no interval, so it may be noise"
        assert noise in format_parts(answer.because)
        assert "paid back after" not in format_parts(answer.costs)


def test_a_graphed_step_that_is_not_faster_names_its_limit() -> None:
    runs = {run.name: run for run in compared_sample("mlp-train").runs}
    answer = build_run_answer(runs["compile"])
    assert answer is not None
    assert format_parts(answer.verdict) == (
        "No significant difference between compile and eager: 61.3% of the work runs outside "
        "graphs, mostly Optimizer.step."
    )
    busy = build_run_answer(compared_sample("gpt-wide")["partial"])
    assert busy is not None
    assert "the GPU is already busy 95.9% of the step" in format_parts(busy.verdict)


TIMES = st.builds(
    CauseTimes,
    *(st.integers(-10_000, 10_000) for _ in Cause),
)


@given(TIMES, TIMES, st.sampled_from(Basis), st.floats(-20_000, 20_000, allow_nan=False, width=32))
@settings(max_examples=400, deadline=None)
def test_no_cause_of_a_generated_pair_is_larger_than_its_effect(
    before: CauseTimes, after: CauseTimes, basis: Basis, recorded_ns: float
) -> None:
    divided = build_waterfall_of(before, after, basis)
    total = divided.saved.total
    saving = total if basis is Basis.CLEAN else recorded_ns
    main = find_main_cause(divided, saving)
    if main is None:
        return
    assert main.is_saving == (saving > 0)
    assert main.ns is None or 0 < main.ns <= abs(saving)
    assert main.share is None or 0 < main.share <= 1
    assert main.ns is None or basis is Basis.CLEAN
    parts = dict(divided.saved_by_cause)
    sign = 1 if saving > 0 else -1
    assert main.cause is not Cause.REMAINDER
    assert sign * parts[main.cause] == max(
        sign * ns for cause, ns in parts.items() if cause is not Cause.REMAINDER
    )


def build_waterfall_of(before: CauseTimes, after: CauseTimes, basis: Basis) -> Waterfall:
    whole = compared_sample("mlp-train")["graph"].waterfall
    assert not isinstance(whole, Missing)
    pairs: WorkPairs = whole.pairs
    return Waterfall(
        run="graph",
        baseline="eager",
        basis=basis,
        before_ns=before.total,
        after_ns=after.total,
        before=before,
        after=after,
        modules=(),
        operators=(),
        pairs=pairs,
        scales=(1.0, 1.0),
    )
