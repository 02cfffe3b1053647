"""What is told of programs with many graphs, on the recorded ones."""

from __future__ import annotations

from pathlib import Path

from graphviz_dash.analysis.families.family_report import FamilyReport, LoopReport, loop_report
from graphviz_dash.analysis.families.ladder_inputs import ladder_data
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.families import loss_sentence

SAMPLES = Path(__file__).parents[2] / "sample_traces"


def the_report(sample: str) -> LoopReport:
    report = loop_report(load_experiment(SAMPLES / sample, traces=False).runs[0])
    assert not isinstance(report, Missing)
    return report


def the_family(sample: str) -> FamilyReport:
    return the_report(sample).families[0]


def test_padding_to_the_smallest_timed_size_is_not_known() -> None:
    family = the_family("recorded-batching")
    assert isinstance(family.losses, Missing)
    assert loss_sentence(family).startswith("Padding is not known: no size below 96 was timed")


def test_padded_sizes_that_are_as_fast_lose_nothing() -> None:
    told = loss_sentence(the_family("recorded-server"))
    assert "Padding took nothing that can be told over 700 steps" in told
    assert "60 steps without a graph took" in told


def test_sizes_below_the_smallest_timed_one_are_not_advised_away() -> None:
    report = the_report("recorded-batching")
    data = ladder_data(report, report.families[0])
    assert isinstance(data, Missing)
    assert "no size below 96 was timed" in data.reason


def test_where_larger_sizes_were_timed_there_is_advice() -> None:
    report = the_report("recorded-server")
    assert not isinstance(ladder_data(report, report.families[0]), Missing)
