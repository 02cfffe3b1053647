from __future__ import annotations

import msgspec
import pytest

from graphviz_dash.features.launch.analysis.launch_costs import ChainFamily, analyze_launch_costs
from graphviz_dash.features.launch.narrative import (
    MEASURE_MEANINGS,
    MEASURE_TITLES,
    build_metrics_chapter,
    describe_extra_costs,
    describe_launch_costs,
    describe_machines,
    format_chain_family,
    format_topology,
)
from graphviz_dash.model.launch import LaunchMeasure, Topology
from tests.analysis.launches import lines, recording


def test_every_measure_has_a_title_and_a_meaning() -> None:
    assert set(MEASURE_TITLES) == set(MEASURE_MEANINGS) == set(LaunchMeasure)
    assert all(f"`{measure.value}`" in build_metrics_chapter() for measure in LaunchMeasure)


def test_names() -> None:
    assert format_topology(Topology(1, 2048, False, None, 2048)) == "chain of 2,048"
    assert format_topology(Topology(4, 10, True, None, 41)) == "4 parallel chains of 10, one root"
    assert format_topology(Topology(1, 100, False, "Host", 100)) == "chain of 100, one Host"
    assert format_chain_family(ChainFamily(4, single_root=True)) == "4 parallel chains, one root"
    assert format_chain_family(ChainFamily(8, single_root=False)) == "8 parallel chains"


def test_the_gpu_of_the_figures_is_named_and_that_of_the_runs_where_it_is_another() -> None:
    recorded = analyze_launch_costs(recording(*lines(lambda n: 2000))).recording.environment
    alike = describe_machines(recorded, [recorded, recorded])
    assert alike == describe_machines(recorded, [])
    assert recorded.gpu_name in alike
    assert recorded.gpu is not None
    device = msgspec.structs.replace(recorded.gpu, name="NVIDIA H100")
    other = msgspec.structs.replace(recorded, gpu=device)
    said = describe_machines(recorded, [recorded, other, other])
    assert said.count("NVIDIA H100") == 1
    assert "measure them there" in said


def test_too_few_sizes_say_nothing_of_growth() -> None:
    costs = analyze_launch_costs(recording(*lines(lambda n: 2000)[:3]))
    assert describe_launch_costs(costs).startswith("Too few linear chains")


@pytest.mark.parametrize(("slope", "growth"), [(1, "is flat"), (60, "grows")])
def test_growth_is_a_matter_of_the_slope(slope: float, growth: str) -> None:
    costs = analyze_launch_costs(recording(*lines(lambda n: 2500 + slope * n)))
    assert f"launch cost of linear chains {growth}:" in describe_launch_costs(costs)


def test_the_cost_of_python_is_stated() -> None:
    (only,) = describe_extra_costs(analyze_launch_costs(recording(*lines(lambda n: 2000))))
    assert "cuda-python costs 150 ns" in only
    assert "clock read 60 ns" in only
