"""Every fact has one value on all surfaces: samples, pairs of runs, imported traces."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from click import Command
from streamlit.testing.v1 import AppTest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.loop.family_report import has_many_graphs
from graphviz_dash.analysis.memory.report import MemoryPart
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.analysis.metrics.recorded_step import StepStatistic
from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.analysis.ranks.ranks import ModeRanks, compare_ranks
from graphviz_dash.app.compare.command import compare_command
from graphviz_dash.app.compare.documents.comparison import build_comparison_document
from graphviz_dash.app.compare.show_command import show
from graphviz_dash.app.compare.text.comparison import print_comparison, print_comparison_summary
from graphviz_dash.app.overview.experiment_card import build_card
from graphviz_dash.app.report.report import render_report
from graphviz_dash.features.ladder.command import ladder_command
from graphviz_dash.features.launch.command import launch_command
from graphviz_dash.features.launch.observer_narrative import MEASURE_TITLES
from graphviz_dash.features.memory.command import memory_command
from graphviz_dash.features.prediction.command import predict_command
from graphviz_dash.features.ranks.fleet_command import fleet_command
from graphviz_dash.features.timeline.page.component.api import compute_differences
from graphviz_dash.features.timeline.page.component.ready import load_timeline
from graphviz_dash.features.timeline.view.run import choose_step
from graphviz_dash.features.timeline.view.view import build_timeline_view
from graphviz_dash.features.torch_compile.analysis.report import has_compile_report
from graphviz_dash.features.torch_compile.command import compile_command
from graphviz_dash.importers.bundles import import_files
from graphviz_dash.ingest.load import load_experiment, load_pair
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import (
    CAUSE_NOUNS,
    build_answer,
    build_run_answer,
    format_answer,
)
from graphviz_dash.narrative.headline import describe_run
from graphviz_dash.narrative.memory_change import list_memory_changes
from graphviz_dash.ui.state.catalogue import format_pair_name
from graphviz_dash.ui.state.results import get_comparison
from graphviz_dash.ui.state.store import STORE
from tests.app.surfaces import SIGNED, Figures, Table, print_tables, read_markup, show_cell
from tests.importers.fleets import work_in_threads
from tests.narrative.test_answer_properties import NAMES
from tests.samples import SAMPLES, compared_sample
from tests.ui.views.apptests import LookIn, markup, show_sample, shown

PAIRS = (
    ("mlp-train/graph", "all-nodes/graph"),
    ("fork-join/eager", "superset/graph"),
    ("recorded-resnet/graphed", "recorded-megatron/local"),
    ("compile-fixes/fixed-0", "compile-fixes/fixed-3"),
    ("gpt-wide/eager", "gpt-wide/partial"),
)
TRACES = (
    "fork-join/eager",
    "fork-join/graph",
    "mlp-train/compile",
    "recorded-resnet/eager",
    "tp-transformer/graph-rank0",
)
SIZE = r"([+-][\d.,]+ [KMG]?i?B|unchanged)"
TIME = r"([\d.,]+ [nµm]?s)"
STEADY = ("device_memory_change", "iterate_reserved_change")
CAUSES = {
    "launch gaps": "gaps_removed",
    "kernels": "kernel_change",
    "memcpy and memset": "copy_change",
    "overlap": "overlap_change",
    "synchronisation": "synchronisation_removed",
    "waiting for ranks": "rank_wait_removed",
    "remainder": "remainder",
}
MEMORY_ROWS = {
    MemoryPart.ACTIVATIONS.value: "activation_memory",
    MemoryPart.EXCLUSIVE.value: "pool_exclusive",
    MemoryPart.SHARED.value: "pool_shared",
    MemoryPart.UNUSED.value: "pool_unused",
    MemoryPart.WORKSPACES.value: "workspace_memory",
    MemoryPart.OUTSIDE.value: "outside_allocator",
    "reserved": "iterate_reserved",
    "device memory": "device_memory",
    "prepare": "prepare_peak",
    "after capture": "prepare_peak",
}
STEPS = {"step", "median step", "mean step", "profiled"}
"""Columns of a step time in a summary."""
ALWAYS = {"json", "card", "compare page", "report", "compare", "compare --all"}
"""Surfaces that each experiment has."""


def show_change(value: float | None, metric: str) -> str | None:
    if value is None:
        return None
    text = METRICS[metric].format(value)
    if metric in SIGNED:
        return "unchanged" if not value else f"+{text}" if value > 0 else text
    return text


Show = Callable[..., AppTest]


def show_page(name: str, experiment: str, **parameters: str) -> AppTest:
    return shown(name, experiment=experiment, **parameters)


class Collector:
    """Figures of one experiment, from each surface that shows it.

    Args:
        show: draws a page of the experiment.
    """

    def __init__(self, result: Comparison, show: Show = show_page) -> None:
        self.result = result
        self.show = show
        self.figures = Figures()
        self.ranks = compare_ranks(result.experiment)
        self.kernels = build_kernel_table(result.experiment, result.baseline)
        self.steady = {
            run.name: next(
                (item.metric for item in list_memory_changes(run) if item.metric in STEADY), ""
            )
            for run in result.runs
        }

    def find_step(self, run: str | None) -> str:
        return "step_time" if run is None else self.result[run].step.metric.id

    def add_comparison(self) -> None:
        """Add JSON, card, report and the answer of each run."""
        result, figures = self.result, self.figures
        document = build_comparison_document(result, self.kernels, self.ranks)
        for run, written in zip(result.runs, document.runs, strict=True):
            for metric, figure in written.metrics.items():
                figures.add(run.name, metric, "json", show_change(figure.value, metric))
            self.add_answer(run)
        for mode in document.ranks:
            for rank in mode.ranks:
                times = {"step_time": rank.step_time, "launch_cpu_time": rank.launch_cpu_time}
                for metric, figure in times.items():
                    value = show_change(figure.value, metric)
                    figures.add(rank.name, metric, "ranks json", value)
        report = render_report(result, self.kernels, {}, ("", "")).decode()
        tables, tiles = read_markup(report)
        self.add_tables("report", tables)
        self.add_card()
        if result.best is not None:
            self.add_tiles("report tiles", result.best, tiles)

    def add_answer(self, run: RunComparison) -> None:
        answer = build_run_answer(run)
        if answer is None:
            return
        for surface, text in (("answer", format_answer(answer)), ("headline", describe_run(run))):
            self.add_sentences(surface, run, text)

    def add_sentences(self, surface: str, run: RunComparison, text: str) -> None:
        figures, step = self.figures, self.find_step(run.name)
        speedup = "speedup" if step == "step_time" else "recorded_speedup"
        figures.find(run.name, self.steady[run.name], surface, f"steady-state memory {SIZE}", text)
        figures.find(run.name, "peak_reserved_change", surface, f"peak memory {SIZE}", text)
        figures.find(run.name, "break_even", surface, r"paid back after ([\d,]+) replay", text)
        figures.find(run.name, "one_off_cost", surface, r"([\d.,]+ \S+) once", text)
        figures.find(run.name, step, surface, rf"{TIME} instead of", text)
        figures.find(run.name, speedup, surface, r"is ([\d.,]+x) faster", text)
        if run.baseline is not None:
            pattern = rf"instead of {TIME} per step"
            figures.find(run.baseline, step, f"{surface} of {run.name}", pattern, text)

    def add_tables(self, surface: str, tables: list[Table]) -> None:
        for table in tables:
            self.figures.add_metrics(surface, table)
            if {"rank", "launch CPU"} <= {*table.head}:
                facts = {"step time": "step_time", "launch CPU": "launch_cpu_time"}
                self.figures.add_columns(surface, table, facts)
            if "baseline step" in table.head:
                self.add_causes(surface, table)
            if table.head[0] == "run" and STEPS & {*table.head}:
                self.add_summary(surface, table)
            if {"reserved", "device memory"} <= {first for first, *_ in table.rows} or [
                first for first, *_ in table.rows
            ][-1:] in (["iterations"], ["iterate"]):
                self.add_memory(surface, table)

    def add_causes(self, surface: str, table: Table) -> None:
        """Add an equation: its terms are changes, the metrics savings."""
        for run, heading, text in table.iterate_cells():
            if run not in self.steady or not text:
                continue
            if heading in CAUSES:
                saved = text[1:] if text[0] == "-" else f"-{text[1:]}" if text[0] == "+" else text
                self.figures.add(run, CAUSES[heading], surface, saved)
            elif heading == "baseline step":
                self.figures.add(self.result[run].baseline or "", "equation step", surface, text)

    def add_summary(self, surface: str, table: Table) -> None:
        facts = {
            "launches": "launches",
            "in graphs": "graph_time_share",
            "peak mem.": "peak_reserved_change",
            "profiled": "traced_step_time",
        }
        for run, heading, text in table.iterate_cells():
            if run not in self.steady:
                continue
            step = self.find_step(run)
            speedup = "speedup" if step == "step_time" else "recorded_speedup"
            metrics = {**facts, "step": step, "speedup": speedup, "steady mem.": self.steady[run]}
            metrics |= {f"{statistic} step": statistic.metric for statistic in StepStatistic}
            if heading in metrics:
                self.figures.add(run, metrics[heading], surface, text)

    def add_memory(self, surface: str, table: Table) -> None:
        for row in table.rows:
            name = ""
            for heading, text in zip(table.head, row, strict=False):
                name = heading if heading in self.steady else name
                if heading == name and name:
                    self.figures.add(name, MEMORY_ROWS.get(row[0], ""), surface, text)

    def add_tiles(self, surface: str, run: RunComparison, tiles: dict[str, str]) -> None:
        facts = {
            "Speedup": "speedup",
            "Speedup, recorded loop": "recorded_speedup",
            "Median step, recorded loop": "recorded_step",
            "Mean step, recorded loop": "recorded_mean",
            "Step time": "step_time",
            "Launch CPU time": "launch_cpu_time",
            "Break-even replays": "break_even",
            "Peak memory": "peak_reserved_change",
            "Steady-state memory": self.steady[run.name],
        }
        for label, value in tiles.items():
            if label in facts:
                self.figures.add(run.name, facts[label], surface, value)

    def add_card(self) -> None:
        """Add the card of the Overview page: the best run, or the baseline alone."""
        result = self.result
        card = build_card(result, result.experiment, "light")
        markup = card.outcome_markup + card.facts_markup
        facts = dict(re.findall(r'data-fact="(.*?)"><span>.*?</span><b>(.*?)</b>', markup))
        best = result.best
        base = best.baseline if best else result.baseline
        if base is None and len(result.runs) == 1:
            base = result.runs[0].name
        for label, fact in (("Launches", "launches"), ("Launch CPU time", "launch_cpu_time")):
            before, _, after = facts.get(label, "").partition(" → ")
            self.figures.add(base or "", fact, "card", before)
            self.figures.add(best.name if best else "", fact, "card", after)
        big = re.search(r'class="big[^"]*">(.*?)<', markup)
        times = re.search(rf"{TIME} → {TIME} per step", markup)
        if best is not None:
            self.figures.add(best.name, "peak_reserved_change", "card", facts.get("Peak memory"))
            steady = facts.get("Steady-state memory")
            self.figures.add(best.name, self.steady[best.name], "card", steady)
            replays = facts.get("Break-even after", "").removesuffix(" replays")
            self.figures.add(best.name, "break_even", "card", replays)
            if big and best.speedup.value and best.speedup.value > 1:
                self.figures.add(best.name, best.speedup.metric.id, "card", big[1])
            if times:
                self.figures.add(best.baseline or "", self.find_step(best.name), "card", times[1])
                self.figures.add(best.name, self.find_step(best.name), "card", times[2])
        elif big and result.predicted_run is not None:
            self.figures.add(result.predicted_run.name, "predicted speedup", "card", big[1])
        for name, bar in re.findall(rf'aria-label="([^"]+): {TIME} per step', markup):
            where = result[name].time_by_category
            is_profiled = not isinstance(where, Missing) and where.profiled
            fact = "traced_step_time" if is_profiled else self.find_step(name)
            self.figures.add(name, fact, "card bars", bar)
        self.figures.surfaces.add("card")

    def add_pages(self, name: str) -> None:
        result, figures = self.result, self.figures
        compare = self.show("compare", name)
        tables, tiles = read_markup(markup(compare))
        self.add_tables("compare page", tables)
        if result.best is not None:
            self.add_tiles("compare page tiles", result.best, tiles)
        elif result.predicted_run is not None:
            figures.add(
                result.predicted_run.name, "predicted speedup", "compare page", tiles.get("Speedup")
            )
        for run in result.runs:
            if run.run.memory_pass is None:
                continue
            page = self.show("memory", name, run=run.name)
            tables, _ = read_markup(markup(page))
            self.add_tables("memory page", tables)
            for line in re.findall(r'<p class="sentence">(.*?)</p>', markup(page)):
                self.add_memory_sentence("memory page sentence", line)
        for mode in self.ranks:
            tables, _ = read_markup(markup(self.show("ranks", name, mode=mode.name)))
            self.add_ranks("ranks page", mode, tables)
        for run in result.runs:
            if has_compile_report(run.run):
                page = self.show("compile", name, run=run.name)
                _, tiles = read_markup(markup(page))
                for title, fact in (
                    ("Step", self.find_step(run.name)),
                    ("Traced step", "traced_step_time"),
                    *((f"{kind} step".capitalize(), kind.metric) for kind in StepStatistic),
                ):
                    self.figures.add(run.name, fact, "compile page", tiles.get(title))
                figures.add(run.name, "graph_launches", "compile page", tiles["Graph launches"])
        if any(run.run.replay_trace is not None for run in result.runs):
            text = markup(self.show("timeline", name))
            for run in result.runs:
                pattern = rf"[:,] {re.escape(run.name)} ([\d.]+x)"
                figures.find(run.name, "observer_effect", "timeline page", pattern, text)
        self.add_launch_page(name)

    def add_launch_page(self, name: str) -> None:
        page = self.show("launch", name)
        for table in page.dataframe:
            if "Repeat vs chain" in table.value.columns:
                self.add_graph_rows("launch page", table.value.to_dict("records"))
        text = "\n".join([markup(page), *(caption.value for caption in page.caption)])
        self.add_graph_verdicts("launch page", text)
        watched = [run.name for run in self.result.runs if run.run.observers is not None]
        for run_name in watched:
            page = self.show("launch", name, watched=run_name)
            text = " ".join(caption.value for caption in page.caption).replace("\\", "")
            pattern = rf"a step lasted {TIME}, including"
            self.figures.find(run_name, "step_time", "launch page observers", pattern, text)
            pattern = rf", including {TIME} to "
            self.figures.find(run_name, "launch_cpu_time", "launch page observers", pattern, text)
            tables, _ = read_markup(markup(page))
            self.add_observers("launch page observers", run_name, tables)

    def add_graph_rows(self, surface: str, rows: list[dict[str, Any]]) -> None:
        """Add rows of captured graphs: times in us, or as the terminal prints them."""
        for row in rows:
            run, graph = row["Run"], row["Graph"]
            for title, value in row.items():
                if title not in ("Run", "Graph"):
                    fact = f"{graph}: {title.removesuffix(' (µs)')}"
                    self.figures.add(run, fact, surface, show_cell(title, value))

    def add_graph_verdicts(self, surface: str, text: str) -> None:
        for pattern in (r"(Repeat launches: [^<\n]*)", r"(The repeat launch is [^<\n]*)"):
            plain = unescape(text).replace(" (shipped)", "")
            self.figures.find("", "launch verdict", surface, pattern, plain)

    def add_observers(self, surface: str, run: str, tables: list[Table]) -> None:
        for table in tables:
            if table.head[-1] != "records/step":
                continue
            for observer, heading, text in table.iterate_cells():
                if heading in {title for title, _ in MEASURE_TITLES.values()}:
                    self.figures.add(run, f"{observer}: {heading}", surface, text)

    def add_timeline(self, folder: Path) -> None:
        """Add steps, their length in words, and the cause named next to a difference."""
        traced = [run for run in self.result.runs if run.run.replay_trace is not None]
        key = STORE.register(folder)
        # As after a visit of Compare.
        get_comparison(key)
        for run in traced:
            timeline = choose_step(load_timeline(key, run.name), None)
            durations = [step.duration_ns for step in timeline.timeline.steps]
            if not durations:
                continue
            figure = run["traced_step_time"]
            if figure.value is not None:
                self.figures.add(
                    run.name,
                    "traced_step_time",
                    "timeline",
                    figure.metric.format(median(durations)),
                )
            if len(durations) % 2 and timeline.timeline.shared is None:
                [view] = build_timeline_view([timeline], None, 1000).runs
                self.figures.add(run.name, "traced_step_time", "timeline label", view.length)
        for run in traced:
            answer = build_run_answer(run)
            if run.baseline is None or answer is None or run.baseline_run is None:
                continue
            if run.baseline_run.replay_trace is None or run.baseline not in self.steady:
                continue
            chosen = [
                choose_step(load_timeline(key, name), None) for name in (run.baseline, run.name)
            ]
            [difference] = compute_differences(key, chosen)
            because = "".join(part.text for part in answer.because)
            named = re.search(rf"(?:less|more) ({'|'.join(CAUSE_NOUNS.values())})", because)
            self.figures.add(run.name, "main cause", "timeline", difference.cause)
            self.figures.add(run.name, "main cause", "answer", named[1] if named else None)

    def add_memory_sentence(self, surface: str, sentence: str) -> None:
        labels = (("Peak memory", "peak_reserved_change"), ("Steady-state memory", "steady"))
        for label, fact in labels:
            listed = re.search(rf"{label}: (.*?)\.( [A-Z]|$)", sentence)
            for entry in listed[1].split(", ") if listed else ():
                found = re.fullmatch(rf"(\S+) {SIZE}( vs .*)?", entry)
                assert found, entry
                metric = self.steady[found[1]] if fact == "steady" else fact
                self.figures.add(found[1], metric, surface, found[2])

    def add_ranks(self, surface: str, mode: ModeRanks, tables: list[Table]) -> None:
        names = {f"rank {row.rank}": row.name for row in mode.ranks}
        for table in tables:
            if "Launch CPU" in table.head:
                rows = [[names.get(first, first), *cells] for first, *cells in table.rows]
                facts = {"Step time": "step_time", "Launch CPU": "launch_cpu_time"}
                self.figures.add_columns(surface, Table(table.head, rows), facts)

    def add_terminal(self) -> None:
        """Add the output of ``compare`` for runs that are not in one folder."""
        arguments = (self.result, self.kernels, self.ranks, (10, 5))
        output, tables = print_tables(print_comparison, *arguments)
        self.add_tables("compare --all", tables)
        self.add_lines("compare --all", output)
        output, tables = print_tables(print_comparison_summary, self.result)
        self.add_tables("compare", tables)
        self.add_lines("compare", output)

    def add_lines(self, surface: str, output: str) -> None:
        if self.result.best is not None and build_answer(self.result):
            self.add_sentences(f"{surface} answer", self.result.best, " ".join(output.split()))

    def add_commands(self, folder: Path) -> None:
        figures, result = self.figures, self.result
        for options in ((), ("--all",)):
            output, tables = _invoke(compare_command, str(folder), *options)
            surface = " ".join(("compare", *options))
            self.add_tables(surface, tables)
            self.add_lines(surface, output)
        for run in result.runs:
            for options in ((), ("--all",)):
                _, tables = _invoke(show, str(folder / run.name), *options)
                surface = " ".join(("show", *options))
                self.add_tables(surface, tables)
                figures.surfaces.add(surface)
            written = json.loads(_invoke(show, str(folder / run.name), "--json")[0])
            for metric, figure in written["metrics"].items():
                figures.add(run.name, metric, "show json", show_change(figure["value"], metric))
            self.add_fleet(folder / run.name, run)
            if has_compile_report(run.run):
                self.add_compile_command(folder / run.name, run)
        if any(run.run.memory_pass is not None for run in result.runs):
            output, tables = _invoke(memory_command, str(folder))
            self.add_tables("memory", tables)
            self.add_memory_sentence("memory sentence", output.splitlines()[0])
        self.add_prediction(folder)
        self.add_ladder(folder)
        self.add_launch_command(folder)
        self.add_timeline(folder)

    def add_launch_command(self, folder: Path) -> None:
        output, tables = _invoke(launch_command, str(folder))
        self.add_graph_verdicts("launch", output)
        names = {"linear share": "Linear", "of chain": "Repeat vs chain"}
        for table in tables:
            heads = [names.get(head, head[:1].upper() + head[1:]) for head in table.head]
            if {"Run", "Graph"} <= {*heads}:
                rows = [dict(zip(heads, row, strict=True)) for row in table.rows]
                self.add_graph_rows("launch", rows)
            self.add_observers("launch", table.head[0], [table])

    def add_fleet(self, folder: Path, run: RunComparison) -> None:
        """Add the step of a fleet of one rank, which is the median of its traced steps."""
        if run.run.replay_trace is None:
            return
        output, _ = _invoke(fleet_command, str(folder))
        pattern = rf"{TIME} per traced step \(median\)"
        self.figures.find(run.name, "traced_step_time", "fleet", pattern, output)

    def add_compile_command(self, folder: Path, run: RunComparison) -> None:
        output, tables = _invoke(compile_command, str(folder), "--all")
        pattern = r"([\d,]+) graph launch(?:es)? per step"
        self.figures.find(run.name, "graph_launches", "compile", pattern, output)
        for table in tables:
            for first, *cells in table.rows:
                if first in ("step", "traced step"):
                    fact = "step_time" if first == "step" else "traced_step_time"
                    self.figures.add(run.name, fact, "compile", cells[0])
                for statistic in StepStatistic:
                    if first == f"{statistic} step":
                        self.figures.add(run.name, statistic.metric, "compile", cells[0])

    def add_prediction(self, folder: Path) -> None:
        predicted = self.result.predicted_run
        if predicted is None or isinstance(predicted.graph_prediction, Missing):
            return
        _, tables = _invoke(predict_command, str(folder / predicted.name))
        cells = {first: second for table in tables for first, second, *_ in table.rows}
        self.figures.add(predicted.name, "predicted speedup", "predict", cells.get("Speedup"))
        eager = next((cells[row] for row in cells if row.startswith("Eager step, clean")), None)
        self.figures.add(predicted.name, "step_time", "predict", eager)

    def add_ladder(self, folder: Path) -> None:
        for run in self.result.runs:
            if not has_many_graphs(run.run.loop):
                continue
            output, tables = _invoke(ladder_command, str(folder / run.name))
            for table in tables:
                if table.head[:3] == ["", "current", "recommended"]:
                    for title, heading, text in table.iterate_cells():
                        fact = f"ladder {title.lower().strip()}, {heading}"
                        self.figures.add(run.name, fact, "ladder", text)
            page = markup(self.show("graphs", folder.name, run=run.name))
            page_tables, tiles = read_markup(page)
            for table in page_tables:
                if table.head[:3] == ["", "current", "recommended"]:
                    for title, heading, text in table.iterate_cells():
                        fact = f"ladder {title.lower()}, {heading}"
                        self.figures.add(run.name, fact, "graphs page", text)
            if len({*re.findall(r"other families: (.*?)\.", output)}) == 0:
                self.figures.add(run.name, "loop_startup", "graphs page", tiles.get("Startup"))
            pattern = r"([\d,]+) steps? replayed"
            for surface, text in (("graphs page", page), ("ladder", output)):
                self.figures.find(run.name, "steps replayed", surface, pattern, text)


def _invoke(command: Command, *arguments: str) -> tuple[str, list[Table]]:
    return print_tables(command.main, [*arguments], standalone_mode=False)


def collect_experiment(folder: Path, result: Comparison, show: Show = show_page) -> Figures:
    collector = Collector(result, show)
    collector.add_comparison()
    collector.add_pages(folder.name)
    collector.add_commands(folder)
    return collector.figures


@pytest.fixture(autouse=True)
def _read_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    work_in_threads(monkeypatch)


@pytest.fixture(scope="module")
def totals() -> Iterator[dict[str, int]]:
    """Numbers of compared figures, by experiment; printed at the end."""
    counts: dict[str, int] = {}
    yield counts
    print(f"\n{sum(counts.values())} figures compared: {counts}")


@pytest.mark.parametrize("name", NAMES)
def test_no_fact_of_a_sample_has_two_values(
    name: str, look_in: LookIn, totals: dict[str, int]
) -> None:
    look_in(SAMPLES / name)
    figures = collect_experiment(SAMPLES / name, compared_sample(name), show_sample)
    assert figures.disagreements == {}
    assert figures.surfaces >= ALWAYS
    assert figures.compared >= 30
    totals[name] = figures.compared


@pytest.mark.parametrize("paths", PAIRS)
def test_no_fact_of_a_pair_has_two_values(
    paths: tuple[str, str], look_in: LookIn, totals: dict[str, int]
) -> None:
    look_in(SAMPLES)
    first, second = (Path(SAMPLES / path) for path in paths)
    pair = load_pair((first, second))
    collector = Collector(compare_runs(pair, pair.runs[0].name))
    collector.add_comparison()
    collector.add_pages(format_pair_name(*paths))
    collector.add_terminal()
    assert collector.figures.disagreements == {}
    assert collector.figures.surfaces >= ALWAYS
    assert collector.figures.compared >= 30
    totals[" and ".join(paths)] = collector.figures.compared


@pytest.mark.parametrize("path", TRACES)
def test_no_fact_of_an_imported_trace_has_two_values(
    path: str, roots: Path, totals: dict[str, int]
) -> None:
    [trace] = [file for file in (SAMPLES / path / "traces").iterdir() if "replay" in file.name]
    import_files([trace], roots / "imported")
    result = compare_runs(load_experiment(roots / "imported"))
    figures = collect_experiment(roots / "imported", result)
    assert figures.disagreements == {}
    assert figures.surfaces >= ALWAYS
    assert figures.compared >= 15
    totals[path] = figures.compared


def test_both_memory_changes_stand_together_where_their_signs_differ(look_in: LookIn) -> None:
    look_in(SAMPLES)
    collector = Collector(compared_sample("mlp-train"))
    collector.add_comparison()
    collector.add_pages("mlp-train")
    texts = collector.figures.texts
    peak = texts["compile", "peak_reserved_change"]
    steady = texts["compile", "device_memory_change"]
    assert set(peak.values()) == {"+36.0 MiB"}
    assert set(steady.values()) == {"-90.0 MiB"}
    assert peak.keys() & steady.keys() >= {"answer", "headline", "memory page sentence"}
