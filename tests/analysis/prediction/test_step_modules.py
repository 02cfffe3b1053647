from __future__ import annotations

from pathlib import Path

from graphviz_dash.analysis.prediction.eager_step import EagerStep, build_eager_step
from graphviz_dash.analysis.prediction.module_prediction import (
    BY_MARKS,
    ItemModules,
    find_item_modules,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.trace import Trace
from tests.analysis.predictions import line_trace


def modules_of(trace: Trace) -> ItemModules | Missing:
    step = build_eager_step(trace)
    assert isinstance(step, EagerStep)
    return find_item_modules(trace, step)


def test_the_collectors_ranges_name_the_module_of_each_item(tmp_path: Path) -> None:
    modules = modules_of(line_trace(tmp_path, kernels=6, modules=3))
    assert isinstance(modules, ItemModules)
    assert modules.source == BY_MARKS
    assert modules.names == ("net.0", "net.0", "net.1", "net.1", "net.2", "net.2")


def test_a_trace_without_ranges_names_none(tmp_path: Path) -> None:
    modules = modules_of(line_trace(tmp_path))
    assert isinstance(modules, Missing)
    assert modules.fact is Fact.STEP_MODULES
