from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts.matrix import (
    ROOT,
    PassedParts,
    identify_files,
    list_dependencies,
    list_parts,
    pin_oldest,
)


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


def test_every_test_file_is_in_one_part() -> None:
    parts = [ROOT / path for part in list_parts() for path in part]
    for folder in ("tests", "evaluation", "benchmarks"):
        for file in (ROOT / folder).rglob("test_*.py"):
            assert sum(file.is_relative_to(path) for path in parts) == 1, file
    assert len(list_parts()) > 1


def test_a_later_call_skips_the_parts_that_passed_on_the_same_files(tmp_path: Path) -> None:
    path = tmp_path / "passed.txt"
    PassedParts(path, "first").add(["tests/analysis"])
    again = PassedParts(path, "first")
    assert ["tests/analysis"] in again
    assert ["tests/app"] not in again
    again.add(["tests/app"])
    assert ["tests/app"] in PassedParts(path, "first")
    assert ["tests/analysis"] not in PassedParts(path, "second")
    assert ["tests/analysis"] not in PassedParts(path, "first")


def test_files_are_identified_by_their_content() -> None:
    assert len(identify_files()) == 40
    assert identify_files() == identify_files()
