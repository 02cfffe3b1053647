from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.verdict import Outcome
from graphviz_dash.analysis.sample_statistics import SpreadKind
from tests.analysis.eager_and_graph import both, eager, graphed
from tests.analysis.frames import (
    LIFE,
    clean_timings,
    in_processes,
    make_experiment,
)


class TestSpeedup:
    def test_the_interval_holds_the_ratio_and_narrows_with_agreement(self) -> None:
        noisy = [1_000_000 + 3_000 * (place * 7919 % 101) for place in range(100)]
        run = compare_runs(make_experiment(eager(clean=clean_timings(noisy)), graphed()))["graph"]
        speedup = run["speedup"]
        assert speedup.value is not None
        assert speedup.spread is not None
        assert speedup.spread.high is not None
        assert speedup.spread.low < speedup.value < speedup.spread.high
        steady = both()["graph"]["speedup"].spread
        assert steady is not None
        assert steady.low == steady.high == 8

    @given(
        saving=st.integers(1, 2_000_000),
        capture=st.integers(0, 50_000_000),
        first=st.integers(0, 5_000_000),
    )
    def test_break_even_is_the_first_replay_that_pays(
        self, saving: int, capture: int, first: int
    ) -> None:
        step, before = 125_000, 125_000 + saving
        life = msgspec.structs.replace(
            LIFE, capture_ns=capture, instantiate_ns=0, first_launch_ns=step + first
        )
        found = compare_runs(
            make_experiment(
                eager(clean=clean_timings([before] * 5), trace=None),
                graphed(clean=clean_timings([step] * 5, lives=(life,)), trace=None),
            )
        )["graph"]["break_even"].value
        assert found is not None

        def pays(replays: int) -> bool:
            return capture + (step + first) + (replays - 1) * step <= replays * before

        assert pays(int(found))
        assert found == 1 or not pays(int(found) - 1)

    def test_no_saving_no_break_even(self) -> None:
        slow = graphed(clean=clean_timings([1_000_000] * 40, lives=(LIFE,)))
        found = compare_runs(make_experiment(eager(), slow))["graph"]["break_even"]
        assert found.missing.reason == "a replay is not faster than a step of eager"

    def test_a_saving_that_may_be_none_leaves_break_even_open(self) -> None:
        near = [1_000_000 + (place % 10) * 20_000 for place in range(40)]
        before = [1_000_000 + (place % 10) * 20_100 for place in range(40)]
        found = compare_runs(
            make_experiment(
                eager(clean=clean_timings(before)),
                graphed(clean=clean_timings(near, lives=(LIFE,))),
            )
        )["graph"]
        assert found["break_even"].value is not None
        assert found["break_even"].spread is not None
        assert found["break_even"].spread.high is None
        assert found.outcome is Outcome.NO_SIGNIFICANT_DIFFERENCE

    def test_a_clock_that_saw_nothing_gives_no_speedup(self) -> None:
        found = compare_runs(make_experiment(eager(), graphed(clean=clean_timings([0] * 40))))[
            "graph"
        ]
        assert found["speedup"].value is None
        assert found["observer_effect"].value is None


class TestProcesses:
    def test_the_interval_covers_processes_that_do_not_agree(self) -> None:
        walls = ([900_000] * 8, [950_000] * 8, [1_000_000] * 8, [1_050_000] * 8, [1_100_000] * 8)
        runs = eager(clean=in_processes(*walls)), graphed(clean=in_processes(*[[125_000] * 8] * 5))
        run = compare_runs(make_experiment(*runs))["graph"]
        speedup, step = run["speedup"], run["step_time"]
        assert speedup.value == 8
        assert speedup.spread is not None
        assert (speedup.spread.processes, speedup.spread.samples) == (5, 40)
        assert speedup.spread.low < 7.7
        assert (speedup.spread.high or 0) > 8.3
        assert step.spread is not None
        assert (step.spread.kind, step.spread.processes) == (SpreadKind.INTERVAL, 5)

    def test_against_one_process_it_is_of_one(self) -> None:
        run = compare_runs(make_experiment(eager(), graphed(clean=in_processes([125_000] * 8))))[
            "graph"
        ]
        spread = run["speedup"].spread
        assert spread is not None
        assert spread.processes == 1
