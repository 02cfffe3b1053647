from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.model.absence import Missing
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
