"""What is told of programs with many graphs, on the recorded ones."""

from __future__ import annotations

from pathlib import Path

from graphviz_dash.analysis.families.family_report import FamilyReport, loop_report
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.families import loss_sentence

SAMPLES = Path(__file__).parents[2] / "sample_traces"


def the_family(sample: str) -> FamilyReport:
    run = load_experiment(SAMPLES / sample, traces=False).runs[0]
    report = loop_report(run)
    assert not isinstance(report, Missing)
    return report.families[0]


def test_padding_to_the_smallest_timed_size_is_not_known() -> None:
    family = the_family("recorded-batching")
    assert isinstance(family.losses, Missing)
    assert loss_sentence(family).startswith("Padding is not known: no size below 96 was timed")


def test_padded_sizes_that_are_as_fast_lose_nothing() -> None:
    told = loss_sentence(the_family("recorded-server"))
    assert "Padding took nothing that can be told over 700 steps" in told
    assert "60 steps without a graph took" in told
