"""Read allocator statistics of runs without a memory pass."""

from __future__ import annotations

from pathlib import Path

from graphviz_dash.analysis.memory.allocator import AllocatorState, list_allocator_states
from graphviz_dash.features.memory.chart import draw_allocator
from graphviz_dash.features.memory.narrative import describe_allocator, summarize_allocators
from graphviz_dash.ingest.load import load_experiment

MIB = 1 << 20


def test_the_parts_of_a_recorded_program_add_up_to_what_it_reserved() -> None:
    runs = load_experiment(Path("sample_traces/recorded-resnet"), traces=False).runs
    uses = list_allocator_states(runs)
    assert [use.run for use in uses] == [run.name for run in runs]
    for use, run in zip(uses, runs, strict=True):
        assert run.memory is not None
        assert use.reserved == run.memory.reserved_bytes
        assert use.private_reserved == sum(pool.reserved_bytes for pool in run.memory.pools)
    assert uses[0].pools == 0
    assert uses[1].pools == 1
    figure = draw_allocator(uses, "light")
    assert figure is not None
    for at, use in enumerate(uses):
        assert sum(bar.x[at] for bar in figure.data) * MIB == use.reserved


def test_pools_are_told_first_and_what_is_not_known_is_left_out() -> None:
    use = AllocatorState("served", 100 * MIB, 20 * MIB, 30 * MIB, 50 * MIB, 2, None, 12)
    assert describe_allocator(use) == (
        "served reserves 200 MiB at exit, 80.0 MiB of it (40.0%) in 2 private pools for 12 "
        "graphs, with 30.0 MiB allocated between replays."
    )
    eager = AllocatorState("eager", 100 * MIB, 0, 0, 0, 0, 150 * MIB, 0)
    assert describe_allocator(eager) == (
        "eager reserves 100 MiB at exit; peak allocation: 150 MiB."
    )


def test_nothing_is_drawn_of_nothing() -> None:
    assert draw_allocator((), "dark") is None


def test_several_runs_have_one_figure_each() -> None:
    uses = [
        AllocatorState("served", 200 * MIB, 20 * MIB, 30 * MIB, 50 * MIB, 2, None, 12),
        AllocatorState("eager", 100 * MIB, 0, 0, 0, 0, 150 * MIB, 0),
    ]
    assert summarize_allocators(uses[1:]) == describe_allocator(uses[1])
    figures = [f"{use.run} {use.reserved // MIB} MiB" for use in uses]
    assert summarize_allocators(uses) == f"Reserved at exit: {', '.join(figures)}."
