from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from graphviz_dash.analysis.comparison.break_even import BreakEven
from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.nodes.whole_graph import expand_graph
from graphviz_dash.app.compare.charts.static import (
    draw_break_even,
    draw_time_by_category,
    draw_waterfall,
)
from graphviz_dash.app.report.static_charts import draw_charts
from graphviz_dash.charts.palette import CATEGORY_SHADES
from graphviz_dash.charts.static.svg import (
    compute_round_numbers,
    css_colour,
    declare_variables,
    escape_text,
    truncate_text,
)
from graphviz_dash.features.graph.drawing.colours import ColourBy
from graphviz_dash.features.graph.drawing.folded import build_folded_graph
from graphviz_dash.features.graph.drawing.static import draw_dag
from graphviz_dash.features.graph.drawing.view import build_dag_view
from graphviz_dash.features.timeline.view.run import build_run_timeline, choose_step
from graphviz_dash.features.timeline.view.static import draw_timeline
from graphviz_dash.ingest.load import load_experiment
from tests.experiments import chain, fork_join, make_experiment
from tests.samples import compared_sample


@pytest.fixture(scope="module")
def sample() -> Comparison:
    return compared_sample("fork-join")


@pytest.fixture
def toy(tmp_path: Path) -> Comparison:
    return compare_runs(load_experiment(make_experiment(tmp_path / "toy")))


def drawn(markup: str | None) -> ElementTree.Element:
    assert markup is not None
    return ElementTree.fromstring(markup)


def bars(root: ElementTree.Element) -> list[tuple[float, float]]:
    """x and width of each large rectangle, in order."""
    return [
        (float(one.attrib["x"]), float(one.attrib["width"]))
        for one in root.iter("rect")
        if float(one.attrib["height"]) > 12
    ]


class TestWaterfall:
    def test_the_bars_step_from_one_whole_to_the_other(self, sample: Comparison) -> None:
        best = sample.best
        assert best is not None
        found = best.waterfall
        assert found is not None
        root = drawn(draw_waterfall(found))
        (left, whole), *causes, (start, after) = bars(root)
        scale = whole / found.before_ns
        assert (left, after) == (
            pytest.approx(start),
            pytest.approx(found.after_ns * scale, abs=0.02),
        )
        at = left + whole
        for (x, width), (_, saved) in zip(causes, found.saved_by_cause, strict=True):
            low = min(at, at - saved * scale)
            assert x == pytest.approx(low, abs=0.02)
            assert width == pytest.approx(max(abs(saved) * scale, 1), abs=0.02)
            at -= saved * scale
        assert at == pytest.approx(start + after, abs=0.05)


class TestWhere:
    def test_the_parts_of_a_bar_add_up_to_the_step(self, toy: Comparison) -> None:
        root = drawn(draw_time_by_category(toy))
        shown = bars(root)
        ends = [x + width for x, width in shown]
        longest = max(ends) - 170
        steps = sorted({round(end - 170, 1) for end in ends}, reverse=True)
        assert longest == steps[0]
        assert any(step == pytest.approx(longest / 4, abs=0.2) for step in steps)  # 400 and 100 µs


class TestBreakEven:
    def test_the_mark_stands_where_the_lines_cross(self, toy: Comparison) -> None:
        costs = toy["graph"].break_even
        assert isinstance(costs, BreakEven)
        root = drawn(draw_break_even(toy, costs))
        assert "8 replays" in "".join(root.itertext())
        lines = [
            [float(number) for number in re.findall(r"[\d.]+", one.attrib["d"])]
            for one in root.iter("path")
            if "stroke-width:2" in one.attrib["style"]
        ]
        (ax, ay, bx, by), (_, cy, _, dy) = lines
        crossing = ax + (bx - ax) * (ay - cy) / ((ay - cy) + (dy - by))
        mark = next(one for one in root.iter("path") if "stroke-dasharray:3" in one.attrib["style"])
        assert float(re.findall(r"[\d.]+", mark.attrib["d"])[0]) == pytest.approx(crossing, abs=1)

    @pytest.mark.parametrize("most", [1, 3, 10, 99, 1234, 5e9])
    def test_round_numbers(self, most: float) -> None:
        ticks = compute_round_numbers(most)
        assert ticks[0] == 0
        assert 4 <= len(ticks) <= 11
        assert ticks[-1] <= most < ticks[-1] + ticks[1]


