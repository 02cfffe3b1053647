"""Every fact has one value: figures that several surfaces show, compared for all samples and for
pairs of runs of different experiments."""

from __future__ import annotations

import re
from collections import defaultdict
from html import unescape
from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.analysis.ranks.ranks import compare_ranks
from graphviz_dash.app.compare.documents.comparison import build_comparison_document
from graphviz_dash.app.compare.page.metrics_table import format_metrics
from graphviz_dash.app.report.report import render_report
from graphviz_dash.features.memory.comparison import compare_memory
from graphviz_dash.features.memory.document import build_memory_document
from graphviz_dash.features.memory.narrative import describe_memory_cost
from graphviz_dash.features.torch_compile.analysis.report import build_compile_report
from graphviz_dash.ingest.load import load_pair
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import build_run_answer, format_answer, format_parts
from graphviz_dash.narrative.headline import describe_run
from graphviz_dash.narrative.summary import build_summary_tiles
from graphviz_dash.ui.page.widgets import format_changes, format_hero
from tests.narrative.test_answer_properties import NAMES
from tests.samples import SAMPLES, compared_sample

PAIRS = (
    ("mlp-train/graph", "all-nodes/graph"),
    ("fork-join/eager", "superset/graph"),
    ("recorded-resnet/graphed", "recorded-megatron/local"),
    ("compile-mends/mended-0", "compile-mends/mended-3"),
    ("gpt-wide/eager", "gpt-wide/partial"),
)
SIGNED = ("peak_reserved_change", "device_memory_change", "iterate_reserved_change")
SIZE = r"([+-][\d.,]+ [KMG]?i?B|unchanged)"


