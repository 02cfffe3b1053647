from __future__ import annotations

from graphviz_dash.analysis.metrics.registry import METRICS, SECTIONS, Source, Unit
from scripts.reference.pages import format_page


def test_each_metric_has_its_heading_id_and_pass() -> None:
    page = format_page("metrics")
    for metric in METRICS.values():
        facts = f"`{metric.id}`, {metric.unit.value}, {metric.source.value}"
        assert f"\n### {metric.title}\n\n{facts}" in page
        assert metric.formula in page


def test_ids_and_titles_are_unique() -> None:
    listed = [metric for group in SECTIONS.values() for metric in group]
    assert len(METRICS) == len(listed)
    assert len({metric.title for metric in listed}) == len(listed)


def test_an_estimate_uses_both_passes() -> None:
    for metric in METRICS.values():
        assert not metric.estimate or metric.source is Source.BOTH


def test_values_are_formatted_by_their_unit() -> None:
    by_unit = {metric.unit: metric for metric in METRICS.values()}
    assert by_unit[Unit.NANOSECONDS].format(127_000) == "127 µs"
    assert by_unit[Unit.BYTES].format(3 << 20) == "3.00 MiB"
    assert by_unit[Unit.COUNT].format(1234) == "1,234"
    assert by_unit[Unit.RATIO].format(10.27) == "10.3x"
    assert by_unit[Unit.FRACTION].format(0.123) == "12.3%"
    assert {metric.format(None) for metric in METRICS.values()} == {"\N{EN DASH}"}