class TestTimeline:
    def test_nothing_lies_outside_its_step(self, sample: Comparison) -> None:
        runs = [choose_step(build_run_timeline(run.run), None) for run in sample.runs]
        root = drawn(draw_timeline(runs))
        ends = [
            float(re.findall(r"M([\d.]+)", one.attrib["d"])[0])
            for one in root.iter("path")
            if "dasharray:2 2" in one.attrib["style"]
        ]
        assert [round((end - 150) / (ends[0] - 150), 2) for end in ends] == [
            round(one.length / runs[0].length, 2) for one in runs
        ]
        slices = [
            (float(x), float(x) + float(width))
            for one in root.iter("path")
            if one.attrib["style"].startswith("fill:var")
            for x, width in re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v", one.attrib["d"])
        ]
        assert min(x for x, _ in slices) >= 150
        assert max(end for _, end in slices) <= max(ends) + 0.2

    def test_drawn_widths_equal_the_busy_time(self, toy: Comparison) -> None:
        (one,) = [
            choose_step(build_run_timeline(run.run), None)
            for run in toy.runs
            if run.name == "eager"
        ]
        root = drawn(draw_timeline([one]))
        gemm = css_colour(CATEGORY_SHADES[next(c for c in CATEGORY_SHADES if c.value == "gemm")])
        (path,) = [one for one in root.iter("path") if one.attrib["style"] == f"fill:{gemm}"]
        width = sum(float(wide) for wide in re.findall(r"h([\d.]+)v", path.attrib["d"]))
        scale = (960 - 150 - 30) / one.length
        assert width == pytest.approx((7_700 + 7_900 + 8_100 + 8_200) * scale, abs=0.3)

    def test_many_slices_stay_small(self, tmp_path: Path) -> None:
        folder = make_experiment(tmp_path / "long", work=chain(3_000), traced=2)
        result = compare_runs(load_experiment(folder))
        assert sum(map(len, draw_charts(result).pictures.values())) < 50_000


class TestGraph:
    def test_every_box_and_link_of_the_view(self, sample: Comparison) -> None:
        run = sample["graph"].run
        graph = build_folded_graph(expand_graph(run, run.graphs[0].id))
        view = build_dag_view(graph, ColourBy.CATEGORY, 1.25)
        root = drawn(draw_dag(graph, "graph"))
        titles = [one.text for one in root.iter("title")]
        assert len(titles) == len(view.boxes)
        for box in view.boxes:
            assert (view.names[box.name] if box.name >= 0 else box.label) in titles
        arrows = [one for one in root.iter("path") if one.attrib["d"].endswith("z")]
        assert len(arrows) == len(view.links)

    def test_branches(self, tmp_path: Path) -> None:
        folder = make_experiment(tmp_path / "fork", work=fork_join())
        drawn(draw_charts(compare_runs(load_experiment(folder))).pictures["graph"])


def test_text_is_escaped_and_cut() -> None:
    assert escape_text('<a b="c">\x1b') == "&lt;a b=&quot;c&quot;&gt;\\x1b"
    assert truncate_text("short", 200, 12) == "short"
    cut = truncate_text("x" * 100, 100, 12)
    assert cut.endswith("…")
    assert len(cut) < 20


def test_colours_are_declared_once_for_each_theme() -> None:
    shade = next(iter(CATEGORY_SHADES.values()))
    light, dark = declare_variables(css_colour(shade) * 3)
    assert light == f"{css_colour(shade)[4:-1]}:{shade.light};"
    assert dark == f"{css_colour(shade)[4:-1]}:{shade.dark};"
