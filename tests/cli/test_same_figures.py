from __future__ import annotations

import json
import re
from collections import defaultdict
from html import unescape
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from graphviz_dash.analysis.metrics.registry import METRICS
from tests.cli.fixtures import Invoke

SAMPLES = ("fork-join", "gpt-train", "recorded-resnet", "sync-in-step", "tp-transformer")

OF_MEMORY = {
    "device_memory": ("total",),
    "device_memory_change": ("change",),
    "iterate_reserved": ("reserved",),
    "activation_memory": ("parts", "activations"),
    "pool_exclusive": ("parts", "private to one graph"),
    "pool_shared": ("parts", "pools, shared"),
    "pool_unused": ("parts", "pools, unused"),
    "workspace_memory": ("parts", "library workspaces"),
    "outside_allocator": ("parts", "outside the allocator"),
    "activation_overhead": ("activation_overhead",),
}
"""Metrics by where `memory --json` has them."""


def figures_of(run: dict[str, Any]) -> dict[str, Any]:
    return {metric: figure["value"] for metric, figure in run["metrics"].items()}


@pytest.mark.parametrize("sample", SAMPLES)
def test_each_command_and_export_tells_the_same_figures(
    sample: str, invoke: Invoke, tmp_path: Path
) -> None:
    path = f"sample_traces/{sample}"
    runs = {run["name"]: run for run in json.loads(invoke("compare", path, "--json").out)["runs"]}
    compared = {name: figures_of(run) for name, run in runs.items()}

    listed = json.loads(invoke("ls", path, "--json").out)["experiments"]
    [own] = [one for one in listed if one["name"] == sample]
    assert {run["name"] for run in own["runs"]} == {*compared}
    for run in own["runs"]:
        assert figures_of(run).items() <= compared[run["name"]].items()

    for name, figures in compared.items():
        shown = figures_of(json.loads(invoke("show", f"{path}/{name}", "--json").out))
        assert shown["traced_step_time"] == figures["traced_step_time"]
        assert shown.items() <= figures.items()

    for run in json.loads(invoke("memory", path, "--json").out)["runs"]:
        for metric, keys in OF_MEMORY.items():
            value: Any = run
            for key in keys:
                value = value[key]
            assert value == compared[run["name"]][metric], metric

    assert invoke("export", "html", path, "-o", str(tmp_path / "report.html")).code == 0
    _report_tells(tmp_path / "report.html", runs)

    assert invoke("export", "perfetto", path, "-o", str(tmp_path / "trace.json")).code == 0
    _trace_has_steps(tmp_path / "trace.json", compared)


def _report_tells(file: Path, runs: dict[str, Any]) -> None:
    """Check one row per known metric, one cell per run, and "-" for unknown values."""
    table = (
        file.read_text(encoding="utf-8").partition("<h2>Metrics</h2>")[2].partition("</table>")[0]
    )
    rows = {}
    for row in re.findall(r"<tr>(<td.*?)</tr>", table):
        first, *cells = (
            unescape(re.sub("<small>.*?</small>|<[^>]+>", "", cell))
            for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)
        )
        rows[first] = cells
    for metric in METRICS.values():
        found = [runs[name]["metrics"][metric.id]["value"] for name in runs]
        title = f"{metric.title}, est." if metric.estimate else metric.title
        if all(value is None for value in found):
            assert title not in rows
            continue
        told = ["–" if value is None else metric.format(value) for value in found]
        assert rows[title] == [*told, metric.source.value]


def _trace_has_steps(file: Path, compared: dict[str, dict[str, Any]]) -> None:
    events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    named = {one["pid"]: one["args"]["name"] for one in events if one.get("name") == "process_name"}
    taken: dict[str, list[float]] = defaultdict(list)
    for one in events:
        if one.get("cat") == "step":
            taken[named[one["pid"]]].append(one["dur"] * 1e3)
    told = {name: figures["traced_step_time"] for name, figures in compared.items()}
    known = {name: value for name, value in told.items() if value is not None}
    assert {name: median(values) for name, values in taken.items()} == pytest.approx(known)
