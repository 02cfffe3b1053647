from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.prediction.eager_step import EagerStep, build_eager_step
from graphviz_dash.analysis.prediction.module_prediction import (
    BY_MARKS,
    ItemModules,
    find_item_modules,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.trace import Trace
from tests.analysis.predictions import line_trace, predicted


class TestParts:
    def test_modules_divide_the_eager_step(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, kernels=12, modules=3))
        assert not isinstance(found.modules, Missing)
        assert {part.name for part in found.modules.modules} == {"net.0", "net.1", "net.2"}
        assert sum(part.eager_ns for part in found.modules.modules) == pytest.approx(found.eager_ns)
        for part in found.modules.modules:
            assert part.kernels == 4
            assert part.graphs == 1
            assert part.graphed_ns == 4 * 2_000 + 4 * 300 + 5_000

    def test_without_modules_it_says_why(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path))
        assert isinstance(found.modules, Missing)
        assert "with_stack=True" in found.modules.reason


def modules_of(trace: Trace) -> ItemModules | Missing:
    step = build_eager_step(trace)
    assert isinstance(step, EagerStep)
    return find_item_modules(trace, step)


def test_the_collectors_ranges_name_the_module_of_each_item(tmp_path: Path) -> None:
    modules = modules_of(line_trace(tmp_path, kernels=6, modules=3))
    assert isinstance(modules, ItemModules)
    assert modules.source == BY_MARKS
    assert modules.names == ("net.0", "net.0", "net.1", "net.1", "net.2", "net.2")


def test_a_trace_without_ranges_names_no_module(tmp_path: Path) -> None:
    modules = modules_of(line_trace(tmp_path))
    assert isinstance(modules, Missing)
    assert modules.fact is Fact.STEP_MODULES
