from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace

from graphviz_dash.features.prediction.analysis.contention import find_contentions
from graphviz_dash.features.prediction.analysis.measured import get_times_by_streams
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    BaselineBasis,
    ParallelPrediction,
    ParallelVerdict,
    find_step_operators,
    predict_parallel,
    predict_run_parallel,
)
from graphviz_dash.features.prediction.analysis.work import NeedSource
from graphviz_dash.features.prediction.stream_narrative import (
    build_stream_row,
    describe_parallel_verdict,
    list_parallel_notes,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.parallel import Operator
from tests.analysis.forks import FORK
from tests.analysis.frames import make_run
from tests.analysis.parallel.training import chain_plan, chains, training


def predicted(operators: Sequence[Operator] = ()) -> ParallelPrediction:
    run, table, concurrency = training()
    prediction = predict_parallel(run, concurrency, {"graph-0": table}, operators)
    assert isinstance(prediction, ParallelPrediction)
    return prediction


def test_a_prediction_lies_between_the_line_and_what_the_gpu_must_do() -> None:
    prediction = predicted()
    assert prediction.basis is BaselineBasis.CLEAN
    assert prediction.work.source is NeedSource.MEMORY
    assert prediction.verdict is ParallelVerdict.FASTER
    assert prediction.rows[0].step.value == pytest.approx(prediction.captured_ns)
    for fewer, more in pairwise(prediction.rows):
        assert more.step.value <= fewer.step.value
    for row in prediction.rows:
        assert row.step.low is not None
        assert row.step.high is not None
        assert prediction.lower_bound.capacity_ns <= row.step.low <= row.step.value
        assert row.step.value <= row.step.high <= prediction.captured_ns
    assert prediction.best.step.value >= prediction.lower_bound.lower_bound_ns


def test_observed_operators_decide_what_needs_what() -> None:
    line = predicted(chains(1))
    assert (line.work.source, line.verdict) == (NeedSource.OPERATORS, ParallelVerdict.CHAIN)
    assert len(line.rows) == 1
    four = predicted(chains(4))
    assert 1.8 < four.best.speedup < 4
    # Nothing that is known to be needed may be undercut, by the interval neither.
    assert all((row.step.low or 0) >= four.lower_bound.lower_bound_ns for row in four.rows)


def test_operators_of_another_step_are_not_taken() -> None:
    assert predicted(chains(4, 321)).work.source is NeedSource.MEMORY


def test_contention_names_the_nodes_and_those_beside() -> None:
    prediction = predicted(chains(4))
    slowed = find_contentions(prediction, 5)
    assert len(slowed) == 5
    assert [each.slowed_ns for each in slowed] == sorted(
        (each.slowed_ns for each in slowed), reverse=True
    )
    for each in slowed:
        assert each.concurrent_nodes
        assert each.node not in each.concurrent_nodes


def test_it_is_worded_with_what_it_rests_on() -> None:
    prediction = predicted()
    verdict = describe_parallel_verdict(prediction)
    assert verdict.startswith(f"Captured on {prediction.best.streams} streams")
    assert "memory that nodes can reach" in list_parallel_notes(prediction)[1]
    assert build_stream_row(prediction.rows[0])[2:] == ("", "", "1.00x")
    line = predicted(chains(1))
    assert "nearly all of it is sequential" in describe_parallel_verdict(line)


def test_measured_attempts_give_times_by_streams() -> None:
    assert get_times_by_streams(chain_plan(4)) == {1: 1_650_000, 4: 800_000}


def test_a_missing_prediction_has_a_reason() -> None:
    run = make_run("graph", graphs=(FORK,), trace=None)
    missing = Missing(Fact.NODE_TIMES, "there is no trace of replays")
    assert predict_run_parallel(run, {"graph-0": missing}, []) == {"graph-0": missing}
    assert find_step_operators(run) == ()


def test_without_a_gpu_there_is_no_prediction() -> None:
    run, table, concurrency = training()
    environment = msgspec.structs.replace(run.manifest.environment, gpu=None)
    manifest = msgspec.structs.replace(run.manifest, environment=environment)

    unknown = replace(run, manifest=manifest)
    outcome = predict_parallel(unknown, concurrency, {"graph-0": table})
    assert isinstance(outcome, Missing)
    assert "GPU" in outcome.reason
