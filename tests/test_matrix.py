from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from scripts.matrix import list_dependencies, pin_oldest


def test_each_direct_dependency_is_pinned_to_a_version_that_it_allows() -> None:
    dependencies = list_dependencies()
    pins = pin_oldest(dependencies)
    assert len(pins) == len(dependencies) > 0
    for pin, dependency in zip(map(Requirement, pins), map(Requirement, dependencies), strict=True):
        assert (pin.name, pin.marker) == (dependency.name, dependency.marker)
        (bound,) = pin.specifier
        assert dependency.specifier.contains(bound.version)


def test_markers_and_caps() -> None:
    assert pin_oldest(["plotly>=7.1,<8", "a.b>=1.0; python_version < '3.14'"]) == [
        "plotly==7.1",
        "a.b==1.0;python_version<'3.14'",
    ]


def test_a_dependency_without_a_lower_bound_is_an_error() -> None:
    with pytest.raises(ValueError, match="numpy has no lower bound"):
        pin_oldest(["numpy"])
