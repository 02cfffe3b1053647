from __future__ import annotations

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.model.run import ExecutionMode, Pass
from graphviz_dash.narrative.headline import build_headline, describe_run
from tests.analysis.eager_and_graph import both, eager, graphed
from tests.analysis.frames import (
    LIFE,
    clean_timings,
    failure,
    make_experiment,
    make_run,
    pools,
)


def test_faster() -> None:
    assert build_headline(both()) == (
        "Yes: graph is 8.00x faster than eager, 125 µs instead of 1.00 ms per step; "
        "2.38 ms once, paid back after 3 replays; peak memory +4.00 MiB"
    )


def test_slower() -> None:
    slow = graphed(clean=clean_timings([2_000_000] * 40, lives=(LIFE,)), memory=pools(50 << 20, 1))
    assert build_headline(compare_runs(make_experiment(eager(), slow))) == (
        "No: graph is 2.00x slower than eager, 2.00 ms instead of 1.00 ms per step; "
        "500 µs once, never paid back; peak memory -50.0 MiB"
    )


def test_alike() -> None:
    alike = graphed(clean=clean_timings([1_000_000] * 40), memory=None)
    assert build_headline(compare_runs(make_experiment(eager(), alike))) == (
        "No significant difference between graph and eager: 1.00 ms instead of 1.00 ms per step"
    )


def test_the_fastest_of_several() -> None:
    third = make_run("compile", clean=clean_timings([100_000] * 40))
    found = compare_runs(make_experiment(eager(), graphed(), third))
    assert build_headline(found).startswith("Yes: compile is 10.0x faster than eager")


def test_a_failure_when_nothing_can_be_compared() -> None:
    broken = make_run("graph", failures=(failure(message="\x1b[2J\x9b"),))
    found = compare_runs(make_experiment(eager(), broken))
    assert build_headline(found) == (
        r"graph failed in its clean pass at model.py:12: RuntimeError: \x1b[2J\x9b"
    )


def test_names_of_folders_drive_no_terminal() -> None:
    run = make_run("\x1b]0;x\x07", ExecutionMode.EAGER, clean=clean_timings([1_000] * 40))
    found = compare_runs(make_experiment(run))
    assert build_headline(found) == r"\x1b]0;x\x07 takes 1.00 µs per step"


def test_one_run_alone() -> None:
    assert build_headline(compare_runs(make_experiment(graphed()))) == "graph takes 125 µs per step"
    assert build_headline(compare_runs(make_experiment())) == "no runs"


def test_a_failed_pass_is_named() -> None:
    failed = make_run("graph", failures=(failure(message="first line\nsecond"),))
    assert describe_run(compare_runs(make_experiment(eager(), failed))["graph"]) == (
        "graph failed in its clean pass at model.py:12: RuntimeError: first line"
    )
    untraced = graphed(trace=None, failures=(failure(Pass.TRACED),))
    found = compare_runs(make_experiment(eager(), untraced))
    assert build_headline(found).endswith("; its traced pass failed")