class Figures:
    """Texts of each fact, by run, fact and surface."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)

    def add(self, run: str, fact: str, surface: str, text: str | None) -> None:
        if text:
            self.texts[run, fact][surface] = text

    def find(self, run: str, fact: str, surface: str, pattern: str, text: str) -> None:
        if match := re.search(pattern, text):
            self.add(run, fact, surface, match[1])

    @property
    def compared(self) -> int:
        return sum(len(texts) for texts in self.texts.values() if len(texts) > 1)

    @property
    def disagreements(self) -> dict[tuple[str, str], dict[str, str]]:
        return {key: texts for key, texts in self.texts.items() if len(set(texts.values())) > 1}


def show_change(value: float | None, metric: str) -> str | None:
    if value is None:
        return None
    text = METRICS[metric].format(value)
    if metric in SIGNED:
        return "unchanged" if not value else f"+{text}" if value > 0 else text
    return text


def collect_figures(result: Comparison) -> Figures:
    figures = Figures()
    kernels = build_kernel_table(result.experiment, result.baseline)
    ranks = compare_ranks(result.experiment)
    document = build_comparison_document(result, kernels, ranks)
    memory = compare_memory(result)
    report = render_report(result, kernels, {}, ("", "")).decode()
    for run, written in zip(result.runs, document.runs, strict=True):
        for metric, figure in written.metrics.items():
            figures.add(run.name, metric, "json", show_change(figure.value, metric))
        add_page_metrics(figures, result, run)
        add_answer(figures, result, run)
        add_compile_launches(figures, run)
    add_memory(figures, result)
    if result.best is not None:
        add_tiles(figures, result.best.name, "report tiles", read_tiles(report))
        add_card(figures, result, result.best)
        answer = build_run_answer(result.best)
        assert answer is not None
        assert format_parts(answer.verdict) in unescape(re.sub("<[^>]+>", "", report))
    assert len(memory.reports) == len(build_memory_document(result.experiment, memory, 1).runs)
    return figures


def read_tiles(markup: str) -> dict[str, str]:
    rows = re.findall(
        r'<div class="tile"><span>(.*?)</span><b>(.*?)</b><span>.*?</span></div>', markup
    )
    return {unescape(label): unescape(re.sub("<[^>]+>", "", value)) for label, value in rows}


TILES = {
    "Speedup": "speedup",
    "Speedup, recorded loop": "recorded_speedup",
    "Step time, recorded loop": "recorded_step",
    "Step time": "step_time",
    "Launch CPU time": "launch_cpu_time",
    "Break-even replays": "break_even",
    "Peak memory": "peak_reserved_change",
}


def add_tiles(figures: Figures, run: str, surface: str, tiles: dict[str, str]) -> None:
    for label, value in tiles.items():
        if label in TILES:
            figures.add(run, TILES[label], surface, value)
        else:
            assert label == "Steady-state memory"
            figures.add(run, "steady", surface, value)


def add_page_metrics(figures: Figures, result: Comparison, run: RunComparison) -> None:
    """The tiles and both tables of the Compare page."""
    tiles = build_summary_tiles(result, run)
    if run.speedup.value is not None:
        add_tiles(figures, run.name, "tiles", {tile.label: tile.value for tile in tiles})
    ids = {metric.title: metric.id for metric in METRICS.values()}
    tables = re.findall("<table.*?</table>", format_metrics(result, run))
    for surface, table in zip(("main table", "table"), tables, strict=False):
        names = re.findall('<th scope="col">(.*?)</th>', table)
        for title, cells in re.findall(r"<abbr[^>]*>(.*?)</abbr></th>(.*?)</tr>", table):
            metric = ids[unescape(title).removesuffix(", est.")]
            texts = [
                re.search(r'class="num[^"]*"[^>]*>(.*?)<', cell) for cell in cells.split("</td>")
            ]
            for name, text in zip(names, texts, strict=False):
                if text and metric not in SIGNED:
                    figures.add(unescape(name), metric, surface, unescape(text[1]))


def add_answer(figures: Figures, result: Comparison, run: RunComparison) -> None:
    answer = build_run_answer(run)
    if answer is None:
        return
    recorded = run.run.recording is not None
    step, speedup = ("recorded_step", "recorded_speedup") if recorded else ("step_time", "speedup")
    for surface, text in (("answer", format_answer(answer)), ("headline", describe_run(run))):
        figures.find(run.name, "steady", surface, f"steady-state memory {SIZE}", text)
        figures.find(run.name, "peak_reserved_change", surface, f"peak memory {SIZE}", text)
        figures.find(run.name, "break_even", surface, r"paid back after ([\d,]+) replay", text)
        figures.find(run.name, "one_off_cost", surface, r"([\d.,]+ \S+) once", text)
        figures.find(run.name, step, surface, r"([\d.,]+ [nµm]?s) instead of", text)
        figures.find(run.name, speedup, surface, r"is ([\d.,]+x) faster", text)
        if run.baseline is not None:
            pattern = r"instead of ([\d.,]+ [nµm]?s) per step"
            figures.find(run.baseline, step, f"{surface} of {run.name}", pattern, text)


def add_memory(figures: Figures, result: Comparison) -> None:
    memory = compare_memory(result)
    sentence = describe_memory_cost(memory)
    document = build_memory_document(result.experiment, memory, 1)
    for run in document.runs:
        name = run.run
        peak = show_change(run.peak_change, "peak_reserved_change")
        figures.add(name, "peak_reserved_change", "memory json", peak)
        steady = show_change(run.process_bytes, "device_memory_change")
        figures.add(name, "steady", "memory json", steady)
    labels = {"Peak memory": "peak_reserved_change", "Steady-state memory": "steady"}
    for label, fact in labels.items():
        listed = re.search(rf"{label}: (.*?)\.( [A-Z]|$)", sentence)
        for entry in listed[1].split(", ") if listed else ():
            name, text = re.fullmatch(rf"(\S+) {SIZE}( vs .*)?", entry).group(1, 2)  # type: ignore[union-attr]
            figures.add(name, fact, "memory sentence", text)


def add_card(figures: Figures, result: Comparison, best: RunComparison) -> None:
    markup = format_changes(result, best)
    facts = dict(re.findall(r'data-fact="(.*?)"><span>.*?</span><b>(.*?)</b>', markup))
    figures.add(best.name, "peak_reserved_change", "card", facts.get("Peak memory"))
    figures.add(best.name, "steady", "card", facts.get("Steady-state memory"))
    replays = facts.get("Break-even after", "").removesuffix(" replays")
    figures.add(best.name, "break_even", "card", replays)
    if "→" in facts.get("Launches", ""):
        launches = facts["Launches"].split(" → ")
        figures.add(best.baseline or "", "launches", "card", launches[0].strip("–"))
        figures.add(best.name, "launches", "card", launches[1].strip("–"))
    big = re.search(r'class="big[^"]*">(.*?)<', format_hero(best))
    if big and best.speedup.value and best.speedup.value > 1:
        figures.add(best.name, best.speedup.metric.id, "card", big[1])


def add_compile_launches(figures: Figures, run: RunComparison) -> None:
    """Compile counts graph launches of the traced steps as Compare does."""
    report = build_compile_report(run.run)
    if isinstance(report, Missing) or report.replays is None:
        return
    launches = METRICS["graph_launches"].format(report.replays)
    figures.add(run.name, "graph_launches", "compile", launches)


@pytest.mark.parametrize("name", NAMES)
def test_no_fact_of_a_sample_has_two_values(name: str) -> None:
    result = compared_sample(name)
    figures = collect_figures(result)
    assert figures.disagreements == {}
    # A sample without a comparison shows its figures in JSON and tables alone.
    assert figures.compared >= 10 or result.best is None


@pytest.mark.parametrize("paths", PAIRS)
def test_no_fact_of_a_pair_has_two_values(paths: tuple[str, str]) -> None:
    first, second = (Path(SAMPLES / path) for path in paths)
    pair = load_pair((first, second))
    result = compare_runs(pair, pair.runs[0].name)
    figures = collect_figures(result)
    assert figures.disagreements == {}
    assert figures.compared >= 10 or result.best is None


def test_both_memory_changes_stand_together_where_their_signs_differ() -> None:
    figures = collect_figures(compared_sample("mlp-train"))
    peak, steady = (figures.texts["compile", fact] for fact in ("peak_reserved_change", "steady"))
    assert set(peak.values()) == {"+36.0 MiB"}
    assert set(steady.values()) == {"-90.0 MiB"}
    assert peak.keys() & steady.keys() >= {"answer", "headline", "tiles", "memory json"}
